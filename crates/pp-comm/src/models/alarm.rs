//! The alarm beside whoever waits for something else.

use std::sync::Arc;

use loom::thread;
use pp_schedule::Rank;

use super::{FOREVER, explore};
use crate::alarm::Alarm;
use crate::board::Board;
use crate::deadline::Deadline;
use crate::error::Loss;

fn loss(rank: u32) -> Loss {
    Loss { rank: Rank(rank), reason: "it ended".to_owned() }
}

/// A waiter on a board that the alarm wakes, however late it says that it wants to be woken.
#[test]
fn a_waiter_that_the_alarm_wakes_always_wakes() {
    explore(3, || {
        let (alarm, board) = (Alarm::default(), Arc::new(Board::new(false)));
        let ringing = alarm.clone();
        let ringer = thread::spawn(move || ringing.ring(loss(1)));
        let waked = Arc::clone(&board);
        alarm.on_ring(move || waked.update(|rung| *rung = true));
        board.wait(Deadline::after(FOREVER), |rung| rung.then_some(())).expect("it rings");
        assert!(alarm.has_rung());
        assert_eq!(alarm.loss().map(|loss| loss.rank), Some(Rank(1)));
        ringer.join().expect("no panic");
    });
}

/// Two that notice a loss: one of them is what everybody hears of, also whoever only looks.
#[test]
fn the_first_loss_is_the_only_one() {
    explore(3, || {
        let alarm = Alarm::default();
        let ringers = [1, 2].map(|rank| {
            let alarm = alarm.clone();
            thread::spawn(move || {
                alarm.ring(loss(rank));
                alarm.loss().map(|loss| loss.rank)
            })
        });
        let early = alarm.loss().map(|loss| loss.rank);
        let [one, two] = ringers.map(|ringer| ringer.join().expect("no panic"));
        assert!(one.is_some() && one == two, "{one:?}, {two:?}");
        assert!(early.is_none() || early == one, "{early:?}, {one:?}");
    });
}
