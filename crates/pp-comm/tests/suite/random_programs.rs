//! Programs that nobody would write: random orders, random transfers, random schedules by every policy that takes them, and
//! searched ones, each with messages of other lengths. On every kind of fabric they compute what a serial run does.

use std::collections::BTreeSet;

use pp_comm::{Group, Member, StepSpec, agree, execute};
use pp_schedule::deps::{input_of, output_of, state_from};
use pp_schedule::lower::written::{self, Item, Wires};
use pp_schedule::lower::{Policy, lanes, lower_proved};
use pp_schedule::synth::{Budget, Problem, search_within};
use pp_schedule::{
    Channel, Extent, Message, Microbatch, Order, Placement, Program, Role, ScheduleConfig, ScheduleKind, ScheduleSpec,
    SlotClass, Stage, VerifiedProgram, Work, WorkKind, verify,
};

use crate::common::{EVERY, Kind, run};
use crate::memory::predicted;
use crate::random::Random;
use crate::toy::{Outcome, Toy, serial};

/// Programs of each sort over each number of ranks.
const OF_EACH: usize = 8;

/// A proved program, and how long its messages are, over and over.
struct Case {
    name: String,
    verified: VerifiedProgram,
    lens: Vec<usize>,
}

/// A step in the making: who may do what next.
struct Play<'a> {
    random: &'a mut Random,
    extent: Extent,
    open: Vec<Work>,
    done: BTreeSet<Work>,
    /// Made for another rank, and not sent.
    made: Vec<Message>,
    arrived: BTreeSet<Message>,
    rows: Vec<Vec<Item>>,
}

impl Play<'_> {
    /// What ranks compute and transfer when each thing that can happen next is as likely as any other. Some backwards are
    /// whole, the others split.
    fn rows(random: &mut Random, extent: Extent) -> Vec<Vec<Item>> {
        let mut open = Vec::new();
        let stages = (0..extent.placement.n_stages()).map(Stage);
        for (stage, microbatch) in
            stages.flat_map(|stage| (0..extent.microbatches).map(move |m| (stage, Microbatch(m))))
        {
            let kinds: &[WorkKind] = match (extent.forward_only, random.below(2)) {
                (true, _) => &[WorkKind::Forward],
                (false, 0) => &[WorkKind::Forward, WorkKind::Backward],
                (false, _) => &[WorkKind::Forward, WorkKind::BackwardInput, WorkKind::BackwardWeight],
            };
            open.extend(kinds.iter().map(|&kind| Work { kind, stage, microbatch }));
        }
        let rows = vec![Vec::new(); extent.placement.n_ranks() as usize];
        let (done, arrived, made) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let mut play = Play { random, extent, open, done, made, arrived, rows };
        while !play.open.is_empty() || !play.made.is_empty() {
            play.turn();
        }
        play.rows
    }

    fn turn(&mut self) {
        let ready: Vec<usize> = (0..self.open.len()).filter(|&index| self.is_ready(self.open[index])).collect();
        let chosen = self.random.below((ready.len() + self.made.len()) as u64) as usize;
        if let Some(&index) = ready.get(chosen) {
            let work = self.open.swap_remove(index);
            self.compute(work);
        } else {
            let message = self.made.swap_remove(chosen - ready.len());
            self.transfer(message);
        }
    }

    fn is_ready(&self, work: Work) -> bool {
        let placement = self.extent.placement;
        let has_state = state_from(work.kind).is_none_or(|kind| self.done.contains(&Work { kind, ..work }));
        has_state && input_of(work, placement).is_none_or(|message| self.arrived.contains(&message))
    }

    fn compute(&mut self, work: Work) {
        let placement = self.extent.placement;
        self.done.insert(work);
        self.rows[placement.rank_of(work.stage).idx()].push(Item::Compute(work, None));
        if let Some(message) = output_of(work, placement).filter(|_| !self.is_last_of(work)) {
            if placement.rank_of(message.stage) == placement.rank_of(work.stage) {
                self.arrived.insert(message);
            } else {
                self.made.push(message);
            }
        }
    }

    /// Nobody takes what comes out of it.
    fn is_last_of(&self, work: Work) -> bool {
        work.kind == WorkKind::BackwardWeight
    }

    fn transfer(&mut self, message: Message) {
        let placement = self.extent.placement;
        for (role, stage) in [(Role::Send, message.made_by()), (Role::Receive, message.stage)] {
            let (direction, microbatch) = (message.direction, message.microbatch);
            self.rows[placement.rank_of(stage).idx()].push(Item::Transfer { role, direction, stage, microbatch });
        }
        self.arrived.insert(message);
    }
}

fn extent(random: &mut Random, pp: u32) -> Extent {
    let placement = match random.below(4) {
        0 => Placement::v(pp),
        chunks => Placement::looped(pp, chunks as u32),
    };
    let (microbatches, forward_only) = (1 + random.below(6) as u32, random.below(5) == 0);
    Extent { placement, microbatches, forward_only }
}

/// Random orders, their transfers added with random prefetch, or the least that passes.
fn by_lanes(random: &mut Random, pp: u32) -> VerifiedProgram {
    let extent = extent(random, pp);
    let computes = |row: Vec<Item>| {
        row.into_iter().filter_map(|item| match item {
            Item::Compute(work, _) => Some(work),
            Item::Transfer { .. } => None,
        })
    };
    let rows = Play::rows(random, extent).into_iter().map(|row| computes(row).collect()).collect();
    let order = Order::new(extent, rows).expect("every computation in its turn");
    let mut ahead = || 1 + random.below(4) as u32;
    let options = lanes::Options { receives_ahead: ahead(), ring_receives_ahead: ahead(), sends_in_flight: ahead() };
    match verify(lanes::lower_order(&order, options)) {
        Ok(verified) => verified,
        Err(_) => lower_proved(&order).expect("enough prefetch helps every order").0,
    }
}

