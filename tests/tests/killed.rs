//! Ranks that are killed or stopped at random moments: the others and the launcher end soon, say which rank it was and what
//! they were blocked on, and leave no process. `PP_TEST_KILLS` is how many ranks are killed [default: 20].
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use workspace_tests::{Finished, Job};

const LONG: Duration = Duration::from_secs(120);
/// What everything that is left may take to end.
const SOON: Duration = Duration::from_secs(5);

/// As `--heartbeat` below.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A run that would go on for hours, of a random shape.
struct Shape {
    pp: u32,
    vp: u32,
}

impl Shape {
    fn roll(dice: &mut Dice) -> Self {
        Self { pp: 2 + dice.below(3) as u32, vp: 1 + dice.below(3) as u32 }
    }

    fn start(&self, further: &str) -> Job {
        let &Self { pp, vp } = self;
        let mut line = format!(
            "--pp={pp} --mock-data --num-layers={} --microbatches={} --hidden-size=16 --num-heads=2 --seq-length=16 \
             --micro-batch-size=1 --threads=1 --train-iters=1000000 {further}",
            pp * vp,
            2 * pp
        );
        if vp > 1 {
            line += &format!(" --vp={vp}");
        }
        Job::launch(&line.split_whitespace().collect::<Vec<_>>())
    }
}

/// The lines that stand before the last one, without the ranks' own.
fn told(finished: &Finished) -> Vec<&str> {
    finished.stderr.iter().map(String::as_str).filter(|line| !line.starts_with("[rank ")).collect()
}

/// Kills a random rank of a run of a random shape.
fn kill_one(seed: u64) {
    let mut dice = Dice(seed);
    let shape = Shape::roll(&mut dice);
    let rank = dice.below(shape.pp.into()) as u32;
    let mut job = shape.start("");
    // Now and then before training has begun.
    let is_early = dice.below(5) == 0;
    if is_early {
        job.wait_for_processes(shape.pp as usize + 1, LONG);
        thread::sleep(Duration::from_millis(dice.below(100)));
    } else {
        job.wait_for_line(&format!("iteration {}/", 1 + dice.below(5)), LONG);
        thread::sleep(Duration::from_micros(dice.below(30_000)));
    }
    let start = Instant::now();
    job.signal_rank(rank, Signal::KILL);
    let finished = job.wait(LONG);
    let (took, Shape { pp, vp }) = (start.elapsed(), shape);
    let case = format!("seed {seed}: rank {rank} of pp {pp}, vp {vp}, early {is_early}, {took:?}\n{finished}");
    assert!(took < SOON, "{case}");
    assert_eq!(finished.code, Some(3), "{case}");
    let last = format!("error: rank {rank} was killed by signal 9 (SIGKILL); the other ranks were stopped");
    assert_eq!(finished.last_word(), last, "{case}");
    assert!(job.processes().is_empty(), "{case}\n{:?}", job.processes());
    if is_early {
        // Ranks that have not met yet have nothing to tell.
        return;
    }
    let told = told(&finished);
    let has = |parts: &[&str]| told.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(told[0] == format!("rank {rank} was killed by signal 9 (SIGKILL)"), "{case}");
    // Its last sign of life, or its last message where none was heard yet.
    let last = [format!("rank {rank} last reported, "), format!("the last that came from rank {rank}: ")];
    assert!(last.iter().any(|last| has(&[last])), "{case}");
    assert!(has(&["cargo xtask explain ", "what the ranks did last is in "]), "{case}");
    for other in (0..pp).filter(|&other| other != rank) {
        assert!(has(&[&format!("  rank {other} was ")]), "rank {other} left no record\n{case}");
        let says = format!("[rank {other}] error: ");
        let own = finished.stderr.iter().find(|line| line.starts_with(&says));
        let own = own.unwrap_or_else(|| panic!("rank {other} says nothing\n{case}"));
        assert!(own.contains(&format!("rank {rank} is lost")) && own.contains("what it did last is in "), "{case}");
    }
    // Whoever waits for the killed rank says for what.
    let neighbour = if rank == 0 { 1 } else { rank - 1 };
    let blocked = finished.stderr.iter().find(|line| line.starts_with(&format!("[rank {neighbour}] error: ")));
    let is_placed = |line: &String| line.contains("action ") || line.contains("it was in ");
    assert!(blocked.is_some_and(is_placed), "rank {neighbour}\n{case}");
}

#[test]
fn a_rank_killed_at_any_moment_is_named_and_nothing_is_left() {
    let kills: u64 = std::env::var("PP_TEST_KILLS").map_or(20, |text| text.parse().expect("PP_TEST_KILLS is a number"));
    let next = AtomicU64::new(0);
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get()) as u64;
    thread::scope(|scope| {
        for _ in 0..cores.min(kills) {
            scope.spawn(|| {
                // Each new launch shows that the killed one before it is in nobody's way.
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= kills {
                        return;
                    }
                    kill_one(seed);
                }
            });
        }
    });
}

#[test]
fn a_frozen_rank_is_told_from_a_dead_one_and_named() {
    for seed in 100..103 {
        let mut dice = Dice(seed);
        let shape = Shape::roll(&mut dice);
        let rank = dice.below(shape.pp.into()) as u32;
        let mut job = shape.start(&format!("--heartbeat={}", HEARTBEAT.as_secs()));
        job.wait_for_line("iteration 2/", LONG);
        thread::sleep(Duration::from_micros(dice.below(30_000)));
        let start = Instant::now();
        job.signal_rank(rank, Signal::STOP);
        job.wait_for_error("no heartbeat", HEARTBEAT + Duration::from_secs(2));
        let finished = job.wait(LONG);
        let case = format!("seed {seed}: rank {rank} of {}, {:?}\n{finished}", shape.pp, start.elapsed());
        assert!(start.elapsed() < HEARTBEAT + SOON, "{case}");
        assert_eq!(finished.code, Some(3), "{case}");
        let last = finished.last_word();
        assert!(last.starts_with(&format!("error: rank {rank} froze")) && last.contains("no heartbeat"), "{case}");
        assert!(told(&finished)[0].starts_with(&format!("rank {rank} froze: ")), "{case}");
        assert!(job.processes().is_empty(), "{case}\n{:?}", job.processes());
    }
}

#[test]
fn a_killed_launcher_takes_ranks_of_every_shape_with_it() {
    for seed in 200..203 {
        let mut dice = Dice(seed);
        let shape = Shape::roll(&mut dice);
        let job = shape.start("");
        job.wait_for_line("iteration 2/", LONG);
        thread::sleep(Duration::from_micros(dice.below(30_000)));
        job.signal(Signal::KILL);
        assert!(job.gone_within(SOON), "seed {seed}: {:?}", job.processes());
    }
}
