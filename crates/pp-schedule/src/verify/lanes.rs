//! The short proof of channel agreement and progress, for programs like those of the `lanes` policy.
//!
//! Where every queue is one end of one channel, every post one transfer, and every end is waited for in the order in
//! which it was posted, a wait needs no number: the n-th wait at an end is for the n-th message. So what a rank says to
//! its channels shrinks to a byte per post or wait, and the maximal run (see [`super::progress`]) reads a thirtieth of
//! the program. Other programs, and whatever is found wrong, are left to the thorough way.

use super::progress::{Semantics, ends_stand_alone};
use crate::deps::Message;
use crate::ids::Rank;
use crate::program::{Program, RankProgram, Role, Transfer};

/// One end of a channel; ends `2 * channel` and `2 * channel + 1` are its sending and its receiving end.
struct End {
    /// The rank that posts and waits there.
    rank: u32,
    /// The end's number among those of its rank.
    local: u8,
    posted: u32,
    waited: u32,
    /// The messages posted there, until they were compared with the other end's.
    messages: Vec<Message>,
}

/// The ends that a rank may have: a byte names one and says whether it is a wait.
const MAX_LOCAL: usize = 1 << 7;
const NOBODY: u32 = u32::MAX;

/// What the ranks say to their channels, collected rank by rank.
pub(super) struct Lanes {
    /// Whether the short proof still applies.
    applies: bool,
    ends: Vec<End>,
    /// By rank: its ends.
    ends_of: Vec<Vec<u32>>,
    /// Posts and waits of all ranks, one rank after the other.
    events: Vec<u8>,
    /// By rank: where its events start. One more than there are ranks.
    starts: Vec<usize>,
    /// Buffers of compared ends, to be used again.
    spare: Vec<Vec<Message>>,
    /// By transfer of the present rank: its place in its channel.
    places: Vec<u32>,
}

const fn end_of(transfer: &Transfer) -> usize {
    2 * transfer.channel.idx() + matches!(transfer.role, Role::Receive) as usize
}

impl Lanes {
    pub(super) fn new(program: &Program, semantics: Semantics) -> Self {
        let mut ends = Vec::with_capacity(2 * program.channels.len());
        let mut ends_of: Vec<Vec<u32>> = vec![Vec::new(); program.ranks.len()];
        let mut applies = ends_stand_alone(program, semantics.queues);
        for rank in program.channels.iter().flat_map(|channel| [channel.source, channel.destination]) {
            let end = ends.len() as u32;
            match ends_of.get_mut(rank.idx()) {
                Some(list) if list.len() < MAX_LOCAL => {
                    ends.push(End {
                        rank: rank.0,
                        local: list.len() as u8,
                        posted: 0,
                        waited: 0,
                        messages: Vec::new(),
                    });
                    list.push(end);
                }
                _ => {
                    applies = false;
                    break;
                }
            }
        }
        let n_actions: usize = program.ranks.iter().map(|rank| rank.actions.len()).sum();
        Self {
            applies,
            ends,
            ends_of,
            events: Vec::with_capacity(if applies { n_actions } else { 0 }),
            starts: vec![0],
            spare: Vec::new(),
            places: Vec::new(),
        }
    }

    /// The short proof does not apply.
    pub(super) fn give_up(&mut self) {
        self.applies = false;
    }

    /// The posts and waits of a rank follow.
    pub(super) fn start(&mut self, rank: Rank, ranked: &RankProgram) {
        if !self.applies {
            return;
        }
        self.places.resize(ranked.transfers.len(), 0);
        for &end in &self.ends_of[rank.idx()] {
            self.ends[end as usize].messages = self.spare.pop().unwrap_or_default();
        }
    }

    /// A rank posts a transfer by itself.
    #[inline]
    pub(super) fn post(&mut self, index: u32, transfer: &Transfer) {
        let (Some(at), true) = (self.ends.get_mut(end_of(transfer)), self.applies) else { return self.give_up() };
        self.places[index as usize] = at.posted;
        at.posted += 1;
        self.events.push(at.local << 1);
        at.messages.push(transfer.message);
    }

    /// A rank waits for a transfer; that it was posted is not said here.
    #[inline]
    pub(super) fn wait(&mut self, index: u32, transfer: &Transfer) {
        let (Some(at), true) = (self.ends.get_mut(end_of(transfer)), self.applies) else { return self.give_up() };
        self.applies = self.places[index as usize] == at.waited;
        at.waited += 1;
        self.events.push(at.local << 1 | 1);
    }

    /// No more of this rank: compares the ends of channels whose other rank was there before.
    pub(super) fn end(&mut self, rank: Rank) {
        self.starts.push(self.events.len());
        if !self.applies {
            return;
        }
        for &end in &self.ends_of[rank.idx()] {
            let (mine, across) = (end as usize, end as usize ^ 1);
            if self.ends[across].rank > rank.0 {
                continue;
            }
            self.applies &= self.ends[mine].messages == self.ends[across].messages;
            for end in [mine, across] {
                let mut messages = std::mem::take(&mut self.ends[end].messages);
                messages.clear();
                self.spare.push(messages);
            }
        }
    }

    /// Whether both ends of every channel agree and every rank reaches its end, over channels that hold `capacity`
    /// messages.
    pub(super) fn proves(self, capacity: u32) -> bool {
        self.applies && self.runs_through(capacity)
    }

    /// The maximal run: each rank goes on until it waits for a message that is not offered at both ends.
    fn runs_through(&self, capacity: u32) -> bool {
        let n_ranks = self.ends_of.len();
        let mut offered = vec![0_u32; self.ends.len()];
        let mut waited = vec![0_u32; self.ends.len()];
        let mut at = self.starts.clone();
        // By rank: the end it waits at.
        let mut waits_at = vec![NOBODY; n_ranks];
        let mut ready: Vec<usize> = (0..n_ranks).rev().collect();
        while let Some(rank) = ready.pop() {
            let ends = &self.ends_of[rank];
            let until = self.starts[rank + 1];
            let mut passed = 0;
            for &event in &self.events[at[rank]..until] {
                let end = ends[usize::from(event >> 1)] as usize;
                let across = end ^ 1;
                if event & 1 == 0 {
                    offered[end] += 1;
                    let peer = self.ends[across].rank as usize;
                    if waits_at[peer] as usize == across {
                        waits_at[peer] = NOBODY;
                        ready.push(peer);
                    }
                } else {
                    // Only a send can be complete before the other end has posted for it.
                    let buffered = if end & 1 == 0 { capacity } else { 0 };
                    if waited[end] >= offered[end].min(offered[across].saturating_add(buffered)) {
                        waits_at[rank] = end as u32;
                        break;
                    }
                    waited[end] += 1;
                }
                passed += 1;
            }
            at[rank] += passed;
        }
        (0..n_ranks).all(|rank| at[rank] == self.starts[rank + 1])
    }
}
