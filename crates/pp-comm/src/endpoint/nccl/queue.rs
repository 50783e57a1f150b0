//! What was posted on one channel, and the notes of its messages, which are looked at in turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nccl_rs::DeviceMemory;
use pp_schedule::Role;

use crate::message::{Boundary, Buffer, Label};

/// A transfer that may still be waited for.
#[derive(Debug)]
pub(super) enum Posted {
    /// Over the host link, by its number there.
    Host(u64),
    /// Over NCCL.
    Device(Transfer),
    /// Never begun: the endpoint has ended because a rank was lost, which is for whoever waits to see.
    Late,
}

/// A transfer over NCCL.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) role: Role,
    pub(super) label: Label,
    pub(super) boundary: Boundary,
    /// What it was launched with; nothing where there are no bytes to transfer.
    pub(super) launch: Option<u64>,
    /// What a receive fills, on the device.
    pub(super) memory: Option<Arc<dyn DeviceMemory>>,
    /// What the caller gave: of a send the buffer, of a receive the memory that the message is to be copied into.
    pub(super) given: Option<Buffer>,
}

/// A note that was not looked at.
#[derive(Debug)]
pub(super) struct Note {
    /// The transfer's number on this channel.
    pub(super) number: u64,
    /// The note's on the host link, once it was posted there.
    pub(super) on_link: Option<u64>,
    pub(super) role: Role,
    pub(super) label: Label,
    pub(super) boundary: Boundary,
    pub(super) place: i64,
}

/// One channel's.
#[derive(Debug, Default)]
pub(super) struct Queue {
    next: u64,
    posted: BTreeMap<u64, Posted>,
    /// In the order of the channel: after a message that is not the one expected, nothing can be told of those behind it.
    pub(super) notes: VecDeque<Note>,
    /// The notes before this transfer are to be looked at when the endpoint is settled.
    pub(super) owed: u64,
}

impl Queue {
    /// The number of the next transfer.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Adds a transfer; gives its number.
    pub(super) fn push(&mut self, posted: Posted) -> u64 {
        self.posted.insert(self.next, posted);
        self.next += 1;
        self.next - 1
    }

    pub(super) fn get(&self, number: u64) -> Option<&Posted> {
        self.posted.get(&number)
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Posted> {
        self.posted.remove(&number)
    }

    /// The note of a transfer, unless it was looked at.
    pub(super) fn note(&self, number: u64) -> Option<&Note> {
        self.notes.iter().rev().find(|note| note.number == number)
    }

    pub(super) fn note_mut(&mut self, number: u64) -> Option<&mut Note> {
        self.notes.iter_mut().rev().find(|note| note.number == number)
    }

    /// The next note to be looked at, if it belongs to a transfer before `end`.
    pub(super) fn next_note(&self, end: u64) -> Option<&Note> {
        self.notes.front().filter(|note| note.number < end)
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        self.posted.len()
    }
}
