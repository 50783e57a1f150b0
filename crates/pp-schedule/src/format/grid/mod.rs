//! What is written down of a schedule: a row per rank, a cell per step.
//!
//! A [`Grid`] says no more than its text does: it may be a complete order ([`Grid::to_order`]), a program with its transfers
//! ([`Grid::to_program`]), or neither, and it keeps what an order drops (idle steps, marks). So every format reads into it and
//! is written from it, and nothing is lost on the way from one to another.

mod order;
mod program;
mod token;

use crate::ids::{Microbatch, Stage};
use crate::work::Work;

pub use order::GridError;
pub use program::{Cell, GridProgram, ProgramError};
pub(super) use token::quote;
#[cfg(feature = "json")]
pub(super) use token::shorten;
pub use token::{Expected, TokenError};

/// The most cells a text may have; their tokens take 20 bytes each.
pub const MAX_CELLS: usize = 1 << 26;

/// What a rank does in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    /// It computes.
    Work(Work),
    /// It sends or receives.
    Transfer {
        /// What is sent or received.
        kind: TransferKind,
        /// The stage on this rank that it is of.
        stage: Stage,
        /// The microbatch.
        microbatch: Microbatch,
    },
    /// It does something to a stage's parameters or their gradients.
    Mark {
        /// What it does.
        kind: MarkKind,
        /// To which stage.
        stage: Stage,
    },
    /// It computes a forward and a full backward at the same time (`OVERLAP_F_B`).
    Overlap {
        /// Stage and microbatch of the forward.
        forward: (Stage, Microbatch),
        /// Stage and microbatch of the backward.
        backward: (Stage, Microbatch),
    },
}

impl Token {
    /// What it computes, in turn: an overlapped pair is its forward, then its backward.
    pub fn works(self) -> impl Iterator<Item = Work> {
        let (first, second) = match self {
            Self::Work(work) => (Some(work), None),
            Self::Overlap { forward, backward } => {
                (Some(Work::forward(forward.0, forward.1)), Some(Work::backward(backward.0, backward.1)))
            }
            Self::Transfer { .. } | Self::Mark { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// What is sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransferKind {
    /// The activation that a stage made leaves (`SEND_F`).
    SendForward,
    /// The activation that a stage needs arrives (`RECV_F`).
    ReceiveForward,
    /// The gradient that a stage made leaves (`SEND_B`).
    SendBackward,
    /// The gradient that a stage needs arrives (`RECV_B`).
    ReceiveBackward,
}

impl TransferKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::SendForward, Self::ReceiveForward, Self::SendBackward, Self::ReceiveBackward];

    /// Its name in a cell.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendForward => "SEND_F",
            Self::ReceiveForward => "RECV_F",
            Self::SendBackward => "SEND_B",
            Self::ReceiveBackward => "RECV_B",
        }
    }
}

/// What is done to a stage's parameters or their gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkKind {
    /// The parameters are gathered.
    Unshard,
    /// The parameters are dropped down to this rank's shard.
    Reshard,
    /// The gradients are reduced.
    ReduceGrad,
}

impl MarkKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Unshard, Self::Reshard, Self::ReduceGrad];

    /// Its name in a cell.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unshard => "UNSHARD",
            Self::Reshard => "RESHARD",
            Self::ReduceGrad => "REDUCE_GRAD",
        }
    }
}

/// A schedule as torch writes it: a row per rank, a cell per step, `None` for an idle step.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Grid {
    /// The ranks' cells, in turn.
    pub rows: Vec<Vec<Option<Token>>>,
}

impl Grid {
    /// The same grid without idle steps, transfers and marks.
    #[must_use]
    pub fn compute_only(&self) -> Self {
        let computes = |cell: &Option<Token>| matches!(cell, Some(Token::Work(_) | Token::Overlap { .. }));
        let row = |row: &Vec<Option<Token>>| row.iter().copied().filter(computes).collect();
        Self { rows: self.rows.iter().map(row).collect() }
    }
}
