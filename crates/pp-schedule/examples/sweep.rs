//! Every schedule under every policy, at every size up to 8 ranks, 4 chunks and 24 microbatches: proved, or refused by
//! the stated rule. `cargo run --release -p pp-schedule --features rayon --example sweep`

use std::process::ExitCode;
use std::time::Instant;

use pp_schedule::sweep::{Bounds, Tally, sweep};

fn main() -> ExitCode {
    let start = Instant::now();
    let report = sweep(&Bounds::FULL);
    let seconds = start.elapsed().as_secs_f64();
    println!("pp 1-8, vp 1-4, microbatches 1-24, every group size, training and forward-only");
    println!("{:>9} schedules, {} specs refused by the rule", report.specs.proved, report.specs.refused);
    for (policy, Tally { proved, refused }) in
        [("lanes", report.lanes), ("megatron", report.megatron), ("stagger", report.stagger)]
    {
        println!("{proved:>9} programs of {policy} proved, {refused} refused by its rule");
    }
    println!("{:>9} programs, {} actions proved in {seconds:.1} s", report.proved(), report.actions);
    for failure in report.failures.iter().take(20) {
        eprintln!("failed: {failure}");
    }
    if report.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        eprintln!("error: {} failures", report.failures.len());
        ExitCode::FAILURE
    }
}
