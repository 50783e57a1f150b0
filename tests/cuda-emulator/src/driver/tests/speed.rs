//! That tracking costs little: what is touched counts by ranges, not by bytes.

use super::*;

#[test]
fn large_buffers_cost_no_more_than_small_ones() {
    let bench = Bench::new();
    let (a, b) = (bench.stream(), bench.stream());
    // Never written, so that nothing but the tracking costs.
    let large = allocate(1 << 30).unwrap();
    let begun = Instant::now();
    for _ in 0..100 {
        write(a, large, 1 << 30).unwrap();
        wait_event(b, event_after(a)).unwrap();
        read(b, large, 1 << 30).unwrap();
        wait_event(a, event_after(b)).unwrap();
    }
    // 200 GiB were touched. The limit is wide, as others may be using the machine.
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    bench.assert_fine();
}

#[test]
fn a_full_queue_does_not_slow_down_what_comes_next() {
    let bench = Bench::new();
    let (stream, buffer) = (bench.stream(), bench.buffer(64));
    let go = hold(stream);
    for _ in 0..2000 {
        write(stream, buffer, 64).unwrap();
    }
    drop(go);
    bench.assert_fine();
}
