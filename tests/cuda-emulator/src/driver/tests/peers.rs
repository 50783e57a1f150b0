//! Order through peers: what only a message can order is decided when the message has come, or was not one.

use std::sync::mpsc::RecvTimeoutError;

use super::*;
use crate::clock::Clock;

/// Work that may learn from peers.
fn learn(stream: usize, what: &str, accesses: Vec<Access>, run: Run) -> Result<(), Error> {
    enqueue(as_c(stream), what.to_owned(), accesses, run)
}

/// Tells a peer that all before it and itself is done.
fn tell(stream: usize, accesses: Vec<Access>, peer: Sender<Clock>) -> Result<(), Error> {
    learn(
        stream,
        "a teller",
        accesses,
        Box::new(move |work| peer.send(work.clock()).map_err(|error| error.to_string())),
    )
}

/// Waits for a peer's word, then writes what it states to write.
fn hear(stream: usize, accesses: Vec<Access>, peer: Receiver<Clock>) -> Result<(), Error> {
    let stated = accesses.clone();
    let run: Run = Box::new(move |work| {
        while !work.is_cancelled() {
            match peer.recv_timeout(Duration::from_millis(1)) {
                Ok(clock) => {
                    work.join(&clock);
                    let mut writes = stated.iter().filter(|access| access.kind == Kind::Write);
                    return writes.try_for_each(|to| work.write(to.address, &vec![3; to.n_bytes]));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    });
    learn(stream, "a hearer", accesses, run)
}

/// A peer: it hears of everything on one stream, and says it on.
fn peer() -> (Sender<Clock>, Receiver<Clock>) {
    let (to, at) = channel::<Clock>();
    let (from, back) = channel();
    std::thread::spawn(move || {
        let mut all = Clock::default();
        while let Ok(clock) = at.recv_timeout(LIMIT) {
            all.join(&clock);
            if from.send(all.clone()).is_err() {
                break;
            }
        }
    });
    (to, back)
}

#[test]
fn a_message_there_and_back_orders_two_streams() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let (to, back) = peer();
    read(a, buffer, 64).unwrap();
    tell(a, Vec::new(), to).unwrap();
    hear(b, vec![access(buffer, 64, Kind::Write)], back).unwrap();
    read(b, buffer, 64).unwrap();
    write(b, buffer, 64).unwrap();
    bench.assert_fine();
}

#[test]
fn it_does_so_whichever_is_queued_first() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let (to, back) = peer();
    hear(b, Vec::new(), back).unwrap();
    write(b, buffer, 64).unwrap();
    write(a, buffer, 64).unwrap();
    tell(a, vec![access(buffer, 64, Kind::Read)], to).unwrap();
    bench.assert_fine();
}

#[test]
fn what_is_read_must_be_ordered_before_the_message() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let (to, back) = peer();
    write(a, buffer, 64).unwrap();
    tell(a, Vec::new(), to).unwrap();
    hear(b, vec![access(buffer, 64, Kind::Read)], back).unwrap_err();
    bench.assert_failed("race", &["a hearer", "a writer"]);
}

#[test]
fn a_send_without_an_event_is_found_as_it_is_queued() {
    let bench = Bench::new();
    let (compute, comm, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let go = hold(compute);
    write(compute, buffer, 64).unwrap();
    let (to, _back) = channel();
    tell(comm, vec![access(buffer, 64, Kind::Read)], to).unwrap_err();
    drop(go);
    bench.assert_failed("race", &["a writer", "a teller"]);
}

#[test]
fn a_receive_without_an_event_is_found_as_what_uses_it_is_queued() {
    let bench = Bench::new();
    let (compute, comm, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let (_to, back) = channel();
    hear(comm, vec![access(buffer, 64, Kind::Write)], back).unwrap();
    // A peer might have the receive after the read, not before it; whether it does, only the message says.
    read(compute, buffer, 64).unwrap();
    assert_eq!(bench.failure(), None);
}

#[test]
fn a_message_from_elsewhere_orders_nothing() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let (to, back) = channel();
    read(a, buffer, 64).unwrap();
    hear(b, Vec::new(), back).unwrap();
    let line = line!() + 1;
    write(b, buffer, 64).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(bench.failure(), None, "a peer might yet say that the read is done");
    to.send(Clock::default()).unwrap();
    assert_eq!(synchronize_stream(b).unwrap_err().code, Code::Assert);
    bench.assert_failed("race", &["a reader", "a writer", &format!("peers.rs:{line}:")]);
}

#[test]
fn a_message_from_before_the_use_orders_nothing() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let (to, back) = peer();
    tell(a, Vec::new(), to).unwrap();
    read(a, buffer, 64).unwrap();
    hear(b, vec![access(buffer, 64, Kind::Write)], back).unwrap();
    let _ = synchronize_context();
    bench.assert_failed("race", &["a reader", "a hearer"]);
}

#[test]
fn what_a_hearer_knows_is_passed_on_by_events_and_hosts() {
    let bench = Bench::new();
    let (a, b, c, d) = (bench.stream(), bench.stream(), bench.stream(), bench.stream());
    let buffer = bench.buffer(64);
    let (to, back) = peer();
    write(a, buffer, 64).unwrap();
    tell(a, Vec::new(), to).unwrap();
    hear(b, Vec::new(), back).unwrap();
    wait_event(c, event_after(b)).unwrap();
    read(c, buffer, 64).unwrap();
    synchronize_stream(c).unwrap();
    write(d, buffer, 64).unwrap();
    bench.assert_fine();
}

#[test]
fn a_hearer_that_is_done_tells_all_it_will() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let (to, back) = channel();
    hear(b, Vec::new(), back).unwrap();
    to.send(Clock::default()).unwrap();
    while query_stream(b) == Ok(false) {
        std::thread::yield_now();
    }
    write(a, buffer, 64).unwrap();
    write(b, buffer, 64).unwrap_err();
    bench.assert_failed("race", &[]);
}

#[test]
fn a_message_that_leaves_its_sender_out_orders_only_what_is_before() {
    let bench = Bench::new();
    let (a, b, buffer, other) = (bench.stream(), bench.stream(), bench.buffer(64), bench.buffer(64));
    let (to, back) = channel();
    write(a, other, 64).unwrap();
    let run: Run = Box::new(move |work| {
        to.send(work.before()).unwrap();
        work.write(buffer, &[1; 64])
    });
    learn(a, "an early teller", vec![access(buffer, 64, Kind::Write)], run).unwrap();
    hear(b, Vec::new(), back).unwrap();
    write(b, other, 64).unwrap();
    bench.assert_fine_here();
    let (to, back) = channel();
    let run: Run = Box::new(move |work| {
        to.send(work.before()).unwrap();
        work.write(buffer, &[1; 64])
    });
    learn(a, "an early teller", vec![access(buffer, 64, Kind::Write)], run).unwrap();
    hear(b, Vec::new(), back).unwrap();
    // Reported here if the message has come already, else as it does.
    let _ = write(b, buffer, 64);
    let _ = synchronize_context();
    bench.assert_failed("race", &["an early teller", "a writer"]);
}

impl Bench {
    /// Without learning of anything.
    #[track_caller]
    fn assert_fine_here(&self) {
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(self.failure(), None);
    }
}
