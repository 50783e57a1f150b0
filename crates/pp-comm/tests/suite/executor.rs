//! The executor over every schedule there is, with stages that do integer arithmetic, against a serial reference.

use std::error::Error;
use std::time::Duration;

use crate::common::{Kind, PATIENCE, meeting, run};
use crate::memory::predicted;
use crate::toy::{Outcome, Toy, serial};
use pp_comm::{
    Boundaries, Boundary, Buffer, CommError, DType, ExecError, ExecFault, Group, Member, StageCompute, StepReport,
    StepSpec, Task, execute,
};
use pp_schedule::{
    Carries, Channel, Direction, Extent, GPipeBackward, Order, Rank, ScheduleConfig, ScheduleKind, ScheduleSpec,
    SlotClass, VerifiedProgram, Work, WorkKind,
    lower::lanes::{self, Options},
    simulate::{Costs, Report, Sends, StageBytes, Timeline},
    verify,
};

fn one_integer() -> Boundary {
    Boundary::new(DType::I64, &[1]).expect("a small shape")
}

/// Runs a step of a pipeline of all ranks.
fn execute_on(
    member: &mut Member,
    verified: &VerifiedProgram,
    step: u64,
    stage: &mut impl StageCompute,
) -> Result<StepReport, ExecError> {
    let rank = member.endpoint.rank();
    let group = Group::all(verified.program().extent.placement.n_ranks(), rank).expect("a rank of the pipeline");
    let spec = StepSpec { step, group: &group, boundaries: &Boundaries::same(one_integer()) };
    execute(&verified.certified(rank), spec, &mut member.endpoint, stage)
}

/// Runs a step on a rank and compares the slots it counted with those the program states.
fn step_on(member: &mut Member, verified: &VerifiedProgram, step: u64) -> Outcome {
    let certified = verified.certified(member.endpoint.rank());
    let mut toy = Toy::new(verified.program().extent.placement.n_stages());
    let report = execute_on(member, verified, step, &mut toy).expect("it runs");
    for class in SlotClass::ALL {
        assert_eq!(report.peak(class), certified.program().n_slots(class), "{}", class.name());
    }
    assert_eq!(report.peak_bytes(), predicted(certified.program(), |_| 8));
    let timeline = Timeline::of_program(verified.program(), &Costs::UNIT, Sends::Eager).expect("it is verified");
    let figures = &Report::new(&timeline, |_| StageBytes::default()).ranks[certified.program().rank.idx()];
    assert_eq!(report.peak(SlotClass::Saved), figures.peak_saved as usize);
    assert_eq!(report.peak_deferred(), figures.peak_deferred as usize);
    assert!(report.total >= report.compute + report.wait_send + report.wait_receive);
    assert!(toy.saved.is_empty());
    toy.outcome
}

/// Runs programs one after the other on one fabric and compares each with the serial reference.
pub(crate) fn compare(kind: Kind, programs: &[VerifiedProgram]) {
    let channels: Vec<Channel> = programs.iter().flat_map(|verified| verified.program().channels.clone()).collect();
    let n_ranks = programs[0].program().extent.placement.n_ranks();
    let outcomes = run(kind, n_ranks, &channels, |mut member| {
        let steps = programs.iter().zip(0..);
        let outcomes: Vec<Outcome> = steps.map(|(verified, step)| step_on(&mut member, verified, step)).collect();
        member.control.barrier().expect("all are done");
        member.close();
        outcomes
    });
    for (index, verified) in programs.iter().enumerate() {
        let whole = Outcome::merged(outcomes.iter().map(|outcomes| outcomes[index].clone()));
        let extent = verified.program().extent;
        assert_eq!(whole, serial(extent.placement.n_stages(), extent.microbatches, extent.forward_only), "{extent:?}");
    }
}

fn verified(config: &ScheduleConfig) -> VerifiedProgram {
    verify(lanes::lower(config)).expect("every schedule is sound")
}

/// Every schedule over `pp` ranks with `vp` chunks, each with its validation program after it.
fn all_schedules(pp: u32, vp: u32) -> Vec<VerifiedProgram> {
    let mut programs = Vec::new();
    for microbatches in [1, 2, 3, 4, 7, 8] {
        let base = ScheduleSpec::new(pp, vp, microbatches);
        let of_kind = |kind| ScheduleSpec { schedule: Some(kind), ..base.clone() };
        let ascending = GPipeBackward::Ascending;
        let specs = [
            ScheduleSpec { gpipe_backward: Some(ascending), ..of_kind(ScheduleKind::GPipe) },
            ScheduleSpec { allow_bubbles: true, ..of_kind(ScheduleKind::Interleaved) },
        ];
        let specs: Vec<ScheduleSpec> = specs.into_iter().chain(ScheduleKind::ALL.map(of_kind)).collect();
        // What the rules of a schedule do not allow is not tried.
        let configs = specs.iter().filter_map(|spec| ScheduleConfig::new(spec).ok());
        for config in configs.filter(|config| config.vp() == vp) {
            programs.push(verified(&config));
            programs.push(verified(&config.to_forward_only()));
        }
    }
    programs
}

