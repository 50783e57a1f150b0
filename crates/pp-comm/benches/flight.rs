//! What keeping an event takes: `cargo bench -p pp-comm --bench flight`. The loop's own time is in it.

use std::hint::black_box;
use std::time::Instant;

use pp_comm::{Recorder, State, Subject};
use pp_schedule::Rank;

const EVENTS: u32 = 1_000_000;
const REPEATS: usize = 9;

fn main() {
    let recorder = Recorder::new(Rank(0));
    let subject = Subject::Compute { step: 3, work: "2F1".parse().expect("a token") };
    let time = |note: &dyn Fn(u32)| {
        let run = |_| {
            let start = Instant::now();
            (0..EVENTS).for_each(note);
            start.elapsed().as_secs_f64() / f64::from(EVENTS) * 1e9
        };
        let mut times: Vec<f64> = (0..REPEATS).map(run).collect();
        times.sort_unstable_by(f64::total_cmp);
        times[REPEATS / 2]
    };
    let posted = time(&|_| recorder.note(black_box(subject), State::Posted, 64));
    // A wait: where it is, that it begins, that it is over.
    let waited = time(&|action| {
        recorder.at_action(Some(1 + action));
        recorder.note(black_box(subject), State::Begun, 64);
        recorder.note(black_box(subject), State::Done, 64);
    });
    println!("an event: {posted:.0} ns; an action with two events: {waited:.0} ns");
}
