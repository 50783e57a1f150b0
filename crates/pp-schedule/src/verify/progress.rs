//! Progress: one maximal run over channels that buffer nothing.
//!
//! A channel has one sender and one receiver and keeps its order, and no action chooses between channels. Such programs
//! are confluent: whatever the timing, the same actions become possible, so a single run that goes as far as it can
//! decides whether any run gets stuck. With no buffering a transfer completes only once both its ends are posted; more
//! buffering only lets more through, so what passes here passes with any capacity.

use std::fmt;

use crate::ids::Rank;
use crate::program::{Action, Program, Role};

/// A rank that waits forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The rank.
    pub rank: Rank,
    /// The index of the action it cannot complete.
    pub step: usize,
    /// That action.
    pub action: String,
    /// The rank it waits for.
    pub waits_for: Rank,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} is stuck at step {} ({}), waiting for rank {}",
            self.rank, self.step, self.action, self.waits_for
        )
    }
}

/// Ranks that wait for each other in a circle (or for a rank that has ended).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The circle: each waits for the next, the last for the first. When a rank waits for one that has ended, the chain
    /// that leads there.
    pub cycle: Vec<Blocked>,
    /// How many ranks are stuck in all.
    pub n_blocked: usize,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock with unbuffered channels, {} ranks stuck:", self.n_blocked)?;
        for blocked in &self.cycle {
            write!(f, "\n  {blocked}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Deadlock {}

/// Runs the program as far as it goes; `places[rank][transfer]` is the transfer's place in its channel.
pub(super) fn check(program: &Program, places: &[Vec<u32>]) -> Result<(), Deadlock> {
    let mut run = Run {
        program,
        places,
        at: vec![0; program.ranks.len()],
        posted: vec![[0, 0]; program.channels.len()],
        waiting: vec![None; program.ranks.len()],
        ready: (0..program.ranks.len()).rev().collect(),
    };
    while let Some(rank) = run.ready.pop() {
        run.advance(rank);
    }
    let n_blocked = run.waiting.iter().flatten().count();
    if n_blocked == 0 { Ok(()) } else { Err(Deadlock { cycle: run.cycle(), n_blocked }) }
}

struct Run<'a> {
    program: &'a Program,
    places: &'a [Vec<u32>],
    /// The next action of each rank.
    at: Vec<usize>,
    /// Transfers posted on each channel so far, at the sending and at the receiving end.
    posted: Vec<[u32; 2]>,
    /// The transfer a blocked rank waits for.
    waiting: Vec<Option<u32>>,
    ready: Vec<usize>,
}

impl Run<'_> {
    /// Runs one rank until it blocks or ends, and readies those it unblocks.
    fn advance(&mut self, rank: usize) {
        let ranked = &self.program.ranks[rank];
        let places = &self.places[rank];
        let mut at = self.at[rank];
        while let Some(&action) = ranked.actions.get(at) {
            match action {
                Action::Compute(_) => {}
                Action::Post(index) => {
                    let transfer = &ranked.transfers[index as usize];
                    self.posted[transfer.channel.idx()][usize::from(transfer.role == Role::Receive)] += 1;
                    self.wake(transfer.peer.idx());
                }
                Action::Wait(index) => {
                    let [sent, received] = self.posted[ranked.transfers[index as usize].channel.idx()];
                    if sent.min(received) <= places[index as usize] {
                        self.waiting[rank] = Some(index);
                        break;
                    }
                }
            }
            at += 1;
        }
        self.at[rank] = at;
    }

    fn wake(&mut self, rank: usize) {
        let Some(index) = self.waiting[rank] else { return };
        let channel = self.program.ranks[rank].transfers[index as usize].channel;
        let [sent, received] = self.posted[channel.idx()];
        if sent.min(received) > self.places[rank][index as usize] {
            self.waiting[rank] = None;
            self.ready.push(rank);
        }
    }

    /// Follows from a stuck rank to the one it waits for, until a rank comes up again or has ended.
    fn cycle(&self) -> Vec<Blocked> {
        let mut chain: Vec<usize> = Vec::new();
        let mut next = self.waiting.iter().position(Option::is_some);
        while let Some(rank) = next {
            if let Some(start) = chain.iter().position(|&seen| seen == rank) {
                chain.drain(..start);
                break;
            }
            let Some(transfer) = self.waiting[rank] else { break };
            chain.push(rank);
            next = Some(self.program.ranks[rank].transfers[transfer as usize].peer.idx());
        }
        chain.into_iter().filter_map(|rank| self.blocked(rank)).collect()
    }

    fn blocked(&self, rank: usize) -> Option<Blocked> {
        let ranked = &self.program.ranks[rank];
        let transfer = &ranked.transfers[self.waiting[rank]? as usize];
        let action = ranked.step(self.at[rank])?.to_string();
        Some(Blocked { rank: Rank(rank as u32), step: self.at[rank], action, waits_for: transfer.peer })
    }
}
