//! Streams, events and contexts as such.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn a_stream_runs_in_order_on_a_thread_of_its_own() {
    let bench = Bench::new();
    let stream = bench.stream();
    let (say, said) = channel();
    for i in 0..100 {
        let say = say.clone();
        launch_host(stream, Box::new(move || say.send((i, std::thread::current().name().map(str::to_owned))).unwrap()))
            .unwrap();
    }
    synchronize_stream(stream).unwrap();
    let all: Vec<_> = said.try_iter().collect();
    assert!(all.iter().map(|(i, _)| *i).eq(0..100));
    assert!(all[0].1.as_ref().unwrap().starts_with("cuda-stream-"));
}

#[test]
fn streams_run_beside_each_other_and_events_hold_one_back() {
    let bench = Bench::new();
    let (a, b) = (bench.stream(), bench.stream());
    let go = hold(a);
    synchronize_stream(b).unwrap();
    wait_event(b, event_after(a)).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    launch_host(b, Box::new(move || counted.store(1, Ordering::SeqCst))).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    drop(go);
    synchronize_stream(b).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    bench.assert_fine();
}

#[test]
fn events_keep_time() {
    let bench = Bench::new();
    let stream = bench.stream();
    let (start, end) = (create_event(true).unwrap(), create_event(true).unwrap());
    assert_eq!(elapsed_ms(start, end).unwrap_err().code, Code::InvalidHandle);
    record_event(start, stream).unwrap();
    launch_host(stream, Box::new(|| std::thread::sleep(Duration::from_millis(20)))).unwrap();
    record_event(end, stream).unwrap();
    synchronize_event(end).unwrap();
    let ms = elapsed_ms(start, end).unwrap();
    assert!((20.0..20_000.0).contains(&ms), "{ms}");
    assert!(elapsed_ms(end, start).unwrap() <= -20.0);
    let go = hold(stream);
    record_event(end, stream).unwrap();
    assert_eq!(elapsed_ms(start, end).unwrap_err().code, Code::NotReady);
    drop(go);
    let without = event_after(stream);
    synchronize_event(without).unwrap();
    assert_eq!(elapsed_ms(start, without).unwrap_err().code, Code::InvalidHandle);
}

#[test]
fn what_was_destroyed_is_known_as_such() {
    let bench = Bench::new();
    let (stream, event) = (bench.stream(), create_event(false).unwrap());
    destroy_stream(stream).unwrap();
    destroy_event(event).unwrap();
    assert!(synchronize_stream(stream).unwrap_err().text.ends_with("was destroyed"));
    assert!(query_event(event).unwrap_err().text.ends_with("was destroyed"));
    assert!(query_event(77).unwrap_err().text.ends_with("never was"));
    assert_eq!(destroy_stream(stream).unwrap_err().code, Code::InvalidHandle);
    bench.assert_fine();
}

#[test]
fn a_destroyed_streams_work_goes_on_and_is_waited_for() {
    let bench = Bench::new();
    let (stream, buffer) = (bench.stream(), bench.buffer(64));
    let go = hold(stream);
    write(stream, buffer, 64).unwrap();
    destroy_stream(stream).unwrap();
    let other = bench.stream();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        counted.fetch_add(1, Ordering::SeqCst);
        drop(go);
    });
    synchronize_context().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    write(other, buffer, 64).unwrap();
    bench.assert_fine();
}

#[test]
fn contexts_are_retained_and_released() {
    init().unwrap();
    let first = retain_primary(6).unwrap();
    assert_eq!(retain_primary(6).unwrap(), first);
    assert_eq!(device_of_context(first), Ok(6));
    set_current(Some(first)).unwrap();
    assert_eq!(current_context(), Some(first));
    assert_eq!(device_of_stream(as_c(0)), Ok(6));
    release_primary(6).unwrap();
    device_of_context(first).unwrap();
    release_primary(6).unwrap();
    assert_eq!(device_of_context(first).unwrap_err().code, Code::InvalidContext);
    assert_eq!(current_context(), None);
    assert_eq!(release_primary(6).unwrap_err().code, Code::InvalidContext);
    assert_eq!(allocate(8).unwrap_err().code, Code::InvalidContext);
    assert!(device(8).is_err() && device(-1).is_err());
    let second = retain_primary(6).unwrap();
    assert_ne!(second, first);
    reset_primary(6).unwrap();
}

#[test]
fn work_that_fails_or_panics_fails_the_context_and_releases_who_waits() {
    for panics in [false, true] {
        let bench = Bench::new();
        let stream = bench.stream();
        let run: Run = Box::new(move |_| if panics { panic!("no good") } else { Err("no good".to_owned()) });
        enqueue(as_c(stream), "the work".to_owned(), Vec::new(), run).unwrap();
        let error = synchronize_stream(stream).unwrap_err();
        assert_eq!(error.code, Code::LaunchFailed);
        bench.assert_failed("failed work", &["the work on stream"]);
        assert_eq!(query_stream(stream).unwrap_err().code, Code::LaunchFailed);
        assert_eq!(create_event(false).unwrap_err().code, Code::LaunchFailed);
    }
}

#[test]
fn a_failure_cancels_what_waits() {
    let bench = Bench::new();
    let (a, b) = (bench.stream(), bench.stream());
    let _go = hold(a);
    wait_event(b, event_after(a)).unwrap();
    fail_context("mischief\nof some kind");
    bench.assert_failed("mischief", &["of some kind"]);
    assert_eq!(synchronize_stream(b).unwrap_err().code, Code::LaunchFailed);
}

#[test]
fn work_must_state_what_it_touches() {
    let bench = Bench::new();
    let (stream, buffer) = (bench.stream(), bench.buffer(64));
    let stated = vec![access(buffer, 32, Kind::Read)];
    let run: Run = Box::new(move |work| work.write(buffer, &[0; 4]));
    enqueue(as_c(stream), "the work".to_owned(), stated, run).unwrap();
    bench.assert_failed("access that was not stated", &["the work", "Write of 4 bytes"]);
    let bench = Bench::new();
    let (stream, buffer) = (bench.stream(), bench.buffer(64));
    let stated = vec![access(buffer, 32, Kind::Read)];
    let run: Run = Box::new(move |work| work.read(buffer + 30, 4).map(drop));
    enqueue(as_c(stream), "the work".to_owned(), stated, run).unwrap();
    bench.assert_failed("access that was not stated", &["Read of 4 bytes"]);
}
