//! The text form of `torch.distributed.pipelining`: a CSV row per rank, a cell per step, an empty cell for an idle step.
//!
//! | cell | meaning |
//! |---|---|
//! | `2F0` `2B0` `2I0` `2W0` | stage 2 computes microbatch 0: forward, full backward, input gradient, weight gradient |
//! | `2SEND_F0` `3RECV_F0` | the activation of microbatch 0 leaves stage 2, arrives at stage 3 |
//! | `3SEND_B0` `2RECV_B0` | the gradient of microbatch 0 leaves stage 3, arrives at stage 2 |
//! | `2UNSHARD` `2RESHARD` `2REDUCE_GRAD` | a mark on stage 2, without a microbatch |
//! | `(0F3;3B1)OVERLAP_F_B` | a forward and a full backward at the same time |
//!
//! A cell is read strictly: the whole of it is one of these, numbers have no leading zeros, and there are no blanks.
//! What [`Grid::parse`] takes, [`Grid::to_csv`] writes back character for character, but for needless quotes and the
//! line ends, which are those of Python's `csv.writer`.
//!
//! ```
//! use pp_schedule::format::csv::Grid;
//! let grid = Grid::parse("0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n").unwrap();
//! assert_eq!(grid.to_csv(), "0F0,0F1,,0B0,0B1\r\n,1F0,1B0,1F1,1B1\r\n");
//! assert_eq!(grid.to_order().unwrap().extent().microbatches, 2);
//!
//! let error = Grid::parse("0F0,2BW0\n").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "rank 0, step 1 (line 1, column 2): `2BW0`: expected one of F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, \
//!      UNSHARD, RESHARD, REDUCE_GRAD after `2`, but found `BW`"
//! );
//! ```

mod order;
mod parse;
mod program;
mod write;

use crate::ids::{Microbatch, Stage};
use crate::work::Work;

pub use order::GridError;
pub use parse::{CsvError, CsvErrorKind, Expected, TokenError};
pub use program::{Cell, GridProgram, ProgramError};
pub use write::write_row;

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
