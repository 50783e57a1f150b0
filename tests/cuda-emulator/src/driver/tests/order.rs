//! Races, and what is none.

use super::*;

#[test]
fn one_stream_orders_its_work() {
    let bench = Bench::new();
    let (stream, buffer) = (bench.stream(), bench.buffer(64));
    for _ in 0..100 {
        write(stream, buffer, 64).unwrap();
        read(stream, buffer, 64).unwrap();
    }
    bench.assert_fine();
}

#[test]
fn two_streams_without_an_event_race_though_nothing_runs() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let go = hold(a);
    write(a, buffer, 64).unwrap();
    let line = line!() + 1;
    let error = read(b, buffer, 8).unwrap_err();
    drop(go);
    assert_eq!(error.code, Code::Assert);
    let names = ["a writer on stream", "a reader on stream", "bytes 0..8", "of 64 bytes", "allocated by cuMemAlloc"];
    bench.assert_failed("race", &names);
    bench.assert_failed("race", &[&format!("order.rs:{}:", line - 2), &format!("order.rs:{line}:")]);
    assert_eq!(write(a, buffer, 1).unwrap_err().text, bench.failure().unwrap().text, "later calls fail alike");
}

#[test]
fn two_streams_without_an_event_race_though_the_first_is_long_done() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    write(a, buffer, 64).unwrap();
    while state().streams.get(&a).unwrap().last.as_ref().unwrap().end().is_none() {
        std::thread::yield_now();
    }
    read(b, buffer, 64).unwrap_err();
    bench.assert_failed("race", &[]);
}

#[test]
fn an_event_orders_two_streams_and_so_on() {
    let bench = Bench::new();
    let (a, b, c, buffer) = (bench.stream(), bench.stream(), bench.stream(), bench.buffer(64));
    write(a, buffer, 64).unwrap();
    wait_event(b, event_after(a)).unwrap();
    wait_event(c, event_after(b)).unwrap();
    write(c, buffer, 64).unwrap();
    bench.assert_fine();
}

#[test]
fn what_follows_the_record_is_not_waited_for() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let event = event_after(a);
    write(a, buffer, 64).unwrap();
    wait_event(b, event).unwrap();
    read(b, buffer, 64).unwrap_err();
    bench.assert_failed("race", &[]);
}

#[test]
fn a_wait_takes_the_event_as_it_is_then() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let event = event_after(a);
    wait_event(b, event).unwrap();
    write(a, buffer, 64).unwrap();
    record_event(event, a).unwrap();
    read(b, buffer, 64).unwrap_err();
    bench.assert_failed("race", &[]);
}

#[test]
fn an_event_that_was_never_recorded_orders_nothing() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    write(a, buffer, 64).unwrap();
    let event = create_event(false).unwrap();
    assert_eq!(query_event(event), Ok(true));
    synchronize_event(event).unwrap();
    wait_event(b, event).unwrap();
    read(b, buffer, 64).unwrap_err();
    bench.assert_failed("race", &[]);
}

#[test]
fn a_diamond_is_ordered_and_its_sides_may_both_read() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    for _ in 0..20 {
        write(a, buffer, 64).unwrap();
        wait_event(b, event_after(a)).unwrap();
        read(a, buffer, 64).unwrap();
        read(b, buffer, 64).unwrap();
        wait_event(a, event_after(b)).unwrap();
    }
    bench.assert_fine();
}

#[test]
fn a_writer_must_wait_for_all_readers() {
    let bench = Bench::new();
    let (a, b, c, buffer) = (bench.stream(), bench.stream(), bench.stream(), bench.buffer(64));
    read(a, buffer, 64).unwrap();
    read(b, buffer, 64).unwrap();
    wait_event(c, event_after(b)).unwrap();
    write(c, buffer, 64).unwrap_err();
    bench.assert_failed("race", &["a reader", "a writer"]);
}

