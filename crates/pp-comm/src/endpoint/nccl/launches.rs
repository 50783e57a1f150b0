//! What was launched and may not be complete.

use std::collections::BTreeMap;
use std::time::Duration;

use nccl_rs::{InFlight, NcclError};

use super::watch::Register;

/// Transfers or collectives that were launched together: they are complete together.
#[derive(Debug)]
pub(super) struct Launch {
    /// The lane they run on.
    pub(super) lane: usize,
    /// Until it was waited for, here or on the compute stream.
    in_flight: Option<InFlight>,
    /// How many of them may still be waited for.
    n_open: usize,
}

/// All of a rank's, by number.
#[derive(Debug)]
pub(super) struct Launches {
    register: Register,
    next: u64,
    /// Of the next one: how many were closed before it was launched.
    n_early: usize,
    open: BTreeMap<u64, Launch>,
}

impl Launches {
    pub(super) const fn new(register: Register) -> Self {
        Self { register, next: 0, n_early: 0, open: BTreeMap::new() }
    }

    /// The number that the next launch gets.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Keeps a launch until all `n_open` of it were closed.
    pub(super) fn keep(&mut self, lane: usize, in_flight: InFlight, n_open: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        let n_open = n_open - std::mem::take(&mut self.n_early).min(n_open);
        // What nobody will wait for is the communicator's affair from here on.
        if n_open > 0 {
            self.register.enter(number, in_flight.event().clone());
            self.open.insert(number, Launch { lane, in_flight: Some(in_flight), n_open });
        }
        number
    }

    /// The lane of a launch.
    pub(super) fn lane(&self, number: u64) -> Option<usize> {
        self.open.get(&number).map(|launch| launch.lane)
    }

    /// Whether it is complete, or was waited for on the compute stream.
    pub(super) fn is_complete(&self, number: u64) -> Result<bool, NcclError> {
        match self.open.get(&number).and_then(|launch| launch.in_flight.as_ref()) {
            Some(in_flight) => in_flight.is_complete().or_else(|error| self.unless_it_was_complete(number, error)),
            None => Ok(true),
        }
    }

    /// Waits for it here; false when the deadline passes first.
    pub(super) fn wait(&mut self, number: u64, limit: Duration) -> Result<bool, NcclError> {
        let Some(launch) = self.open.get_mut(&number) else { return Ok(true) };
        let Some(in_flight) = &mut launch.in_flight else { return Ok(true) };
        match in_flight.wait(limit) {
            Err(NcclError::Deadline { .. }) => Ok(false),
            Err(error) => self.unless_it_was_complete(number, error),
            Ok(()) => {
                launch.in_flight = None;
                Ok(true)
            }
        }
    }

    fn unless_it_was_complete(&self, number: u64, error: NcclError) -> Result<bool, NcclError> {
        if self.register.was_complete(number) { Ok(true) } else { Err(error) }
    }

    /// What is to be waited for on a stream; nothing if that was done.
    pub(super) fn take(&mut self, number: u64) -> Option<InFlight> {
        self.open.get_mut(&number)?.in_flight.take()
    }

    /// One of the transfers is over, or nobody will wait for it. What is not complete goes on; its memory stays with the
    /// communicator.
    pub(super) fn close(&mut self, number: u64) {
        if number == self.next {
            self.n_early += 1;
        } else if let Some(launch) = self.open.get_mut(&number) {
            launch.n_open = launch.n_open.saturating_sub(1);
            if launch.n_open == 0 {
                self.register.strike(number);
                self.open.remove(&number);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        self.open.len()
    }
}
