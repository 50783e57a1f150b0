//! What goes wrong, in a rank or on its way: every rank ends within its deadline, by an error that names what it was at, and
//! nothing is left.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pp_comm::{Boundaries, Boundary, CommError, DType, ExecError, ExecFault, Group, StepSpec, execute};
use pp_schedule::lower::lanes;
use pp_schedule::{Rank, ScheduleConfig, ScheduleSpec, VerifiedProgram, verify};
use serde::{Deserialize, Serialize};

use crate::common::{AT_ONCE, FORTH, Kind, PATIENCE, envelope, floats, floats_of, meeting};
use crate::gpu::Way;
use crate::harness::{Outcome, Run, Seat};
use crate::ranks::{End, Variable};
use crate::stage::Rotating;

/// A deadline that is meant to pass.
const SHORT: Duration = Duration::from_secs(2);

/// How the ranks of the emulator are asked for faults.
pub(crate) const FAULTS: &str = "CUDA_EMULATOR_FAULTS";

/// Elements of every message.
const LEN: usize = 64;

/// How a rank's step ended.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    /// The whole error, if there was one.
    text: String,
    /// Whom it takes for lost.
    lost: Option<u32>,
    /// The rank at the other end of what it stopped at.
    peer: Option<u32>,
    /// Whether it is a deadline that has passed.
    late: bool,
}

impl Told {
    fn of(error: &ExecError) -> Self {
        let lost = match &*error.fault {
            ExecFault::Comm(CommError::PeerLost { rank, .. }) => Some(rank.0),
            _ => None,
        };
        // What the compute stream waits for shows at the end of the step: then it is the fault that says which transfer it was.
        let (late, peer) = match &*error.fault {
            ExecFault::Comm(CommError::Deadline { operation, .. }) => (true, Some(operation.peer())),
            _ => (false, error.peer),
        };
        Self { text: format!("{error}: {}", error.fault), lost, peer: peer.map(|rank| rank.0), late }
    }
}

pub(crate) fn program(pp: u32) -> VerifiedProgram {
    let config = ScheduleConfig::new(&ScheduleSpec::new(pp, 1, 2 * pp)).expect("a valid schedule");
    verify(lanes::lower(&config)).expect("it is sound")
}

/// A step of it on devices.
pub(crate) fn step(seat: &mut Seat, program: &VerifiedProgram, step: u64) -> Result<(), ExecError> {
    let rank = seat.member.endpoint.rank();
    let group = Group::all(program.program().extent.placement.n_ranks(), rank).expect("one of the ranks");
    let boundaries = Boundaries::same(Boundary::new(DType::I64, &[LEN]).expect("a small shape"));
    let gpu = seat.gpu.as_ref().expect("it has a device");
    let mut stage = Rotating::new(&gpu.stream, program.program().extent.placement.n_stages(), &[LEN]);
    let spec = StepSpec { step, group: &group, boundaries: &boundaries };
    execute(&program.certified(rank), spec, &mut seat.member.endpoint, &mut stage).map(drop)
}

/// How faults are asked for.
#[derive(Default)]
struct Fault<'a> {
    /// Of the endpoints.
    rehearsed: Option<&'a str>,
    /// Of the emulator, on one rank.
    emulated: Option<(u32, &'a str)>,
}

/// Runs steps until one fails, with a fault; gives how that went on each rank and how long it took from the first that ended.
fn failing(pp: u32, way: Way, deadline: Duration, fault: &Fault<'_>, check: impl FnOnce(&Outcome, &[Option<Told>])) {
    let verified = program(pp);
    let env: Vec<Variable> =
        fault.emulated.iter().map(|(rank, fault)| (Some(*rank), FAULTS, (*fault).to_owned())).collect();
    let heartbeat = Duration::from_secs(2);
    let run = Run { env, heartbeat, ..Run::new(Kind::Nccl(way), pp, &verified.program().channels) };
    run.within(
        |joined| {
            let mut seat = joined.seat();
            seat.member.endpoint.set_deadline(deadline);
            if let Some(fault) = fault.rehearsed {
                seat.member.endpoint.inject(fault.parse().expect("a fault"));
            }
            let error = (0..3).find_map(|number| step(&mut seat, &verified, number).err());
            let error = error.expect("something is to go wrong");
            if let ExecFault::Comm(error) = &*error.fault {
                seat.member.control.fail(error);
            }
            Told::of(&error)
        },
        |outcome| {
            let told = outcome.ended.ends.iter().map(|end| match end {
                End::Said(text) => Some(serde_json::from_str(text).expect("how it ended")),
                End::Died(_) | End::Frozen => None,
            });
            check(&outcome, &told.collect::<Vec<_>>());
        },
    );
}

