//! Bounds, frees, reads of nothing, leaks.

use super::*;

#[test]
fn an_access_must_stay_in_its_buffer() {
    type Wrong = (i64, usize, &'static [&'static str]);
    let wrong: [Wrong; 4] = [
        (0, 65, &["end 1 bytes after the end of buffer", "of 64 bytes", "allocated by cuMemAlloc"]),
        (64, 4, &["begin 0 bytes after the end of buffer"]),
        (1 << 30, 4, &["lie in no buffer"]),
        (-8, 16, &["lie in no buffer"]),
    ];
    for (offset, n_bytes, names) in wrong {
        let bench = Bench::new();
        let stream = bench.stream();
        let buffer = allocate(64).unwrap();
        let error = write(stream, buffer.wrapping_add_signed(offset), n_bytes).unwrap_err();
        assert_eq!(error.code, Code::IllegalAddress);
        bench.assert_failed("out of bounds", names);
        bench.assert_failed("out of bounds", &["a writer on stream", "memory.rs:"]);
    }
}

#[test]
fn host_memory_is_not_the_devices() {
    let bench = Bench::new();
    let stream = bench.stream();
    let bytes = [0_u8; 8];
    write(stream, bytes.as_ptr().addr() as u64, 8).unwrap_err();
    bench.assert_failed("out of bounds", &["an address of the host"]);
}

#[test]
fn another_devices_memory_is_out_of_reach() {
    let bench = Bench::new();
    let buffer = bench.buffer(64);
    let other = make(1).unwrap();
    set_current(Some(other)).unwrap();
    let stream = create_stream(false).unwrap();
    write(stream, buffer, 8).unwrap_err();
    assert!(check(other).unwrap_err().text.starts_with("wrong device: "));
    bench.assert_fine_on();
    destroy(other).unwrap();
}

impl Bench {
    #[track_caller]
    fn assert_fine_on(&self) {
        set_current(Some(self.context)).unwrap();
        self.assert_fine();
    }
}

#[test]
fn freed_memory_must_not_be_used() {
    for is_async in [false, true] {
        let bench = Bench::new();
        let (stream, buffer) = (bench.stream(), bench.buffer(64));
        if is_async {
            free_async(buffer, stream).unwrap()
        } else {
            free(buffer).unwrap()
        }
        let error = read(stream, buffer + 60, 4).unwrap_err();
        assert_eq!(error.code, Code::IllegalAddress);
        bench.assert_failed("use after free", &["freed by cuMemFree", "allocated by cuMemAlloc", "a reader"]);
    }
}

#[test]
fn memory_is_freed_once() {
    let bench = Bench::new();
    let (stream, buffer) = (bench.stream(), bench.buffer(64));
    free_async(buffer, stream).unwrap();
    assert!(free(buffer).is_err());
    bench.assert_failed("double free", &["freed by cuMemFreeAsync"]);
    let bench = Bench::new();
    let buffer = bench.buffer(64);
    assert!(free(buffer + 8).is_err());
    bench.assert_failed("bad free", &["no such buffer begins there"]);
}

#[test]
fn a_free_is_ordered_after_all_uses() {
    let bench = Bench::new();
    let (a, b) = (bench.stream(), bench.stream());
    let buffer = allocate_async(64, a).unwrap();
    wait_event(b, event_after(a)).unwrap();
    write(b, buffer, 64).unwrap();
    wait_event(a, event_after(b)).unwrap();
    free_async(buffer, a).unwrap();
    bench.assert_fine();
}

#[test]
fn an_early_free_races_with_the_use() {
    let bench = Bench::new();
    let (a, b) = (bench.stream(), bench.stream());
    let buffer = allocate_async(64, a).unwrap();
    wait_event(b, event_after(a)).unwrap();
    let go = hold(b);
    read(b, buffer, 64).unwrap();
    free_async(buffer, a).unwrap_err();
    drop(go);
    bench.assert_failed("race", &["a reader", "cuMemFreeAsync", "allocated by cuMemAllocAsync"]);
}

#[test]
fn a_use_before_the_allocation_races_with_it() {
    let bench = Bench::new();
    let (a, b) = (bench.stream(), bench.stream());
    let buffer = allocate_async(64, a).unwrap();
    write(b, buffer, 64).unwrap_err();
    bench.assert_failed("race", &["cuMemAllocAsync", "a writer"]);
}

