//! What the emulator is there for: an endpoint that is wrong, though its results may be right, is reported, with the memory and
//! both places. What is wrong is done to this endpoint by the emulator, one thing at a time.

use std::sync::Arc;
use std::time::Duration;

use nccl_rs::DeviceBytes;
use pp_comm::collectives::GroupComm;
use pp_comm::{Boundary, Buffer, DType, Group};
use pp_schedule::Rank;

use crate::common::Kind;
use crate::faults::{FAULTS, program, step};
use crate::gpu::Way;
use crate::harness::Run;

/// After how many seconds without a move the emulator says who waits for what.
const STUCK: &str = "CUDA_EMULATOR_STUCK_S";

/// What is reported of a step in which rank 1's endpoint does something wrong. Its first two operations, and waits, try the
/// channels.
fn of_rank_1(fault: &str) -> String {
    let verified = program(2);
    let env = vec![(Some(1), FAULTS, fault.to_owned())];
    let run = Run { env, ..Run::new(Kind::Nccl(Way::DEFAULT), 2, &verified.program().channels) };
    run.within(
        |joined| {
            let mut seat = joined.seat();
            seat.member.endpoint.set_deadline(Duration::from_secs(5));
            if step(&mut seat, &verified, 0).is_ok() {
                seat.member.close();
            }
        },
        |outcome| outcome.report,
    )
}

/// That one of the reports has all these words.
fn has(report: &str, words: &[&str]) {
    let found = report.split("violation: ").any(|block| words.iter().all(|word| block.contains(word)));
    assert!(found, "no report has all of {words:?}:\n{report}");
}

/// Where transfers are launched, where memory is given, and where the stage computes: the places of a report.
const LAUNCH: &str = "endpoint/nccl/lane.rs";
const GIVEN: &str = "SliceAllocator";
const STAGE: &str = "emulated::stage::Rotating";

/// Each of the four waits of a message's way, one at a time. Others of the same kind are no race, and not reported, where what a
/// peer sends back stands in for them.
#[test]
fn a_missing_wait_for_an_event_is_reported() {
    // A receive's launch does not wait for its memory.
    let launched = of_rank_1("skip-event-wait=3");
    has(&launched, &["race", "buffer 0x", "cuMemsetD8Async", GIVEN, "ncclRecv of 64 i64 from rank 0", LAUNCH]);
    // The stage does not wait for the message.
    let received = of_rank_1("skip-event-wait=5");
    has(&received, &["race", "buffer 0x", "ncclRecv of 64 i64 from rank 0", LAUNCH, "cuMemcpyDtoDAsync", STAGE]);
    // A send's launch does not wait for the stage.
    let sent = of_rank_1("skip-event-wait=7");
    has(&sent, &["race", "buffer 0x", STAGE, "ncclSend of 64 i64 to rank 1", LAUNCH]);
    // Memory is given up before what it held has left.
    let given_up = of_rank_1("skip-event-wait=17");
    has(&given_up, &["race", "buffer 0x", "ncclSend of 64 i64 to rank 1", LAUNCH, "cuMemFreeAsync", "executor/run.rs"]);
}

#[test]
fn memory_that_is_freed_too_early_is_reported() {
    let report = of_rank_1("early-free=3");
    has(&report, &["race", "buffer 0x", "allocated by cuMemAllocAsync", GIVEN, "cuMemFreeAsync", LAUNCH]);
}

#[test]
fn an_operation_on_the_wrong_stream_is_reported() {
    let report = of_rank_1("wrong-stream=3");
    has(&report, &["race", "buffer 0x", "cuMemsetD8Async", GIVEN, "ncclRecv of 64 i64 from rank 0", LAUNCH]);
}

/// A gather's sends and receives are launched together, and none waits for another. One by one, both ranks wait for their send.
#[test]
fn a_group_that_is_split_is_reported_as_stuck() {
    let channels = Group::all(2, Rank(0)).expect("one of two").collective_channels();
    let env = vec![(None, FAULTS, "split-group=1".to_owned()), (None, STUCK, "0.5".to_owned())];
    let run = Run { env, groups: vec![(0, vec![0, 1])], ..Run::new(Kind::Nccl(Way::DEFAULT), 2, &channels) };
    let report = run.within(
        |joined| {
            let mut seat = joined.seat();
            let (endpoint, gpu) = (&mut seat.member.endpoint, seat.gpu.as_ref().expect("it has a device"));
            endpoint.set_deadline(Duration::from_secs(5));
            let mut comm = GroupComm::new(Group::all(2, endpoint.rank()).expect("one of two"));
            let memory = Arc::new(DeviceBytes::from_host(&gpu.compute, &[1; 64]).expect("memory"));
            let boundary = Boundary::new(DType::I64, &[8]).expect("a small shape");
            let mine = Buffer::on_device(boundary, memory).expect("as long as its shape");
            let gathered = comm.all_gather(endpoint, mine).map(drop);
            gathered.and_then(|()| Ok(endpoint.settle()?)).expect_err("both wait for their send").to_string()
        },
        |outcome| outcome.report,
    );
    let waits = ["rank 0 waits for: ncclSend of 8 i64 to rank 1", "rank 1 waits for: ncclSend of 8 i64 to rank 0"];
    has(&report, &["stuck", waits[0], waits[1]]);
}

/// The same steps with nothing wrong: what is found above is not there anyway.
#[test]
fn nothing_is_reported_where_nothing_is_wrong() {
    assert_eq!(of_rank_1("skip-event-wait=1000000"), "");
}
