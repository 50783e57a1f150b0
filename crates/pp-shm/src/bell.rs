//! How a side of a ring sleeps, and how the other wakes it.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use rustix::thread::futex;

use crate::layout::Parking;
use crate::mapping::Mapping;

/// Which side waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Producer,
    Consumer,
}

/// Where one side of a ring waits for the other. Any thread of the side may hold one.
///
/// To sleep without missing a call: [`Bell::arm`], look once more at what is waited for, and only then [`Bell::park`].
#[derive(Clone, Debug)]
pub struct Bell {
    mapping: Arc<Mapping>,
    side: Side,
}

/// What [`Bell::arm`] saw.
#[derive(Clone, Copy, Debug)]
#[must_use = "it is armed in order to park"]
pub struct Armed(u32);

impl Bell {
    pub(crate) const fn new(mapping: Arc<Mapping>, side: Side) -> Self {
        Self { mapping, side }
    }

    fn parking(&self) -> &Parking {
        parking(&self.mapping, self.side)
    }

    /// Asks to be called from now on. What the other side did before is seen by whoever looks after this.
    pub fn arm(&self) -> Armed {
        let parking = self.parking();
        // The number first: a call between here and the sleep changes it, and the sleep then does not begin.
        let calls = parking.calls.load(Ordering::Acquire);
        parking.occupied.store(1, Ordering::Relaxed);
        // Pairs with the fence of `call`: either it sees that somebody is here, or the look after this sees what it did.
        fence(Ordering::SeqCst);
        Armed(calls)
    }

    /// Sleeps until a call, or until the time is up. It may return early.
    pub fn park(&self, armed: Armed, limit: Duration) {
        let Ok(limit) = limit.try_into() else { return };
        // Called already, called now, interrupted, or time up: the caller looks again in every case.
        let _ = futex::wait(&self.parking().calls, futex::Flags::empty(), armed.0, Some(&limit));
    }

    /// Wakes everybody who waits here: for threads of the same side that have something else to look at.
    pub fn ring(&self) {
        let parking = self.parking();
        parking.calls.fetch_add(1, Ordering::Release);
        wake(parking);
    }
}

/// Calls a side, if anybody there is asleep.
pub(crate) fn call(mapping: &Mapping, side: Side) {
    let parking = parking(mapping, side);
    fence(Ordering::SeqCst);
    if parking.occupied.load(Ordering::Relaxed) != 0 && parking.occupied.swap(0, Ordering::Relaxed) != 0 {
        parking.calls.fetch_add(1, Ordering::Release);
        wake(parking);
    }
}

fn parking(mapping: &Mapping, side: Side) -> &Parking {
    let header = mapping.header();
    match side {
        Side::Producer => &header.producer.0,
        Side::Consumer => &header.consumer.0,
    }
}

fn wake(parking: &Parking) {
    // It fails for bad addresses only; whoever sleeps wakes up at the end of its time in any case.
    let _ = futex::wake(&parking.calls, futex::Flags::empty(), i32::MAX as u32);
}
