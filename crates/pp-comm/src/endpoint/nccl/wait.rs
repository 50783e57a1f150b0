//! Waiting for transfers, here or on the compute stream, and settling what was left to the stream.

use std::io;
use std::time::Duration;

use nccl_rs::NcclError;
use pp_schedule::{Channel, Role};

use super::queue::{Note, Posted, Transfer};
use super::watch::StreamWait;
use super::{HandOver, NcclTransport, Waits, notes};
use crate::deadline::Deadline;
use crate::error::{CommError, Operation};
use crate::message::{Buffer, BufferError, Incoming};

/// The longest look at a host link: an abort does not wake who waits there.
const SLICE: Duration = Duration::from_millis(50);

/// Between two looks at notes that are to explain a failure.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the transfer of a message that turned out to be another may still take: its sender has done nothing wrong.
const UNSETTLED: Duration = Duration::from_secs(1);

impl NcclTransport {
    /// Nobody will wait for this transfer. It goes on all the same, and its note is still looked at in its turn.
    pub(in crate::endpoint) fn abandon(&mut self, link: usize, number: u64) {
        match self.queues[link].take(number) {
            Some(Posted::Host(number)) => self.host.abandon(link, number),
            Some(Posted::Device(Transfer { launch: Some(launch), .. })) => self.launches.close(launch),
            Some(Posted::Device(_) | Posted::Late) | None => {}
        }
    }

    /// Whether a wait would end at once, in whatever way.
    pub(in crate::endpoint) fn has_ended(&mut self, link: usize, number: u64) -> bool {
        let (note, launch) = match self.queues[link].get(number) {
            // Where the link cannot go on, the wait says why.
            Some(Posted::Host(number)) => return self.host.has_ended(link, *number).unwrap_or(true),
            Some(Posted::Device(transfer)) => {
                (self.queues[link].note(number).map(|note| note.on_link), transfer.launch)
            }
            Some(Posted::Late) | None => return true,
        };
        if self.waits == Waits::OnStream || self.watch.cause().is_some() {
            return true;
        }
        let note = match note {
            None => true,
            Some(None) => false,
            Some(Some(note)) => self.host.has_ended(link, note).unwrap_or(true),
        };
        note && launch.is_none_or(|launch| self.launches.is_complete(launch).unwrap_or(true))
    }

    /// Waits for a transfer; `None` when the deadline passes first.
    pub(in crate::endpoint) fn wait(
        &mut self,
        operation: Operation,
        (link, number): (usize, u64),
        limit: Duration,
    ) -> Result<Option<Buffer>, CommError> {
        self.end_together()?;
        match self.queues[link].get(number) {
            Some(Posted::Host(on_link)) => {
                let done = self.host.wait(link, *on_link, limit)?;
                if done.is_some() {
                    self.queues[link].take(number);
                }
                return Ok(done);
            }
            Some(Posted::Device(_)) => {}
            Some(Posted::Late) | None => return self.check().map(|()| None),
        }
        let done = match self.waits {
            Waits::OnHost => self.wait_here(operation.channel, (link, number), Deadline::after(limit)),
            Waits::OnStream => self.wait_there(operation, (link, number), limit).map(Some),
        };
        done.map_err(|error| self.explained(&[(link, operation.channel, number + 1)], error))
    }