#[test]
fn a_free_that_waits_needs_no_event() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    read(a, buffer, 64).unwrap();
    read(b, buffer, 64).unwrap();
    free(buffer).unwrap();
    bench.assert_fine();
}

#[test]
fn memory_may_be_freed_by_another_thread_than_waited() {
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    read(a, buffer, 64).unwrap();
    let (say, said) = channel();
    let context = bench.context;
    let other = std::thread::spawn(move || {
        set_current(Some(context)).unwrap();
        said.recv_timeout(LIMIT).unwrap();
        free_async(buffer, b)
    });
    synchronize_stream(a).unwrap();
    say.send(()).unwrap();
    other.join().unwrap().unwrap();
    bench.assert_fine();
}

#[test]
fn what_was_never_written_must_not_be_read() {
    let bench = Bench::new();
    let stream = bench.stream();
    let buffer = allocate(64).unwrap();
    fill("a fill", buffer, &[7], 40, stream).unwrap();
    assert_eq!(copy_out("a copy", buffer, 40, stream).unwrap(), [7; 40]);
    copy_out("a copy", buffer + 32, 16, stream).unwrap_err();
    bench.assert_failed("uninitialised read", &["a copy on stream", "byte 40 was never written", "of 64 bytes"]);
}

#[test]
fn copies_and_fills_move_the_bytes() {
    let bench = Bench::new();
    let stream = bench.stream();
    let (from, to) = (allocate(12).unwrap(), allocate_async(12, stream).unwrap());
    fill("a fill", from, &[1, 2, 3, 4], 3, stream).unwrap();
    copy_in_async("in", from + 4, vec![9, 9], stream).unwrap();
    copy_async("between", to, from, 12, stream).unwrap();
    assert_eq!(copy_out("out", to, 12, stream).unwrap(), [1, 2, 3, 4, 9, 9, 3, 4, 1, 2, 3, 4]);
    copy_in("in", from, vec![5; 12]).unwrap();
    synchronize_stream(0).unwrap();
    assert_eq!(copy_out("out", from, 12, 0).unwrap(), [5; 12]);
    copy_async("nothing", to, from, 0, stream).unwrap();
    bench.assert_fine();
}

#[test]
fn a_copy_from_pageable_memory_is_not_done_when_it_returns() {
    let bench = Bench::new();
    let stream = bench.stream();
    let buffer = allocate(16).unwrap();
    copy_in("in", buffer, vec![5; 16]).unwrap();
    read(stream, buffer, 16).unwrap_err();
    bench.assert_failed("race", &["in on the default stream"]);
}

#[test]
fn pinned_memory_is_copied_in_the_streams_order() {
    let bench = Bench::new();
    let stream = bench.stream();
    let (buffer, host) = (bench.buffer(16), allocate_host(16).unwrap());
    assert!(is_pinned(host, 16) && is_pinned(host + 8, 8) && !is_pinned(host + 8, 9));
    let go = hold(stream);
    copy_async("out", host, buffer, 16, stream).unwrap();
    assert_eq!(query_stream(stream), Ok(false), "it returned before it was done");
    drop(go);
    synchronize_stream(stream).unwrap();
    copy("in", buffer, host, 16).unwrap();
    assert_eq!(copy_out("out", buffer, 16, stream).unwrap(), [1; 16]);
    free_host(host).unwrap();
    assert!(!is_pinned(host, 16));
    bench.assert_fine();
}

#[test]
fn pinned_memory_must_stay_while_it_is_copied() {
    let bench = Bench::new();
    let stream = bench.stream();
    let (buffer, host) = (bench.buffer(16), allocate_host(16).unwrap());
    let go = hold(stream);
    copy_async("in", buffer, host, 16, stream).unwrap();
    free_host(host).unwrap_err();
    drop(go);
    bench.assert_failed("race", &["in on stream", "cuMemFreeHost", "pinned on the host"]);
}

#[test]
fn memory_runs_out_and_comes_back() {
    let bench = Bench::new();
    let other = make(7).unwrap();
    set_current(Some(other)).unwrap();
    let (all, total) = memory_info(7);
    assert_eq!(all, total);
    let most = allocate(total - 10).unwrap();
    assert_eq!(allocate(11).unwrap_err().code, Code::OutOfMemory);
    assert_eq!(memory_info(7).0, 10);
    free(most).unwrap();
    assert_eq!(memory_info(7).0, total);
    assert_eq!(allocate(0).unwrap_err().code, Code::InvalidValue);
    destroy(other).unwrap();
    bench.assert_fine_on();
}
