//! The memory fabric: the state that ranks in one process share. Channels with a stated capacity, and collectives.
//!
//! A channel here behaves as the verifier assumes: with capacity 0 a send is complete only once its receive is posted,
//! with capacity `n` also while at most `n` complete sends have no receive yet. Whatever the threads' timing, the same
//! operations complete.

use std::collections::VecDeque;
use std::sync::Arc;

use pp_schedule::{Channel, Rank};

use crate::arrival::check_arrival;
use crate::board::Board;
use crate::collective::Collective;
use crate::error::{CommError, Loss};
use crate::message::{Boundary, Buffer, Label};
use crate::numbered::Numbered;
use crate::round::Round;

/// Everything shared.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) rounds: RoundLog,
    /// The first rank that was lost.
    loss: Option<Loss>,
    /// By [`Side`] and rank: what was closed in good order.
    closed: [Vec<bool>; 2],
}

/// What a rank attaches to the fabric.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Endpoint,
    Control,
}

impl Fabric {
    pub(crate) fn new(n_ranks: usize, channels: &[Channel], capacity: u64) -> Self {
        let pipes = channels.iter().map(|&channel| Pipe::new(channel, capacity)).collect();
        let rounds = RoundLog { n_ranks, first: 0, rounds: VecDeque::new() };
        Self { pipes, rounds, loss: None, closed: [vec![false; n_ranks], vec![false; n_ranks]] }
    }

    /// The first rank that was lost.
    pub(crate) const fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// Notes that a rank is lost; the first one stays.
    pub(crate) fn lose(&mut self, loss: Loss) {
        self.loss.get_or_insert(loss);
    }

    /// Whether a rank has closed one side in good order.
    pub(crate) fn has_closed(&self, side: Side, rank: Rank) -> bool {
        self.closed[side as usize][rank.idx()]
    }

    /// Why something that needs one of `ranks` can never complete, if that is so.
    pub(crate) fn gone(&self, side: Side, ranks: &[Rank]) -> Option<CommError> {
        let closed = || {
            let rank = *ranks.iter().find(|rank| self.closed[side as usize][rank.idx()])?;
            Some(Loss { rank, reason: "it has closed its side and left".to_owned() })
        };
        self.loss.clone().or_else(closed).map(CommError::from)
    }
}

/// A rank's hold on one side of the fabric. Let go in any way but [`Attachment::close`], it counts as the rank's loss:
/// whoever fails, returns early or panics thereby wakes all others.
#[derive(Debug)]
pub(crate) struct Attachment {
    rank: Rank,
    side: Side,
    fabric: Arc<Board<Fabric>>,
    closed: bool,
}

impl Attachment {
    pub(crate) const fn new(rank: Rank, side: Side, fabric: Arc<Board<Fabric>>) -> Self {
        Self { rank, side, fabric, closed: false }
    }

    pub(crate) fn board(&self) -> &Board<Fabric> {
        &self.fabric
    }

    /// The fabric, for a thread that looks on.
    pub(crate) fn share(&self) -> Arc<Board<Fabric>> {
        Arc::clone(&self.fabric)
    }

    pub(crate) const fn rank(&self) -> Rank {
        self.rank
    }

    pub(crate) fn close(mut self) {
        self.closed = true;
        self.fabric.update(|fabric| fabric.closed[self.side as usize][self.rank.idx()] = true);
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let reason = if std::thread::panicking() { "its thread panicked" } else { "it ended before it was done" };
        let loss = Loss { rank: self.rank, reason: reason.to_owned() };
        self.fabric.update(|fabric| fabric.lose(loss));
    }
}

/// One channel: sends and receives are matched in the order in which they are posted. Once a message is not what its
/// receive expects, nothing that comes after it arrives, as between processes.
#[derive(Debug)]
pub(crate) struct Pipe {
    channel: Channel,
    capacity: u64,
    /// Sends whose receive was not posted.
    sent: VecDeque<(Label, Buffer)>,
    /// Receives that nothing was sent for.
    expected: VecDeque<(Label, Boundary)>,
    arrived: Numbered<Buffer>,
    n_sends: u64,
    n_receives: u64,
    fault: Option<CommError>,
}

