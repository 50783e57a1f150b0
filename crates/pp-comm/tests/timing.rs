//! The simulator against the executor: stages that sleep as long as they are said to cost, on threads of one process. It stands
//! alone in its binary: cargo runs binaries one after the other, and what runs beside it would be measured too.

use std::convert::Infallible;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use pp_comm::{
    Boundaries, Boundary, Buffer, DType, Did, Group, MemoryBuilder, MemorySpec, Recording, StageCompute, StepSpec,
    Task, execute_recorded, memory_fabric,
};
use pp_schedule::{
    Placement, ScheduleConfig, ScheduleKind, ScheduleSpec, Stage, VerifiedProgram, Work,
    lower::lanes,
    simulate::{Costs, Sends, StageCosts, Timeline},
    verify,
};

/// How far the measured length of a step may be from the foretold one.
const WITHIN: f64 = 0.05;
/// A machine that does something else may spoil a measurement; it does not make one right by chance.
const ATTEMPTS: usize = 10;

/// Costs in microseconds, uneven over stages and kinds; an input gradient and a weight gradient are not half of a backward.
fn costs(placement: Placement) -> Costs {
    let of = |stage: u32| {
        let forward = 3000 + 1500 * u64::from(stage * 5 % 4);
        let (input, weight) = (forward + 2000, forward / 2 + 2000);
        StageCosts { forward, backward: input + weight, backward_input: input, backward_weight: weight }
    };
    Costs::per_stage((0..placement.n_stages()).map(of).collect())
}

/// Sleeps and makes messages of nothing.
struct Sleeper<'a> {
    costs: &'a Costs,
    placement: Placement,
}

impl Sleeper<'_> {
    fn work(&self, work: Work, makes: bool) -> Result<Option<Buffer>, Infallible> {
        sleep(Duration::from_micros(self.costs.of(work)));
        Ok(makes.then(|| Buffer::i64(&[1], vec![0]).expect("one element")))
    }

    fn sends_on(&self, stage: Stage) -> bool {
        !self.placement.is_last(stage)
    }
}

impl StageCompute for Sleeper<'_> {
    type Error = Infallible;

    fn forward(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        self.work(task.work, self.sends_on(task.work.stage))
    }

    fn backward(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        self.work(task.work, task.work.stage.0 > 0)
    }

    fn backward_input(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        self.work(task.work, task.work.stage.0 > 0)
    }

    fn backward_weight(&mut self, task: Task) -> Result<(), Infallible> {
        self.work(task.work, false).map(drop)
    }
}

/// Runs a rank's program; when it began, and when its last computation ended.
fn run_rank(builder: MemoryBuilder, verified: &VerifiedProgram, costs: &Costs) -> (Instant, Instant) {
    let mut member = builder.build();
    let certified = verified.certified(member.endpoint.rank());
    let boundaries = Boundaries::same(Boundary::new(DType::I64, &[1]).expect("a small shape"));
    let mut recording = Recording::default();
    let mut stage = Sleeper { costs, placement: verified.program().extent.placement };
    member.control.barrier().expect("all are here");
    let group = Group::all(verified.program().extent.placement.n_ranks(), member.endpoint.rank())
        .expect("a rank of the pipeline");
    let spec = StepSpec { step: 0, group: &group, boundaries: &boundaries };
    execute_recorded(&certified, spec, &mut member.endpoint, &mut stage, &mut recording).expect("it runs");
    member.close();
    let computes = recording.spans().iter().filter(|span| matches!(span.did, Did::Compute(_)));
    let last = computes.map(|span| span.end).max().expect("it computes");
    (recording.began(), recording.began() + last)
}

/// From when the first rank begins until the last computation of all ends, in microseconds.
fn measured(verified: &VerifiedProgram, costs: &Costs, capacity: u64) -> f64 {
    let program = verified.program();
    let (n_ranks, channels) = (program.extent.placement.n_ranks(), program.channels.clone());
    let spec = MemorySpec { n_ranks, channels, capacity, deadline: Duration::from_secs(60) };
    let builders = memory_fabric(spec).expect("the channels are between the ranks");
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let ranks = builders.into_iter().map(|builder| scope.spawn(move || run_rank(builder, verified, costs)));
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().expect("no rank panics")).collect()
    });
    let first = times.iter().map(|(began, _)| *began).min().expect("a rank");
    let last = times.iter().map(|(_, ended)| *ended).max().expect("a rank");
    (last - first).as_secs_f64() * 1e6
}

/// The best of some attempts: how far from foretold, as a share of that.
fn deviation(verified: &VerifiedProgram, costs: &Costs, sends: Sends) -> f64 {
    let foretold = Timeline::of_program(verified.program(), costs, sends).expect("it is verified").makespan() as f64;
    // A memory channel with room for all takes every send at once; one without holds it until its receive is posted.
    let capacity = if sends == Sends::Eager { 1 << 20 } else { 0 };
    let mut best = f64::INFINITY;
    for _ in 0..ATTEMPTS {
        let deviation = (measured(verified, costs, capacity) - foretold).abs() / foretold;
        best = best.min(deviation);
        if best < WITHIN {
            break;
        }
    }
    best
}

/// `(schedule, pp, vp, microbatches)`.
const SCHEDULES: [(ScheduleKind, u32, u32, u32); 7] = [
    (ScheduleKind::GPipe, 3, 1, 4),
    (ScheduleKind::OneFOneB, 4, 1, 6),
    (ScheduleKind::Interleaved, 2, 2, 4),
    (ScheduleKind::ZbH1, 4, 1, 5),
    (ScheduleKind::ZbH2, 3, 1, 6),
    (ScheduleKind::ZbV, 3, 2, 4),
    (ScheduleKind::DualPipeV, 2, 2, 4),
];

#[test]
#[ignore = "it measures time: `cargo xtask ci timing`"]
fn a_step_of_sleeping_stages_takes_as_long_as_foretold() {
    for (kind, pp, vp, microbatches) in SCHEDULES {
        let spec = ScheduleSpec { schedule: Some(kind), ..ScheduleSpec::new(pp, vp, microbatches) };
        let config = ScheduleConfig::new(&spec).expect("a valid schedule");
        let verified = verify(lanes::lower(&config)).expect("every schedule is sound");
        let costs = costs(config.placement());
        for sends in [Sends::Eager, Sends::Rendezvous] {
            let deviation = deviation(&verified, &costs, sends);
            println!("{kind} over {pp} ranks, {microbatches} microbatches, {sends:?}: {:.2}%", 100.0 * deviation);
            assert!(deviation < WITHIN, "{kind} {sends:?}: {:.1}% from what was foretold", 100.0 * deviation);
        }
    }
}
