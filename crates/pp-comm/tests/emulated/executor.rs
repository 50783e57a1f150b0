//! The executor over every policy and schedule, between processes, against a serial run.

use pp_comm::{Group, StepSpec, execute};
use pp_schedule::{Channel, SlotClass};

use crate::common::Kind;
use crate::harness::{Run, Seat};
use crate::programs::{Case, cases, sizes};
use crate::toy::{Outcome, Toy, serial};

impl Case {
    /// A step of it.
    fn step(&self, seat: &mut Seat, step: u64) -> Outcome {
        let (rank, extent) = (seat.member.endpoint.rank(), self.verified.program().extent);
        let group = Group::all(extent.placement.n_ranks(), rank).expect("one of the ranks");
        let program = self.verified.certified(rank);
        let boundaries = Toy::boundaries(&self.lens, extent.microbatches);
        let spec = StepSpec { step, group: &group, boundaries: &boundaries };
        let mut toy = Toy::with_lens(extent.placement.n_stages(), &self.lens);
        let report = execute(&program, spec, &mut seat.member.endpoint, &mut toy);
        let report = report.unwrap_or_else(|error| panic!("{}: {error}: {}", self.name, error.fault));
        for class in SlotClass::ALL {
            assert_eq!(report.peak(class), program.program().n_slots(class), "{}: {}", self.name, class.name());
        }
        toy.outcome
    }

    fn serial(&self) -> Outcome {
        let extent = self.verified.program().extent;
        serial(extent.placement.n_stages(), extent.microbatches, extent.forward_only)
    }
}

/// One program after the other, in one set of processes.
fn compare(kind: Kind, pp: u32, cases: &[Case]) {
    let channels: Vec<Channel> = cases.iter().flat_map(|case| case.verified.program().channels.clone()).collect();
    let outcomes = Run::new(kind, pp, &channels).all(|mut seat| {
        let outcomes: Vec<Outcome> = (0..).zip(cases).map(|(step, case)| case.step(&mut seat, step)).collect();
        seat.member.control.barrier().expect("all are done");
        seat.member.close();
        outcomes
    });
    for (index, case) in cases.iter().enumerate() {
        let whole = Outcome::merged(outcomes.iter().map(|outcomes| outcomes[index].clone()));
        assert_eq!(whole, case.serial(), "{kind:?}: {}", case.name);
    }
}

#[test]
fn every_program_computes_what_a_serial_run_does() {
    for (pp, vp) in sizes() {
        let cases = cases(pp, vp);
        assert!(cases.len() >= 12, "pp {pp}, vp {vp}: {}", cases.len());
        println!("pp {pp}, vp {vp}: {} programs", cases.len());
        compare(Kind::Socket, pp, &cases);
    }
}