    /// What ended the endpoint. NCCL or the driver may notice a wrong message first, but only its note says which it is: the notes
    /// before `end` of these links are given a moment to come.
    fn explained(&mut self, links: &[(usize, Channel, u64)], error: CommError) -> CommError {
        if !matches!(error, CommError::Nccl { .. }) {
            return error;
        }
        let deadline = Deadline::after(SLICE * 10);
        loop {
            for &(link, channel, end) in links {
                if let Err(told) = self.look_at_what_has_come(channel, link, end) {
                    return told;
                }
            }
            let is_owed = |&(link, _, end): &(usize, Channel, u64)| self.queues[link].next_note(end).is_some();
            if deadline.remaining().is_none() || !links.iter().any(is_owed) {
                return error;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn wait_here(
        &mut self,
        channel: Channel,
        (link, number): (usize, u64),
        deadline: Deadline,
    ) -> Result<Option<Buffer>, CommError> {
        let launch = match self.queues[link].get(number) {
            Some(Posted::Device(transfer)) => transfer.launch,
            _ => None,
        };
        // What is complete stays complete, whoever is gone by now.
        if let Some(cause) = self.watch.cause()
            && !self.is_complete(link, number, launch)
        {
            return Err(cause);
        }
        if !self.look_at_notes(channel, link, number + 1, deadline)? {
            return Ok(None);
        }
        if let Some(launch) = launch {
            let lane = self.launches.lane(launch).unwrap_or_default();
            let done = self.launches.wait(launch, left(deadline));
            if !done.map_err(|error| self.failed_on(lane, error))? {
                return Ok(None);
            }
            self.launches.close(launch);
        }
        match self.queues[link].take(number) {
            Some(Posted::Device(transfer)) => self.handed_over(channel, transfer, deadline).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether message and note are both there.
    fn is_complete(&mut self, link: usize, number: u64, launch: Option<u64>) -> bool {
        let note = self.queues[link].note(number).and_then(|note| note.on_link);
        note.is_none_or(|note| matches!(self.host.has_ended(link, note), Ok(true)))
            && launch.is_none_or(|launch| matches!(self.launches.is_complete(launch), Ok(true)))
    }

    /// Has the compute stream wait.
    fn wait_there(
        &mut self,
        operation: Operation,
        (link, number): (usize, u64),
        limit: Duration,
    ) -> Result<Buffer, CommError> {
        self.check()?;
        let owed = self.queues[link].owed;
        self.look_at_what_has_come(operation.channel, link, owed)?;
        let Some(Posted::Device(transfer)) = self.queues[link].take(number) else {
            return Err(CommError::Deadline { operation, limit });
        };
        self.queues[link].owed = self.queues[link].owed.max(number + 1);
        if let Some(launch) = transfer.launch {
            let late = CommError::Deadline { operation, limit };
            self.put_wait(launch, limit, late)?;
            self.launches.close(launch);
        }
        match (transfer.memory, transfer.given) {
            (Some(memory), _) => Ok(Buffer::on_device(transfer.boundary, memory)?),
            (None, Some(given)) => Ok(given),
            (None, None) => Err(CommError::Deadline { operation, limit }),
        }
    }

    /// Puts a wait for a launch on the compute stream, unless that was done, and has the watchdog look after it.
    pub(super) fn put_wait(&mut self, launch: u64, limit: Duration, late: CommError) -> Result<(), CommError> {
        let lane = self.launches.lane(launch).unwrap_or_default();
        let Some(in_flight) = self.launches.take(launch) else { return Ok(()) };
        let put = || {
            let (reached, done) = (self.compute.record()?, in_flight.event().clone());
            in_flight.then_on(&self.compute)?;
            Ok((reached, done))
        };
        let (reached, done) = put().map_err(|error: NcclError| self.failed_on(lane, error))?;
        self.watch.expect(StreamWait { reached, done, of: self.lanes[lane].of.clone(), limit, late });
        Ok(())
    }

    /// Waits until all that was left to the compute stream is complete, and looks at the notes of it.
    pub(in crate::endpoint) fn settle(&mut self, channels: &[Channel], limit: Duration) -> Result<(), CommError> {
        let settled = self.settle_all(channels, limit);
        let owed = |(link, &channel): (usize, &Channel)| (link, channel, self.queues[link].owed);
        let links: Vec<_> = channels.iter().enumerate().map(owed).collect();
        settled.map_err(|error| self.explained(&links, error))
    }

    fn settle_all(&mut self, channels: &[Channel], limit: Duration) -> Result<(), CommError> {
        self.end_together()?;
        for (link, &channel) in channels.iter().enumerate() {
            let owed = self.queues[link].owed;
            if !self.look_at_notes(channel, link, owed, Deadline::after(limit))? {
                let late = self.queues[link].next_note(owed).map(|note| (note.role, note.label));
                let Some((role, label)) = late else { continue };
                return Err(self.fail(CommError::Deadline { operation: Operation { role, channel, label }, limit }));
            }
        }
        self.check()?;
        self.watch.settle()
    }

    /// Looks at the notes of the transfers before `end`, in turn; false when the deadline passes first.
    fn look_at_notes(
        &mut self,
        channel: Channel,
        link: usize,
        end: u64,
        deadline: Deadline,
    ) -> Result<bool, CommError> {
        while let Some(on_link) = self.queues[link].next_note(end).and_then(|note| note.on_link) {
            let left = left(deadline);
            match self.host.wait(link, on_link, left.min(SLICE)) {
                Ok(Some(found)) => self.take_note(channel, link, &found)?,
                Ok(None) if left.is_zero() => return Ok(false),
                Ok(None) => self.check()?,
                Err(error) => return Err(self.wrong(link, error)),
            }
        }
        Ok(true)
    }

    /// Looks at those of them that are there, without waiting.
    fn look_at_what_has_come(&mut self, channel: Channel, link: usize, end: u64) -> Result<(), CommError> {
        while let Some(on_link) = self.queues[link].next_note(end).and_then(|note| note.on_link) {
            match self.host.has_ended(link, on_link) {
                Ok(false) => break,
                Ok(true) => {}
                Err(error) => return Err(self.wrong(link, error)),
            }
            match self.host.wait(link, on_link, Duration::ZERO) {
                Ok(Some(found)) => self.take_note(channel, link, &found)?,
                Ok(None) => break,
                Err(error) => return Err(self.wrong(link, error)),
            }
        }
        Ok(())
    }

    /// Compares a note with what was expected.
    fn take_note(&mut self, channel: Channel, link: usize, found: &Buffer) -> Result<(), CommError> {
        let Some(Note { role, label, boundary, place, .. }) = self.queues[link].notes.front() else { return Ok(()) };
        if *role == Role::Receive
            && let Err(error) = notes::check(found, channel, *label, (*place, boundary))
        {
            return Err(self.wrong(link, error));
        }
        self.queues[link].notes.pop_front();
        Ok(())
    }

    /// Ends the endpoint because of what came over a host link. Where it is only another message than expected, that one may
    /// still complete: an abort would fail its sender too.
    fn wrong(&mut self, link: usize, error: CommError) -> CommError {
        let number = self.queues[link].notes.front().map(|note| note.number);
        if let (false, Some(Posted::Device(Transfer { launch: Some(launch), .. }))) =
            (matches!(error, CommError::PeerLost { .. }), number.and_then(|number| self.queues[link].get(number)))
        {
            let _ = self.launches.wait(*launch, UNSETTLED);
        }
        self.fail(error)
    }

    /// What the caller gets of a transfer that is complete.
    fn handed_over(&self, channel: Channel, transfer: Transfer, deadline: Deadline) -> Result<Buffer, CommError> {
        let Transfer { label, boundary, memory, given, .. } = transfer;
        match (memory, self.hand_over) {
            (Some(memory), HandOver::Device) => Ok(Buffer::on_device(boundary, memory)?),
            (Some(memory), HandOver::Host) => {
                let mut incoming = Incoming::new(&boundary, given)?;
                if !incoming.is_full() {
                    let failed = |error| CommError::Nccl { of: crate::error::Communicator::Channel(channel), error };
                    let copied = memory.to_host(&self.copies, left(deadline).max(UNSETTLED));
                    let bytes = copied.map_err(|error| self.fail(failed(error)))?;
                    incoming.fill(|room| Ok::<_, io::Error>(room.write_copy_of_slice(&bytes))).unwrap_or_default();
                }
                incoming.finish().ok_or_else(|| BufferError::Allocation { boundary }.into())
            }
            (None, _) => given.ok_or(CommError::Deadline {
                operation: Operation { role: Role::Send, channel, label },
                limit: deadline.limit(),
            }),
        }
    }
}

fn left(deadline: Deadline) -> Duration {
    deadline.remaining().unwrap_or_default()
}