#[test]
fn the_sides_of_a_diamond_must_not_write() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    write(a, buffer, 64).unwrap();
    wait_event(b, event_after(a)).unwrap();
    write(a, buffer, 64).unwrap();
    write(b, buffer, 64).unwrap_err();
    bench.assert_failed("race", &[]);
}

#[test]
fn parts_of_a_buffer_are_apart() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    write(a, buffer, 32).unwrap();
    write(b, buffer + 32, 32).unwrap();
    assert_eq!(bench.failure(), None);
    write(a, buffer + 31, 2).unwrap_err();
    bench.assert_failed("race", &["bytes 32..33 of it"]);
}

#[test]
fn waiting_on_the_host_orders_what_is_queued_later() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    write(a, buffer, 64).unwrap();
    synchronize_stream(a).unwrap();
    write(b, buffer, 64).unwrap();
    synchronize_event(event_after(b)).unwrap();
    write(a, buffer, 64).unwrap();
    synchronize_context().unwrap();
    write(b, buffer, 64).unwrap();
    let event = event_after(b);
    while !query_event(event).unwrap() {
        std::thread::yield_now();
    }
    write(a, buffer, 64).unwrap();
    while !query_stream(a).unwrap() {
        std::thread::yield_now();
    }
    write(b, buffer, 64).unwrap();
    bench.assert_fine();
}

#[test]
fn asking_in_vain_orders_nothing() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let go = hold(a);
    write(a, buffer, 64).unwrap();
    assert_eq!(query_event(event_after(a)), Ok(false));
    assert_eq!(query_stream(a), Ok(false));
    write(b, buffer, 64).unwrap_err();
    drop(go);
}

#[test]
fn what_one_thread_waited_for_another_does_not_know_until_the_first_ends() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    let spawned = std::thread::spawn(move || {
        set_current(Some(bench.context)).unwrap();
        write(a, buffer, 64).unwrap();
        synchronize_stream(a).unwrap();
        bench
    });
    let bench = spawned.join().unwrap();
    write(b, buffer, 64).unwrap();
    bench.assert_fine();

    let (waited, end) = (channel(), channel::<()>());
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    write(a, buffer, 64).unwrap();
    let (say, ended) = (waited.0, end.1);
    let context = bench.context;
    let other = std::thread::spawn(move || {
        set_current(Some(context)).unwrap();
        synchronize_stream(a).unwrap();
        say.send(()).unwrap();
        ended.recv_timeout(LIMIT)
    });
    waited.1.recv_timeout(LIMIT).unwrap();
    write(b, buffer, 64).unwrap_err();
    bench.assert_failed("race", &["CUDA_EMULATOR_HOST=process"]);
    end.0.send(()).unwrap();
    other.join().unwrap().unwrap();
}

#[test]
fn the_default_stream_is_ordered_with_blocking_streams_only() {
    let bench = Bench::new();
    let (blocking, other, buffer) = (create_stream(true).unwrap(), create_stream(true).unwrap(), bench.buffer(64));
    let go = hold(blocking);
    write(blocking, buffer, 64).unwrap();
    write(0, buffer, 64).unwrap();
    write(other, buffer, 64).unwrap();
    assert_eq!(query_stream(other), Ok(false), "it waits for the default stream, which waits for the first");
    assert_eq!(query_stream(0), Ok(false));
    drop(go);
    synchronize_stream(other).unwrap();
    assert_eq!(query_stream(blocking), Ok(true));
    write(2, buffer, 64).unwrap();
    write(0, buffer, 64).unwrap();
    bench.assert_fine();
    write(blocking, buffer, 64).unwrap();
    write(other, buffer, 64).unwrap_err();
    bench.assert_failed("race", &[]);

    let bench = Bench::new();
    let (stream, buffer) = (bench.stream(), bench.buffer(64));
    write(0, buffer, 64).unwrap();
    write(stream, buffer, 64).unwrap_err();
    bench.assert_failed("race", &["the default stream of device 0"]);
}