#[test]
fn every_schedule_computes_what_a_serial_run_does() {
    for (pp, vp) in (1..=4).flat_map(|pp| (1..=3).map(move |vp| (pp, vp))) {
        let programs = all_schedules(pp, vp);
        assert!(programs.len() >= 12, "pp {pp}, vp {vp}");
        for kind in [Kind::Memory(0), Kind::Memory(1), Kind::Socket] {
            compare(kind, &programs);
        }
    }
}

/// Validation, training, validation: the channels of the one serve the other.
#[test]
fn forward_only_and_training_programs_take_turns_on_one_fabric() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(3, 2, 6)).expect("a valid schedule");
    let (train, eval) = (verified(&config), verified(&config.to_forward_only()));
    assert!(eval.program().channels.len() < train.program().channels.len());
    for kind in crate::common::ALL {
        compare(kind, &[eval.clone(), train.clone(), eval.clone(), train.clone()]);
    }
}

/// Backwards split in two, the weights' part last of all: no schedule needs an executor of its own.
#[test]
fn split_backwards_run_too() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(3, 1, 4)).expect("a valid schedule");
    let rows = Order::generate(&config).rows().to_vec();
    let with_kind = |work: &Work, kind| Work { kind, ..*work };
    let split = rows.iter().map(|row| {
        let weights = row.iter().filter(|work| work.kind == WorkKind::Backward);
        let weights: Vec<Work> = weights.map(|work| with_kind(work, WorkKind::BackwardWeight)).collect();
        let inputs = row.iter().map(|work| match work.kind {
            WorkKind::Backward => with_kind(work, WorkKind::BackwardInput),
            _ => *work,
        });
        inputs.chain(weights).collect()
    });
    let order = Order::new(Extent::from(&config), split.collect()).expect("it covers the step");
    let verified = verify(lanes::lower_order(&order, Options::for_config(&config))).expect("it is sound");
    for kind in crate::common::ALL {
        compare(kind, std::slice::from_ref(&verified));
    }
}

/// A stage that goes wrong at will.
struct Faulty {
    toy: Toy,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Fails,
    MakesNothing,
    MakesTooMuch,
    MakesOtherShape,
}

#[derive(Debug, thiserror::Error)]
#[error("out of luck")]
struct OutOfLuck;

impl StageCompute for Faulty {
    type Error = OutOfLuck;

    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>, OutOfLuck> {
        let Ok(made) = self.toy.forward(task, input);
        match self.fault {
            Fault::None => Ok(made),
            Fault::Fails => Err(OutOfLuck),
            Fault::MakesNothing => Ok(None),
            Fault::MakesTooMuch => Ok(Some(Buffer::i64(&[1], vec![1]).expect("one element"))),
            Fault::MakesOtherShape => Ok(Some(Buffer::i64(&[2], vec![1, 2]).expect("two elements"))),
        }
    }

    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, OutOfLuck> {
        let Ok(made) = self.toy.backward(task, gradient);
        Ok(made)
    }

