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
//! A cell is read strictly: the whole of it is one of these, and numbers have no leading zeros. Blanks around it are left
//! out, as torch does. What [`Grid::parse`] takes, [`Grid::to_csv`] writes back character for character, but for those
//! blanks, needless quotes and the line ends, which are those of Python's `csv.writer`.
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

mod lowered;
mod parse;
mod write;

pub use super::grid::{
    Cell, Expected, Grid, GridError, GridProgram, MAX_CELLS, MarkKind, ProgramError, Token, TokenError, TransferKind,
};
pub use lowered::Circular;
pub use parse::{CsvError, CsvErrorKind};
pub use write::write_row;
