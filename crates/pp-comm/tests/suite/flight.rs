//! Failures of every kind, put into runs of every shape: the ranks' records name the rank and the action they came from.

use std::time::Duration;

use pp_comm::flight::{Cause, Explanation, RankRecord, Records, Report, Verdict, explain};
use pp_comm::{
    Boundaries, Boundary, Buffer, CommError, DType, Endpoint, ExecError, ExecFault, Group, Recorder, StageCompute,
    StepSpec, Task, execute,
};
use pp_schedule::{Rank, ScheduleConfig, ScheduleKind, ScheduleSpec, VerifiedProgram, lower::lanes, verify};

use crate::common::{BACK, FORTH, Kind, envelope, floats, floats_of, meeting, run_within};

/// A deadline that is meant to pass, yet long beside what a step takes.
const SHORT: Duration = Duration::from_millis(700);

/// A stage that passes on what it gets.
struct Pass {
    shape: Boundary,
    last: u32,
    /// What it fails at.
    fails_at: Option<&'static str>,
}

#[derive(Debug, thiserror::Error)]
#[error("no room left for {0}")]
struct NoRoom(String);

impl Pass {
    fn make(&self, task: Task, has_output: bool) -> Result<Option<Buffer>, NoRoom> {
        match task.work.to_string() {
            text if self.fails_at == Some(&text) => Err(NoRoom(text)),
            _ => {
                Ok(has_output
                    .then(|| Buffer::f32(self.shape.shape(), vec![0.0; self.shape.n_elements()]).expect("fits")))
            }
        }
    }
}