/// The words that every error of a step must have: the step, the action and the rank that it is about.
fn names(told: &Told, rank: u32) {
    let text = &told.text;
    assert!(text.starts_with(&format!("rank {rank}, step ")) && text.contains("action "), "{text}");
}

/// That every rank but `gone` ended by an error that takes that rank for lost, and soon.
fn lost(outcome: &Outcome, told: &[Option<Told>], gone: u32) {
    for (rank, told) in (0..).zip(told).filter(|(rank, _)| *rank != gone) {
        let told = told.as_ref().unwrap_or_else(|| panic!("rank {rank} said nothing\n{}", outcome.ended.words));
        names(told, rank);
        assert_eq!(told.lost, Some(gone), "{}", told.text);
    }
    let first = outcome.ended.times[gone as usize];
    assert!(outcome.ended.times.iter().all(|time| *time < first.max(AT_ONCE) + AT_ONCE), "{:?}", outcome.ended.times);
}

const WAYS: [Way; 2] = [Way::DEFAULT, Way { waits: pp_comm::Waits::OnHost, ..Way::DEFAULT }];

#[test]
fn a_killed_rank_is_named_by_all_others_at_once() {
    for (way, action) in WAYS.into_iter().zip([3, 9]) {
        let fault = format!("kill:rank=1,step=1,action={action}");
        let fault = Fault { rehearsed: Some(&fault), ..Fault::default() };
        failing(3, way, PATIENCE, &fault, |outcome, told| {
            assert!(matches!(outcome.ended.ends[1], End::Died(_)), "{:?}", outcome.ended.ends);
            lost(outcome, told, 1);
        });
    }
}

/// It dies in the middle of what the device does.
#[test]
fn a_rank_that_dies_in_an_operation_is_named_by_all_others() {
    let fault = Fault { emulated: Some((1, "die=9")), ..Fault::default() };
    failing(3, Way::DEFAULT, PATIENCE, &fault, |outcome, told| {
        assert!(matches!(outcome.ended.ends[1], End::Died(_)), "{:?}", outcome.ended.ends);
        lost(outcome, told, 1);
    });
}

#[test]
fn a_frozen_rank_is_named_by_all_others_when_it_has_been_silent_for_too_long() {
    let fault = Fault { rehearsed: Some("freeze:rank=1,step=1,action=4"), ..Fault::default() };
    failing(3, Way::DEFAULT, PATIENCE, &fault, |outcome, told| {
        assert_eq!(outcome.ended.ends[1], End::Frozen);
        lost(outcome, told, 1);
    });
}

/// NCCL says that something is wrong, in its own time: the rank says what, the others that it is lost.
#[test]
fn an_asynchronous_error_is_told_with_its_code_and_communicator() {
    for way in WAYS {
        let fault = Fault { emulated: Some((1, "async-error=6:code=2")), ..Fault::default() };
        failing(2, way, PATIENCE, &fault, |outcome, told| {
            let [Some(other), Some(own)] = told else { panic!("{}", outcome.ended.words) };
            names(own, 1);
            names(other, 0);
            assert!(own.text.contains("NCCL error 2") && own.text.contains("the communicator of"), "{}", own.text);
            assert_eq!(other.lost, Some(1), "{}", other.text);
        });
    }
}

