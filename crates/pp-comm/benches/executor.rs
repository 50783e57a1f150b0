//! What the executor itself takes per action: of a step over stages that do nothing, in memory, the time that was spent
//! neither in a computation nor in starting or awaiting a transfer.
//!
//! `cargo bench -p pp-comm --bench executor`; fails when a program's least is not under 2 microseconds per action.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use pp_comm::{
    Boundaries, Boundary, Buffer, DType, Group, MemorySpec, StageCompute, StepReport, StepSpec, Task, execute,
    memory_fabric,
};
use pp_schedule::lower::Policy;
use pp_schedule::{Placement, ScheduleConfig, ScheduleSpec, VerifiedProgram, verify};

const LIMIT: Duration = Duration::from_micros(2);
const STEPS: u64 = 21;

/// Stages that pass one number on.
struct Idle {
    placement: Placement,
}

impl Idle {
    fn made(&self, task: Task) -> Result<Option<Buffer>, Infallible> {
        let makes = pp_schedule::deps::output_of(task.work, self.placement).is_some();
        Ok(makes.then(|| Buffer::i64(&[1], vec![1]).expect("one element")))
    }
}

impl StageCompute for Idle {
    type Error = Infallible;

    fn forward(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        self.made(task)
    }

    fn backward(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        self.made(task)
    }

    fn backward_input(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        self.made(task)
    }

    fn backward_weight(&mut self, _: Task) -> Result<(), Infallible> {
        Ok(())
    }
}

/// By rank: the nanoseconds per action of every step.
fn own_times(verified: &VerifiedProgram) -> Vec<Vec<f64>> {
    let program = verified.program();
    let n_ranks = program.extent.placement.n_ranks();
    let (channels, deadline) = (program.channels.clone(), Duration::from_secs(60));
    let builders =
        memory_fabric(MemorySpec { n_ranks, channels, capacity: 1 << 20, deadline }).expect("ranks in order");
    let boundaries = Boundaries::same(Boundary::new(DType::I64, &[1]).expect("a small shape"));
    std::thread::scope(|scope| {
        let ranks = builders.into_iter().map(|builder| {
            let boundaries = &boundaries;
            scope.spawn(move || {
                let mut member = builder.build();
                let rank = member.endpoint.rank();
                let certified = verified.certified(rank);
                let group = Group::all(n_ranks, rank).expect("one of them");
                let mut stage = Idle { placement: verified.program().extent.placement };
                let step = |step| {
                    let spec = StepSpec { step, group: &group, boundaries };
                    let report = execute(&certified, spec, &mut member.endpoint, &mut stage).expect("it runs");
                    own(&report).as_nanos() as f64 / certified.program().actions.len() as f64
                };
                let times = (0..STEPS).map(step).collect();
                member.close();
                times
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().expect("no rank panics")).collect()
    })
}

fn own(report: &StepReport) -> Duration {
    report.total - report.compute - report.post - report.wait_send - report.wait_receive
}

fn main() -> ExitCode {
    println!("{:<60} {:>9} {:>12} {:>12}", "program", "actions", "least ns", "median ns");
    let mut all_under = true;
    for (pp, vp, m, policy) in [
        (1, 1, 20_000, "lanes"),
        (2, 1, 5_000, "lanes"),
        (4, 2, 2_000, "lanes"),
        (4, 2, 2_000, "megatron"),
        (4, 2, 2_000, "megatron-overlap"),
        (4, 1, 4_000, "stagger"),
    ] {
        let config = ScheduleConfig::new(&ScheduleSpec::new(pp, vp, m)).expect("a valid schedule");
        let policy: Policy = policy.parse().expect("a policy");
        let verified = verify(policy.lower(&config).expect("it takes the schedule")).expect("it is sound");
        for (rank, mut times) in own_times(&verified).into_iter().enumerate() {
            times.sort_unstable_by(f64::total_cmp);
            let (least, median) = (times[0], times[times.len() / 2]);
            let n_actions = verified.program().ranks[rank].actions.len();
            let name = format!("{policy} --pp {pp} --vp {vp} --microbatches {m}, rank {rank}");
            println!("{name:<60} {n_actions:>9} {least:>12.0} {median:>12.0}");
            all_under &= least < LIMIT.as_nanos() as f64;
        }
    }
    if all_under {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: the executor takes {LIMIT:?} per action or more");
    ExitCode::FAILURE
}