    fn backward_input(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, OutOfLuck> {
        let Ok(made) = self.toy.backward_input(task, gradient);
        Ok(made)
    }

    fn backward_weight(&mut self, task: Task) -> Result<(), OutOfLuck> {
        let Ok(()) = self.toy.backward_weight(task);
        Ok(())
    }
}

fn run_faulty(member: &mut Member, verified: &VerifiedProgram, fault: Fault) -> Result<StepReport, ExecError> {
    let mut stage = Faulty { toy: Toy::new(verified.program().extent.placement.n_stages()), fault };
    execute_on(member, verified, 3, &mut stage)
}

fn two_ranks() -> VerifiedProgram {
    verified(&ScheduleConfig::new(&ScheduleSpec::new(2, 1, 4)).expect("a valid schedule"))
}

/// One rank's stage fails; the other must learn of it at once, and say where it was.
#[test]
fn a_failing_stage_is_named_and_its_peer_is_told() {
    let verified = two_ranks();
    for (kind, culprit) in crate::common::ALL.into_iter().flat_map(|kind| [0, 1].map(|rank| (kind, Rank(rank)))) {
        run(kind, 2, &verified.program().channels, |mut member| {
            let rank = member.endpoint.rank();
            let fault = if rank == culprit { Fault::Fails } else { Fault::None };
            let error = run_faulty(&mut member, &verified, fault).expect_err("one of the two fails");
            assert_eq!((error.rank, error.step), (rank, 3));
            match &*error.fault {
                ExecFault::Stage(source) => {
                    assert_eq!((rank, source.to_string().as_str()), (culprit, "out of luck"));
                    assert_eq!((error.action.as_str(), error.peer), (format!("compute {rank}F0").as_str(), None));
                    let root = error.source().and_then(Error::source).expect("the stage's own error");
                    assert_eq!(root.to_string(), "out of luck");
                }
                ExecFault::Comm(CommError::PeerLost { rank: lost, .. }) => {
                    assert_eq!((*lost, error.peer), (culprit, Some(culprit)));
                }
                other => panic!("{kind:?}: {error}: {other}"),
            }
        });
    }
}

#[test]
fn a_stage_must_make_what_the_program_has_a_place_for() {
    let verified = two_ranks();
    let faults = [(Fault::MakesNothing, 0), (Fault::MakesTooMuch, 1), (Fault::MakesOtherShape, 0)];
    for (fault, culprit) in faults {
        run(Kind::Memory(0), 2, &verified.program().channels, |mut member| {
            let guilty = member.endpoint.rank() == Rank(culprit);
            let error = run_faulty(&mut member, &verified, if guilty { fault } else { Fault::None });
            let error = error.expect_err("one of the two fails");
            let text = error.fault.to_string();
            match (&*error.fault, fault) {
                (ExecFault::Comm(CommError::PeerLost { .. }), _) if !guilty => {}
                (ExecFault::NoOutput { .. }, Fault::MakesNothing) => assert!(text.contains("send slot 0"), "{text}"),
                (ExecFault::NeedlessOutput { .. }, Fault::MakesTooMuch) => assert!(text.contains("i64 [1]"), "{text}"),
                (ExecFault::WrongOutput { .. }, Fault::MakesOtherShape) => {
                    assert!(text.contains("i64 [1]") && text.contains("i64 [2]"), "{text}");
                }
                _ => panic!("{error}: {text}"),
            }
        });
    }
}

/// Rank 0 never sends: rank 1 must say who it is, the step, the action it is blocked on and whom it waits for.
#[test]
fn a_lost_send_is_reported_with_rank_step_action_and_peer() {
    let verified = two_ranks();
    for kind in crate::common::ALL {
        let over = meeting(2);
        run(kind, 2, &verified.program().channels, |mut member| {
            if member.endpoint.rank() == Rank(1) {
                member.endpoint.set_deadline(Duration::from_millis(200));
                let error = run_faulty(&mut member, &verified, Fault::None).expect_err("nothing comes");
                assert_eq!((error.rank, error.step, error.peer), (Rank(1), 3, Some(Rank(0))));
                assert_eq!(error.action, "wait: receive from rank 0 the activation of microbatch 0 for stage 1");
                let ExecFault::Comm(CommError::Deadline { operation, .. }) = *error.fault else { panic!("{error}") };
                assert_eq!(operation.channel.carries, Carries::Only(Direction::Forward));
                let text = error.to_string();
                assert!(text.starts_with("rank 1, step 3, action ") && text.contains("last done: post"), "{text}");
            }
            over.wait();
        });
    }
}

#[test]
fn an_endpoint_of_another_rank_is_refused() {
    let verified = two_ranks();
    let mut alone = Member::alone(PATIENCE);
    let mut toy = Toy::new(2);
    let (both, one) = (Group::all(2, Rank(0)).expect("one of two"), Group::all(1, Rank(0)).expect("the only one"));
    let boundaries = Boundaries::same(one_integer());
    let spec = StepSpec { step: 0, group: &both, boundaries: &boundaries };
    let error = execute(&verified.certified(Rank(1)), spec, &mut alone.endpoint, &mut toy);
    let error = error.expect_err("the endpoint is rank 0's");
    assert!(matches!(*error.fault, ExecFault::WrongRank { endpoint: Rank(0), program: Rank(1) }), "{error}");
    let error = execute(&verified.certified(Rank(0)), spec, &mut alone.endpoint, &mut toy);
    let error = error.expect_err("it has no channels");
    assert!(matches!(*error.fault, ExecFault::Comm(CommError::NoChannel { .. })), "{error}");
    let error = execute(&verified.certified(Rank(0)), StepSpec { group: &one, ..spec }, &mut alone.endpoint, &mut toy);
    let error = error.expect_err("the program has two ranks");
    assert!(matches!(*error.fault, ExecFault::SmallGroup { group: 0, n_ranks: 1 }), "{error}");
    alone.close();
}