/// Nobody waits for anything, and all the same the endpoint learns that its communicator has failed.
#[test]
fn an_asynchronous_error_shows_though_nobody_waits() {
    // The first operation of a communicator is the one by which its link is tried.
    let env = vec![(Some(1), FAULTS, "async-error=2:code=2".to_owned())];
    let told = meeting(2);
    Run { env, ..Run::new(Kind::Nccl(Way::DEFAULT), 2, &[FORTH]) }.all(|seat| {
        let mut endpoint = seat.member.endpoint;
        let message = envelope(FORTH, 0, 0);
        if endpoint.rank() == Rank(0) {
            // What becomes of it is the other rank's to tell.
            drop(endpoint.post_send(FORTH, message, floats(3, 0.0)));
        } else {
            let boundary = Boundary::new(DType::F32, &[3]).expect("a small shape");
            drop(endpoint.post_recv(FORTH, message, boundary));
            let start = Instant::now();
            let error = loop {
                match endpoint.settle() {
                    Err(error) => break error,
                    Ok(()) => assert!(start.elapsed() < AT_ONCE, "it does not show"),
                }
                thread::sleep(Duration::from_millis(1));
            };
            assert!(matches!(error, CommError::Nccl { .. }) && error.to_string().contains("NCCL error 2"), "{error}");
        }
        told.wait();
    });
}

/// Slow, but within the deadline: all is well. Slower than that: whoever waits says for what.
#[test]
fn a_slow_rank_is_waited_for_until_the_deadline() {
    let verified = program(2);
    let env = vec![(Some(1), FAULTS, "slow=5".to_owned())];
    let channels = &verified.program().channels;
    Run { env, ..Run::new(Kind::Nccl(Way::DEFAULT), 2, channels) }.all(|mut seat| {
        step(&mut seat, &verified, 0).unwrap_or_else(|error| panic!("{error}: {}", error.fault));
        seat.member.close();
    });
    for way in WAYS {
        let fault = Fault { rehearsed: Some("stall:rank=1,step=1,action=2,seconds=20"), ..Fault::default() };
        failing(2, way, SHORT, &fault, |outcome, told| {
            let [Some(other), _] = told else { panic!("{}", outcome.ended.words) };
            names(other, 0);
            assert!(other.late && other.peer == Some(1), "{}", other.text);
            assert!(outcome.ended.times[0] < SHORT + AT_ONCE, "{:?}", outcome.ended.times);
        });
    }
}

/// One message is not sent, though its sender believes so.
#[test]
fn a_lost_send_ends_in_a_deadline_that_names_it() {
    for way in WAYS {
        let fault = Fault { rehearsed: Some("drop:rank=0,send=2"), ..Fault::default() };
        failing(2, way, SHORT, &fault, |outcome, told| {
            let [Some(_), Some(own)] = told else { panic!("{}", outcome.ended.words) };
            names(own, 1);
            assert_eq!((own.lost, own.peer), (None, Some(0)), "{}", own.text);
            assert!(own.text.contains("activation of microbatch 1") || own.late, "{}", own.text);
        });
    }
}

/// What ranks are told where one cannot have communicators, before step 0.
fn refused(run: &Run) -> Vec<String> {
    run.within(
        |joined| joined.try_seat().map(drop).expect_err("it cannot be").to_string(),
        |outcome| {
            let limit = if run.deadline < PATIENCE { run.deadline + AT_ONCE } else { AT_ONCE };
            assert!(outcome.ended.times.iter().all(|time| *time < limit), "{:?}", outcome.ended.times);
            outcome.said()
        },
    )
}

/// Has rank 1 find a driver, and no NCCL: the emulator by the driver's name only.
fn driver_alone(dir: &Path) -> Vec<Variable> {
    let path = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let driver = path.split(':').map(|dir| Path::new(dir).join("libcuda.so.1")).find(|path| path.exists());
    let driver = driver.expect("LD_LIBRARY_PATH has the emulator's libcuda.so.1: `cargo xtask ci emulator` sets it");
    let target = std::fs::canonicalize(driver).expect("it is there");
    std::os::unix::fs::symlink(target, dir.join("libcuda.so.1")).expect("a link");
    vec![(Some(1), "LD_LIBRARY_PATH", dir.display().to_string())]
}

