//! How long it takes to build and to prove whole schedules: `cargo bench -p pp-schedule`.
//!
//! Prints, per size, the median and the minimum of several runs of each part, in milliseconds. Arguments `PP V M`
//! (and `--runs N`) measure one size instead of the usual ones.

use std::hint::black_box;
use std::time::Instant;

use pp_schedule::lower::lanes;
use pp_schedule::{Order, Rank, ScheduleConfig, ScheduleSpec, verify};

/// Ranks, chunks per rank and microbatches, from small to what a large cluster runs.
const SIZES: [(u32, u32, u32); 6] =
    [(16, 4, 128), (32, 4, 128), (32, 4, 256), (64, 4, 512), (128, 4, 512), (256, 4, 1024)];

/// One run: milliseconds for the order, the lowering, the proof, and one rank's program alone.
struct Run {
    order: f64,
    lowering: f64,
    proof: f64,
    one_rank: f64,
}

fn main() {
    let mut numbers = Vec::new();
    let mut n_runs = 9;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo says that it is a bench.
            "--bench" => {}
            "--runs" => n_runs = arguments.next().and_then(|n| n.parse().ok()).expect("--runs N"),
            number => numbers.push(number.parse::<u32>().expect("usage: [PP V M] [--runs N]")),
        }
    }
    println!(
        "milliseconds, median (minimum) of {n_runs} runs after one that is not counted; total = order + lowering + proof"
    );
    println!(
        "  pp  v    m    actions            order         lowering            proof            total  ns/action         one rank"
    );
    match numbers[..] {
        [] => SIZES.iter().for_each(|&size| measure(size, n_runs)),
        [pp, v, m] => measure((pp, v, m), n_runs),
        _ => panic!("usage: [PP V M] [--runs N]"),
    }
}

fn measure((pp, v, m): (u32, u32, u32), n_runs: usize) {
    let config = ScheduleConfig::new(&ScheduleSpec::new(pp, v, m)).expect("a valid size");
    let (_, n_actions) = run(&config);
    let runs: Vec<Run> = (0..n_runs.max(1)).map(|_| run(&config).0).collect();
    let column = |part: fn(&Run) -> f64| median_and_min(runs.iter().map(part).collect());
    let (total, _) = column(|run| run.order + run.lowering + run.proof);
    let parts: [fn(&Run) -> f64; 5] = [
        |run| run.order,
        |run| run.lowering,
        |run| run.proof,
        |run| run.order + run.lowering + run.proof,
        |run| run.one_rank,
    ];
    let shown = parts.map(|part| {
        let (median, min) = column(part);
        format!("{median:8.2} ({min:6.2})")
    });
    let [order, lowering, proof, whole, one_rank] = shown;
    let per_action = total * 1e6 / n_actions as f64;
    println!("{pp:4} {v:2} {m:4} {n_actions:10} {order} {lowering} {proof} {whole} {per_action:10.1} {one_rank}");
}

/// Builds and proves once, and says how many actions there are.
fn run(config: &ScheduleConfig) -> (Run, usize) {
    let options = lanes::Options::for_config(config);
    let (order, order_ms) = timed(|| Order::generate(config));
    let (program, lowering) = timed(|| lanes::lower_order(&order, options));
    let (verdict, proof) = timed(|| verify::check(&program));
    verdict.expect("proved");
    let (_, one_rank) = timed(|| lanes::lower_rank(config, Rank(config.pp() / 2)));
    let n_actions = program.ranks.iter().map(|rank| rank.actions.len()).sum();
    (Run { order: order_ms, lowering, proof, one_rank }, n_actions)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let made = black_box(work());
    (made, start.elapsed().as_secs_f64() * 1e3)
}

fn median_and_min(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_unstable_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}
