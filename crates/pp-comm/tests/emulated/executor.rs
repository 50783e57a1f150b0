//! The executor over every policy and schedule, between processes, against a serial run: in every way that messages can go over
//! NCCL, with stages on the host and stages on devices.

use std::collections::BTreeMap;

use pp_comm::{Communicators, Group, HandOver, StageCompute, StepSpec, Waits, execute};
use pp_schedule::verify::{GroupedError, check_grouped};
use pp_schedule::{Channel, Extent, SlotClass};

use crate::common::Kind;
use crate::gpu::Way;
use crate::harness::{Run, Seat};
use crate::programs::{Case, cases, sizes, thinned};
use crate::stage::{self, Made, Rotating};
use crate::toy::{self, Outcome, Toy};

/// How messages go, and which stages make them.
#[derive(Clone, Copy, Debug)]
enum Stages {
    OnHost,
    OnDevice,
}

/// What a rank, or all together, made.
type Result = BTreeMap<String, Vec<i64>>;

impl Case {
    fn extent(&self) -> Extent {
        self.verified.program().extent
    }

    /// A step of it.
    fn step(&self, seat: &mut Seat, stages: Stages, step: u64) -> Result {
        let n_stages = self.extent().placement.n_stages();
        match stages {
            Stages::OnHost => {
                let mut toy = Toy::with_lens(n_stages, &self.lens);
                self.execute(seat, step, &mut toy);
                named(toy.outcome)
            }
            Stages::OnDevice => {
                let gpu = seat.gpu.as_ref().expect("it has a device");
                let mut rotating = Rotating::new(&gpu.stream, n_stages, &self.lens);
                self.execute(seat, step, &mut rotating);
                rotating.made()
            }
        }
    }

    /// Runs a step; the slots in use are those that the program states.
    fn execute(&self, seat: &mut Seat, step: u64, stage: &mut impl StageCompute) {
        let rank = seat.member.endpoint.rank();
        let group = Group::all(self.extent().placement.n_ranks(), rank).expect("one of the ranks");
        let program = self.verified.certified(rank);
        let boundaries = Toy::boundaries(&self.lens, self.extent().microbatches);
        let spec = StepSpec { step, group: &group, boundaries: &boundaries };
        let report = execute(&program, spec, &mut seat.member.endpoint, stage);
        let report = report.unwrap_or_else(|error| panic!("{}: {error}: {}", self.name, error.fault));
        for class in SlotClass::ALL {
            assert_eq!(report.peak(class), program.program().n_slots(class), "{}: {}", self.name, class.name());
        }
    }

    fn serial(&self, stages: Stages) -> Made {
        let Extent { placement, microbatches, forward_only } = self.extent();
        match stages {
            Stages::OnHost => named(toy::serial(placement.n_stages(), microbatches, forward_only)),
            Stages::OnDevice => {
                stage::serial(self.extent(), |microbatch| self.lens[microbatch as usize % self.lens.len()])
            }
        }
    }
}

fn named(outcome: Outcome) -> Result {
    let losses = outcome.losses.into_iter().map(|(microbatch, loss)| (format!("loss {microbatch}"), vec![loss]));
    let gradients = outcome.gradients.into_iter().map(|(stage, sum)| (format!("gradient {stage}"), vec![sum]));
    losses.chain(gradients).collect()
}

/// One program after the other, in one set of processes.
fn compare(kind: Kind, stages: Stages, pp: u32, cases: &[Case]) {
    let channels: Vec<Channel> = cases.iter().flat_map(|case| case.verified.program().channels.clone()).collect();
    let results = Run::new(kind, pp, &channels).all(|mut seat| {
        let results: Vec<Result> = (0..).zip(cases).map(|(step, case)| case.step(&mut seat, stages, step)).collect();
        seat.member.control.barrier().expect("all are done");
        seat.member.close();
        results
    });
    for (index, case) in cases.iter().enumerate() {
        let whole: Result = results.iter().flat_map(|results| results[index].clone()).collect();
        assert_eq!(whole, case.serial(stages), "{kind:?}, {stages:?}: {}", case.name);
    }
}

/// Every program that is tried, in one way; where one communicator would not do, that is said beforehand.
fn every_program(stages: Stages, way: Way) {
    let (mut n_run, mut n_refused) = (0, 0);
    for (pp, vp) in sizes() {
        let (mut fit, n_all) = (cases(pp, vp), cases(pp, vp).len());
        assert!(n_all >= 12, "pp {pp}, vp {vp}: {n_all}");
        if way.communicators == Communicators::One {
            fit.retain(|case| match check_grouped(case.verified.program()) {
                Ok(()) => true,
                Err(GroupedError::Order { .. } | GroupedError::Circle { .. }) => false,
                Err(other) => panic!("{}: {other}", case.name),
            });
            n_refused += n_all - fit.len();
        }
        let chosen = thinned(fit, (pp, vp));
        n_run += chosen.len();
        if !chosen.is_empty() {
            compare(Kind::Nccl(way), stages, pp, &chosen);
        }
    }
    println!("{stages:?}, {way:?}: {n_run} programs run, {n_refused} refused");
    assert!(n_run >= 20, "{n_run}");
}

#[test]
fn stages_on_the_host_compute_what_a_serial_run_does() {
    every_program(Stages::OnHost, Way::HOST);
}

#[test]
fn stages_on_the_host_compute_what_a_serial_run_does_over_one_communicator() {
    every_program(Stages::OnHost, Way { communicators: Communicators::One, ..Way::HOST });
}

#[test]
fn stages_on_devices_compute_what_a_serial_run_does() {
    every_program(Stages::OnDevice, Way::DEFAULT);
}

#[test]
fn stages_on_devices_compute_what_a_serial_run_does_with_waits_on_the_host() {
    every_program(Stages::OnDevice, Way { waits: Waits::OnHost, ..Way::DEFAULT });
}

#[test]
fn stages_on_devices_compute_what_a_serial_run_does_over_one_communicator() {
    for waits in [Waits::OnStream, Waits::OnHost] {
        every_program(Stages::OnDevice, Way { communicators: Communicators::One, waits, ..Way::DEFAULT });
    }
}

/// It needs no device.
#[test]
fn the_same_programs_run_over_sockets() {
    let (pp, vp) = (3, 2);
    compare(Kind::Socket, Stages::OnHost, pp, &thinned(cases(pp, vp), (pp, vp)));
}

/// A hand-over to the host waits there, whatever is asked for.
#[test]
fn what_is_handed_over_on_the_host_is_there_whatever_waits_are_asked_for() {
    let way = Way { hand_over: HandOver::Host, waits: Waits::OnStream, ..Way::DEFAULT };
    compare(Kind::Nccl(way), Stages::OnHost, 2, &thinned(cases(2, 2), (2, 2)));
}