impl StageCompute for Pass {
    type Error = NoRoom;
    fn forward(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, NoRoom> {
        self.make(task, task.work.stage.0 < self.last)
    }
    fn backward(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, NoRoom> {
        self.make(task, task.work.stage.0 > 0)
    }
    fn backward_input(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, NoRoom> {
        self.make(task, task.work.stage.0 > 0)
    }
    fn backward_weight(&mut self, task: Task) -> Result<(), NoRoom> {
        self.make(task, false).map(drop)
    }
}

fn record(recorder: &Recorder, why: String, cause: Cause) -> RankRecord {
    RankRecord::new(recorder, Report { why, cause, heard: Vec::new() })
}

fn of_comm(endpoint: &Endpoint, error: &CommError) -> RankRecord {
    record(endpoint.recorder(), error.to_string(), Cause::of(error))
}

fn of_exec(endpoint: &Endpoint, error: &ExecError) -> RankRecord {
    match &*error.fault {
        ExecFault::Comm(comm) => record(endpoint.recorder(), error.to_string(), Cause::of(comm)),
        fault => record(endpoint.recorder(), error.to_string(), Cause::Own { reason: fault.to_string() }),
    }
}

/// What is found when a fault is put into three steps of a program.
fn explained(
    kind: Kind,
    verified: &VerifiedProgram,
    fault: Option<&str>,
    fails_at: Option<&'static str>,
) -> Explanation {
    let program = verified.program();
    let (n_ranks, n_stages) = (program.ranks.len() as u32, program.extent.placement.n_stages());
    let shape = Boundary::new(DType::F32, &[4]).expect("a small shape");
    let records = run_within(SHORT, kind, n_ranks, &program.channels, |mut member| {
        let endpoint = &mut member.endpoint;
        if let Some(fault) = fault {
            endpoint.inject(fault.parse().expect("a fault"));
        }
        let mut stage = Pass { shape: shape.clone(), last: n_stages - 1, fails_at };
        let certified = verified.certified(endpoint.rank());
        let (group, boundaries) = (Group::all(n_ranks, endpoint.rank()), Boundaries::same(shape.clone()));
        let group = group.expect("a rank of the run");
        let failed = (0..3).find_map(|step| {
            let spec = StepSpec { step, group: &group, boundaries: &boundaries };
            execute(&certified, spec, endpoint, &mut stage).err()
        });
        let record = failed.map(|error| of_exec(endpoint, &error));
        if record.is_none() {
            // Nobody leaves a run in good order whose others fail: they would take that for the reason.
            std::thread::sleep(SHORT * 2);
        }
        record
    });
    let records: Vec<RankRecord> = records.into_iter().flatten().collect();
    assert!(!records.is_empty(), "{fault:?} made nobody fail");
    explain(&Records::new(records))
}

fn programs() -> Vec<VerifiedProgram> {
    let schedules = [
        (ScheduleKind::GPipe, 2, 1, 3),
        (ScheduleKind::OneFOneB, 3, 1, 6),
        (ScheduleKind::Interleaved, 2, 2, 4),
        (ScheduleKind::ZbV, 2, 2, 4),
    ];
    let verified = schedules.map(|(kind, pp, vp, m)| {
        let spec = ScheduleSpec { schedule: Some(kind), ..ScheduleSpec::new(pp, vp, m) };
        verify(lanes::lower(&ScheduleConfig::new(&spec).expect("valid"))).expect("proved")
    });
    verified.into()
}

#[test]
fn a_meddled_message_is_named_whichever_it_is() {
    let faults = [
        ("drop", Verdict::Lost),
        ("duplicate", Verdict::Duplicated),
        ("shorten", Verdict::WrongShape),
        ("mistype", Verdict::WrongType),
    ];
    std::thread::scope(|scope| {
        for program in programs() {
            scope.spawn(move || {
                for kind in [Kind::Memory(0), Kind::Memory(4), Kind::Socket, Kind::Shm] {
                    for (fault, verdict) in faults {
                        for (rank, send) in [(0, 1), (1, 3)] {
                            let text = format!("{fault}:rank={rank},send={send}");
                            let explanation = explained(kind, &program, Some(&text), None);
                            let found = (explanation.verdict, explanation.rank);
                            assert_eq!(found, (verdict, Some(rank)), "{kind:?}, {text}\n{explanation}");
                            assert!(explanation.action.is_some(), "{kind:?}, {text}\n{explanation}");
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn a_failing_stage_is_named_with_its_reason() {
    for program in programs() {
        for (work, stage) in [("1F1", 1), ("0F2", 0)] {
            let explanation = explained(Kind::Memory(0), &program, None, Some(work));
            let owner = program.program().extent.placement.rank_of(pp_schedule::Stage(stage)).0;
            assert_eq!((explanation.verdict, explanation.rank), (Verdict::Failed, Some(owner)), "{explanation}");
            assert!(explanation.summary.contains("the computation failed") || explanation.summary.contains(work));
        }
    }
}

/// Two ranks do as they like on two channels; what is found by what they wrote.
fn two(kind: Kind, body: impl Fn(&mut Endpoint) -> Result<(), CommError> + Sync) -> Explanation {
    let all_failed = meeting(2);
    let records = run_within(SHORT, kind, 2, &[FORTH, BACK], |mut member| {
        let done = body(&mut member.endpoint);
        // Both write before either leaves: what each of them waits for is its own failure.
        let record = done.err().map(|error| of_comm(&member.endpoint, &error));
        all_failed.wait();
        record
    });
    explain(&Records::new(records.into_iter().flatten()))
}

#[test]
fn crossed_sends_are_a_circle_with_both_ranks_and_actions() {
    for (kind, len) in [(Kind::Memory(0), 16), (Kind::Memory(0), 1 << 18), (Kind::Socket, 1 << 24)] {
        let explanation = two(kind, |endpoint| {
            let out = if endpoint.rank() == Rank(0) { FORTH } else { BACK };
            endpoint.recorder().at_action(Some(4 + endpoint.rank().0));
            let send = endpoint.post_send(out, envelope(out, 5, 0), floats(len, 0.0))?;
            endpoint.wait_send(send).map(drop)
        });
        assert_eq!(explanation.verdict, Verdict::Circle, "{kind:?}: {explanation}");
        let text = explanation.to_string();
        for part in [
            "rank 0 -> rank 1 -> rank 0",
            "on the send to rank 1 of the activation of microbatch 0 for stage 1 of step 5 (action 4)",
            "on the send to rank 0 of the gradient of microbatch 0 for stage 0 of step 5 (action 5)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn a_message_that_was_never_sent_is_told_from_a_lost_one() {
    for kind in [Kind::Memory(0), Kind::Memory(4), Kind::Socket] {
        for goes_on in [false, true] {
            let explanation = two(kind, |endpoint| {
                if endpoint.rank() == Rank(0) {
                    // Microbatch 1 of step 3 is left out, and the next in its place or nothing at all.
                    let sent = if goes_on { vec![(3, 0), (3, 2)] } else { vec![(3, 0)] };
                    for (step, m) in sent {
                        let ticket = endpoint.post_send(FORTH, envelope(FORTH, step, m), floats(3, 0.0))?;
                        endpoint.wait_send(ticket)?;
                    }
                    let later = endpoint.post_recv(BACK, envelope(BACK, 4, 0), floats_of(3))?;
                    return endpoint.wait_recv(later).map(drop);
                }
                for m in 0..2 {
                    let ticket = endpoint.post_recv(FORTH, envelope(FORTH, 3, m), floats_of(3))?;
                    endpoint.wait_recv(ticket)?;
                }
                Ok(())
            });
            assert_eq!((explanation.verdict, explanation.rank), (Verdict::NeverPosted, Some(0)), "{explanation}");
            assert!(explanation.summary.contains("activation of microbatch 1 for stage 1 of step 3"), "{explanation}");
        }
    }
}

#[test]
fn a_rank_that_waits_for_nobody_is_slow() {
    let explanation = two(Kind::Memory(1), |endpoint| {
        if endpoint.rank() == Rank(0) {
            let subject = pp_comm::Subject::Compute { step: 2, work: "0F1".parse().expect("a token") };
            endpoint.recorder().at_action(Some(9));
            endpoint.recorder().note(subject, pp_comm::State::Begun, 0);
            std::thread::sleep(SHORT * 2);
            return Err(CommError::PeerLost { rank: Rank(1), reason: "it gave up".to_owned() });
        }
        let ticket = endpoint.post_recv(FORTH, envelope(FORTH, 2, 1), floats_of(3))?;
        endpoint.wait_recv(ticket).map(drop)
    });
    assert_eq!((explanation.verdict, explanation.rank), (Verdict::Slow, Some(0)), "{explanation}");
    assert_eq!((explanation.step, explanation.action), (Some(2), Some(9)), "{explanation}");
    assert!(explanation.summary.contains("into the computation 0F1 of step 2"), "{explanation}");
}
