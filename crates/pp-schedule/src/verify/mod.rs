//! The gate: what a program must fulfil before it may run.
//!
//! [`verify`] checks the program of a whole step, for all ranks together:
//! - *coverage*: every computation stands exactly once, on the rank that holds its stage ([`crate::order::OrderError`]);
//! - *slots*: nothing is read before it is there, overwritten while it is needed, or left behind ([`SlotError`]);
//! - *channels*: each carries the same messages, in the same order, at both ends ([`ChannelError`]);
//! - *progress*: with channels that buffer nothing, every rank reaches its end ([`Deadlock`]).
//!
//! Whether it would also run on one communicator for all channels is a question of its own ([`check_grouped`]).
//!
//! Each of these is written to explain what is wrong. That a program is right is found faster: all of a rank's checks in
//! one pass while its program is in the cache, and the last two in a short form where the program allows it. Whatever
//! the fast way does not accept, the thorough way judges.

mod channels;
mod explain;
mod grouped;
mod lanes;
mod progress;
mod rank;
mod slots;
#[cfg(test)]
mod tests;

pub use channels::ChannelError;
pub use explain::{explain, places};
pub use grouped::{GroupedError, HeldUp, Launch, check_grouped};
pub use progress::{Blocked, Deadlock, Queues, Semantics};
pub use slots::SlotError;

use crate::certificate::{Certificate, CertifiedProgram};
use crate::ids::Rank;
use crate::order::OrderError;
use crate::program::Program;
use lanes::Lanes;

/// Why a program may not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A computation is missing, doubled or in the wrong place.
    #[error(transparent)]
    Coverage(#[from] OrderError),
    /// A slot is used out of turn.
    #[error(transparent)]
    Slots(#[from] SlotError),
    /// The two ends of a channel disagree.
    #[error(transparent)]
    Channels(#[from] ChannelError),
    /// Some ranks would wait forever.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
}

/// A program that was verified as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedProgram {
    program: Program,
}

impl VerifiedProgram {
    /// The program.
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// The fingerprints by which a rank that built its own program can tell that it is part of this one.
    pub fn certificate(&self) -> Certificate {
        Certificate::of(&self.program)
    }

    /// The program of one rank, fit to be executed.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn certified(&self, rank: Rank) -> CertifiedProgram {
        CertifiedProgram::trusted(self.program.ranks[rank.idx()].clone(), self.program.channels.clone())
    }
}

/// Verifies the program of a whole step.
///
/// # Errors
/// The first thing found wrong, naming rank, step and action.
pub fn verify(program: Program) -> Result<VerifiedProgram, VerifyError> {
    check(&program)?;
    Ok(VerifiedProgram { program })
}

/// [`verify`] without taking the program.
///
/// # Errors
/// As [`verify`].
pub fn check(program: &Program) -> Result<(), VerifyError> {
    check_under(program, Semantics::default())
}

/// [`check`] under other channel semantics than those the program states: what it would do on one communicator, say, or
/// with buffers. Passing here makes no program fit to run.
///
/// # Errors
/// As [`verify`].
pub fn check_under(program: &Program, semantics: Semantics) -> Result<(), VerifyError> {
    let n_ranks = program.extent.placement.n_ranks() as usize;
    if program.ranks.len() != n_ranks {
        return Err(OrderError::Ranks { given: program.ranks.len(), expected: n_ranks }.into());
    }
    let mut lanes = Lanes::new(program, semantics);
    for rank in (0..n_ranks as u32).map(Rank) {
        if !rank::fits(program, rank, &mut lanes) {
            rank::explain(program, rank)?;
            lanes.give_up();
        }
    }
    if lanes.proves(semantics.capacity) { Ok(()) } else { across_ranks(program, semantics) }
}

/// What concerns more than one rank: channel agreement, then progress.
fn across_ranks(program: &Program, semantics: Semantics) -> Result<(), VerifyError> {
    let places = channels::check(program)?;
    progress::check(program, &places, semantics)?;
    Ok(())
}