impl Pipe {
    fn new(channel: Channel, capacity: u64) -> Self {
        let (sent, expected, arrived) = (VecDeque::new(), VecDeque::new(), Numbered::default());
        Self { channel, capacity, sent, expected, arrived, n_sends: 0, n_receives: 0, fault: None }
    }

    pub(crate) const fn channel(&self) -> Channel {
        self.channel
    }

    /// Posts a send; gives its number.
    pub(crate) fn send(&mut self, label: Label, buffer: Buffer) -> u64 {
        self.sent.push_back((label, buffer));
        self.n_sends += 1;
        self.meet();
        self.n_sends - 1
    }

    /// Posts a receive; gives its number.
    pub(crate) fn receive(&mut self, label: Label, boundary: Boundary) -> Result<u64, CommError> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        self.expected.push_back((label, boundary));
        self.n_receives += 1;
        self.meet();
        Ok(self.n_receives - 1)
    }

    /// Has what was sent arrive, as far as it is asked for.
    fn meet(&mut self) {
        while self.fault.is_none()
            && let (Some((found, buffer)), Some((label, agreed))) = (self.sent.front(), self.expected.front())
        {
            self.fault = check_arrival(self.channel, (*label, agreed), (*found, buffer.boundary())).err();
            if self.fault.is_none()
                && let (Some((_, buffer)), Some(_)) = (self.sent.pop_front(), self.expected.pop_front())
            {
                self.arrived.push(buffer);
            }
        }
    }

    /// Whether send number `number` is complete.
    pub(crate) const fn is_sent(&self, number: u64) -> bool {
        number < self.n_receives.saturating_add(self.capacity)
    }

    /// Whether receive number `number` has come to its end, good or bad.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.arrived.has(number) || self.fault.is_some()
    }

    /// The message for receive number `number`, if it was sent, or why it never arrives.
    pub(crate) fn take(&mut self, number: u64) -> Option<Result<Buffer, CommError>> {
        self.arrived.take(number).map(Ok).or_else(|| self.fault.clone().map(Err))
    }

    #[cfg(test)]
    pub(crate) fn n_held(&self) -> usize {
        self.arrived.n_held()
    }

    /// Nobody will take the message for receive number `number`, if it is `rank` that receives here.
    pub(crate) fn abandon(&mut self, rank: Rank, number: u64) {
        if rank == self.channel.destination {
            self.arrived.abandon(number);
        }
    }
}

/// The collectives that some rank has not seen to its end.
#[derive(Debug)]
pub(crate) struct RoundLog {
    n_ranks: usize,
    first: u64,
    rounds: VecDeque<LoggedRound>,
}

#[derive(Debug)]
struct LoggedRound {
    round: Round,
    n_taken: usize,
    fault: Option<CommError>,
}

impl RoundLog {
    fn at(&mut self, number: u64) -> Option<&mut LoggedRound> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        while self.rounds.len() <= index {
            let round = Round::new(self.first + self.rounds.len() as u64, self.n_ranks);
            self.rounds.push_back(LoggedRound { round, n_taken: 0, fault: None });
        }
        self.rounds.get_mut(index)
    }

    /// Adds what a rank gives to round `number`.
    pub(crate) fn give(&mut self, number: u64, rank: Rank, collective: Collective, part: Vec<u8>) {
        if let Some(logged) = self.at(number)
            && let Err(ours) = logged.round.give(rank, collective, part)
        {
            logged.fault = Some(CommError::CollectiveMismatch { round: number, rank, theirs: collective, ours });
        }
    }

    /// All parts of round `number` once it is complete; each rank asks until it gets them.
    pub(crate) fn take(&mut self, number: u64) -> Option<Result<Vec<Vec<u8>>, CommError>> {
        let n_ranks = self.n_ranks;
        let logged = self.at(number)?;
        if let Some(fault) = &logged.fault {
            return Some(Err(fault.clone()));
        }
        let parts: Vec<Vec<u8>> = logged.round.complete()?.into_iter().map(<[u8]>::to_vec).collect();
        logged.n_taken += 1;
        while self.rounds.front().is_some_and(|logged| logged.n_taken == n_ranks) {
            self.rounds.pop_front();
            self.first += 1;
        }
        Some(Ok(parts))
    }

    /// The ranks that round `number` waits for.
    pub(crate) fn missing(&mut self, number: u64) -> Vec<Rank> {
        self.at(number).map(|logged| logged.round.missing()).unwrap_or_default()
    }
}