#[test]
fn a_library_that_is_too_old_is_named_with_its_version_on_all_ranks() {
    let env = vec![(Some(1), FAULTS, "version=21703".to_owned())];
    for text in refused(&Run { env, ..Run::new(Kind::Nccl(Way::DEFAULT), 2, &[]) }) {
        assert!(text.contains("rank 1") && text.contains("2.17.3") && text.contains("2.18"), "{text}");
    }
}

#[test]
fn a_machine_without_the_library_is_named_on_all_ranks() {
    let run = Run { prepare: driver_alone, ..Run::new(Kind::Nccl(Way::DEFAULT), 2, &[]) };
    for text in refused(&run) {
        assert!(text.contains("rank 1") && text.contains("no NCCL library is present"), "{text}");
    }
}

#[test]
fn communicators_that_are_never_made_end_in_a_deadline() {
    let (verified, env) = (program(2), vec![(Some(1), FAULTS, "init-never".to_owned())]);
    let channels = &verified.program().channels;
    let run = Run { env, deadline: Duration::from_secs(4), ..Run::new(Kind::Nccl(Way::DEFAULT), 2, channels) };
    for text in refused(&run) {
        assert!(text.contains("ncclCommInit") || text.contains("rank"), "{text}");
    }
}

/// The first transfer over a channel fails. The rank that has no part in it must not go on either.
#[test]
fn a_channel_that_does_not_work_is_told_to_all_ranks_before_the_first_step() {
    let env = vec![(Some(1), FAULTS, "async-error=1:code=2".to_owned())];
    let told =
        refused(&Run { env, deadline: Duration::from_secs(8), ..Run::new(Kind::Nccl(Way::DEFAULT), 3, &[FORTH]) });
    assert_eq!(told.len(), 3);
    for text in told {
        assert!(text.contains("channel from rank 0 to rank 1"), "{text}");
    }
}

/// Rank 0 sends 3 elements of `f32`; rank 1 expects more, or another type. The notes between the hosts tell, as NCCL itself would
/// not, and neither rank hangs. That it was asked for this at all is what the emulator reports.
#[test]
fn another_length_or_type_than_agreed_is_an_error_that_names_both() {
    let agreed = [(DType::F32, 4), (DType::F32, 5), (DType::F64, 3), (DType::I64, 3)];
    for (way, (dtype, len)) in [Way::HOST, Way::DEFAULT].into_iter().flat_map(|way| agreed.map(|agreed| (way, agreed)))
    {
        let agreed = Boundary::new(dtype, &[len]).expect("a small shape");
        let told = meeting(2);
        let run = Run { reported: &["mismatch"], ..Run::new(Kind::Nccl(way), 2, &[FORTH]) };
        run.all(|seat| {
            let mut endpoint = seat.member.endpoint;
            let message = envelope(FORTH, 0, 0);
            if endpoint.rank() == Rank(0) {
                let sent = endpoint.post_send(FORTH, message, floats(3, 0.0));
                // Both sides are one operation: it may fail here too.
                let _ = sent.and_then(|ticket| endpoint.wait_send(ticket)).and_then(|_| endpoint.settle());
            } else {
                let ticket = endpoint.post_recv(FORTH, message, agreed.clone());
                let received = ticket.and_then(|ticket| endpoint.wait_recv(ticket)).and_then(|_| endpoint.settle());
                let error = received.expect_err("something else was sent");
                match &error {
                    CommError::WrongBoundary { channel, expected, found, .. } => {
                        assert_eq!((channel, expected, found), (&FORTH, &agreed, &floats_of(3)));
                    }
                    // The emulator looks too, and may be the first to say so.
                    error => {
                        let (text, agreed) = (error.to_string(), format!("ncclRecv of {len} {dtype}"));
                        assert!(text.contains("ncclSend of 3 f32") && text.contains(&agreed), "{text}");
                    }
                }
            }
            told.wait();
        });
    }
}
