//! A schedule as events: JSON lines, one per step, to be filtered, grouped and joined without parsing tokens.
//!
//! The first line is the header. It has the fields of [`super::json`] up to `placement`, with `format`
//! `"pp-schedule-events"`, and `steps`: how many lines of each rank follow, so that a file that was cut short is noticed.
//!
//! | field of a line | value |
//! |---|---|
//! | `rank`, `step` | where it stands; the lines go rank by rank, from step 0 on without gaps |
//! | `kind` | `F` `B` `I` `W`, `SEND_F` `RECV_F` `SEND_B` `RECV_B`, `UNSHARD` `RESHARD` `REDUCE_GRAD`, `OVERLAP_F_B`, `IDLE`, as in [`super::csv`] |
//! | `stage`, `microbatch` | of what; a mark has no microbatch, an idle step neither; of an overlapped pair those of the forward |
//! | `backward_stage`, `backward_microbatch` | of an overlapped pair only: those of the backward |
//!
//! There are no other fields. docs/schedule-events.schema.json states what a line is as a JSON Schema. A text may be made and
//! read line by line ([`lines`], [`Reader`]).
//!
//! ```
//! use pp_schedule::format::{csv::Grid, events};
//! let grid = Grid::parse("0F0,,(0F1;1B0)OVERLAP_F_B\n").unwrap();
//! let text = events::write(&grid.into());
//! assert_eq!(
//!     text.lines().skip(1).collect::<Vec<_>>(),
//!     [
//!         r#"{"rank":0,"step":0,"kind":"F","stage":0,"microbatch":0}"#,
//!         r#"{"rank":0,"step":1,"kind":"IDLE"}"#,
//!         r#"{"rank":0,"step":2,"kind":"OVERLAP_F_B","stage":0,"microbatch":1,"backward_stage":1,"backward_microbatch":0}"#,
//!     ]
//! );
//! let error = events::read(&text.replace("IDLE", "WAIT")).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "line 3: unknown `kind` \"WAIT\"; known: F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD, \
//!      OVERLAP_F_B, IDLE"
//! );
//! ```

mod read;
mod write;

use super::grid::{MarkKind, TransferKind};
use crate::work::WorkKind;

pub(super) use read::is_header;
pub use read::{EventsError, EventsErrorKind, Reader, read};
pub use write::{lines, write};

/// What `format` says in the header.
pub(super) const FORMAT: &str = "pp-schedule-events";

/// A line's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Work(WorkKind),
    Transfer(TransferKind),
    Mark(MarkKind),
    Overlap,
    Idle,
}

impl Kind {
    fn all() -> impl Iterator<Item = Self> {
        let works = WorkKind::ALL.into_iter().map(Self::Work);
        let transfers = TransferKind::ALL.into_iter().map(Self::Transfer);
        let marks = MarkKind::ALL.into_iter().map(Self::Mark);
        works.chain(transfers).chain(marks).chain([Self::Overlap, Self::Idle])
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Work(WorkKind::Forward) => "F",
            Self::Work(WorkKind::Backward) => "B",
            Self::Work(WorkKind::BackwardInput) => "I",
            Self::Work(WorkKind::BackwardWeight) => "W",
            Self::Transfer(kind) => kind.name(),
            Self::Mark(kind) => kind.name(),
            Self::Overlap => "OVERLAP_F_B",
            Self::Idle => "IDLE",
        }
    }
}