/// Random orders with transfers where chance has them.
fn as_written(random: &mut Random, pp: u32) -> VerifiedProgram {
    let extent = extent(random, pp);
    let rows = Play::rows(random, extent);
    let wires = if random.below(2) == 0 { Wires::PerPair } else { Wires::PerPairAndDirection };
    let written = written::lower(extent, &rows, wires).expect("every item makes sense where it stands");
    verify(written.program).expect("what has happened one by one can happen")
}

/// A random schedule by a random policy that takes it.
fn by_policy(random: &mut Random, pp: u32) -> (String, Program) {
    loop {
        let kind = ScheduleKind::ALL[random.below(ScheduleKind::ALL.len() as u64) as usize];
        let (vp, m) = (1 + random.below(3) as u32, 1 + random.below(12) as u32);
        let spec = ScheduleSpec { schedule: Some(kind), ..ScheduleSpec::new(pp, vp, m) };
        let Ok(config) = ScheduleConfig::new(&spec) else { continue };
        let config = if random.below(5) == 0 { config.to_forward_only() } else { config };
        let (name, policy) = Policy::ALL[random.below(Policy::ALL.len() as u64) as usize];
        if let Ok(program) = policy.lower(&config) {
            return (format!("{name} of {spec:?}"), program);
        }
    }
}

/// A schedule searched for random costs.
fn searched(random: &mut Random, pp: u32) -> VerifiedProgram {
    let mut ticks = || 1 + random.below(9);
    let (forward, backward_input, backward_weight, latency) = (ticks(), ticks(), ticks(), ticks());
    let (chunks, microbatches) = (1 + random.below(2) as u32, 1 + random.below(6) as u32);
    let problem =
        Problem { forward, backward_input, backward_weight, latency, ..Problem::unit(pp, chunks, microbatches) };
    let solution = search_within(&problem, Budget::QUICK).expect("it has an order");
    let extent = Extent { placement: solution.placement, microbatches, forward_only: false };
    let order = Order::new(extent, solution.rows).expect("an order");
    lower_proved(&order).expect("it can be lowered").0
}

fn cases(pp: u32) -> Vec<Case> {
    let mut cases = Vec::new();
    for seed in 0..OF_EACH as u64 {
        let random = &mut Random::new(1000 * u64::from(pp) + seed);
        let (name, program) = by_policy(random, pp);
        let sorts = [
            ("a random order".to_owned(), by_lanes(random, pp)),
            ("random transfers".to_owned(), as_written(random, pp)),
            (name, verify(program).expect("every policy's program is sound")),
            ("a search".to_owned(), searched(random, pp)),
        ];
        cases.extend(sorts.into_iter().map(|(name, verified)| {
            // Now and then more than what is written at once.
            let mut len = || {
                let most = if random.below(6) == 0 { 40_000 } else { 50 };
                1 + random.below(most) as usize
            };
            let lens = (0..3).map(|_| len()).collect();
            Case { name: format!("{name}, {pp} ranks, seed {seed}, {:?}", verified.program().extent), verified, lens }
        }));
    }
    cases
}

impl Case {
    fn step(&self, member: &mut Member, step: u64) -> Outcome {
        let (rank, extent) = (member.endpoint.rank(), self.verified.program().extent);
        let group = Group::all(extent.placement.n_ranks(), rank).expect("one of the ranks");
        let program = self.verified.certified(rank);
        let boundaries = Toy::boundaries(&self.lens, extent.microbatches);
        let spec = StepSpec { step, group: &group, boundaries: &boundaries };
        let boundaries = agree(&program, spec, &mut member.endpoint).expect("all agree");
        let mut toy = Toy::with_lens(extent.placement.n_stages(), &self.lens);
        let spec = StepSpec { boundaries: &boundaries, ..spec };
        let report = execute(&program, spec, &mut member.endpoint, &mut toy);
        let report = report.unwrap_or_else(|error| panic!("{}: {error}: {}", self.name, error.fault));
        for class in SlotClass::ALL {
            assert_eq!(report.peak(class), program.program().n_slots(class), "{}: {}", self.name, class.name());
        }
        let n_bytes = |microbatch| boundaries.of(microbatch).map_or(0, |boundary| boundary.n_bytes() as u64);
        assert_eq!(report.peak_bytes(), predicted(program.program(), n_bytes), "{}", self.name);
        toy.outcome
    }
}

/// One program after the other on one fabric.
fn compare(kind: Kind, pp: u32, cases: &[Case]) {
    let channels: Vec<Channel> = cases.iter().flat_map(|case| case.verified.program().channels.clone()).collect();
    let outcomes = run(kind, pp, &channels, |mut member| {
        let outcomes: Vec<Outcome> = (0..).zip(cases).map(|(step, case)| case.step(&mut member, step)).collect();
        member.close();
        outcomes
    });
    for (index, case) in cases.iter().enumerate() {
        let whole = Outcome::merged(outcomes.iter().map(|outcomes| outcomes[index].clone()));
        let extent = case.verified.program().extent;
        let serial = serial(extent.placement.n_stages(), extent.microbatches, extent.forward_only);
        assert_eq!(whole, serial, "{kind:?}: {}", case.name);
    }
}

#[test]
fn random_programs_compute_what_a_serial_run_does_on_every_fabric() {
    for pp in 1..=4 {
        let cases = cases(pp);
        for kind in EVERY {
            compare(kind, pp, &cases);
        }
    }
}
