//! Pipeline-parallel schedules as data.
//!
//! The way through this crate is a line:
//!
//! [`ScheduleSpec`] (what was asked) → [`ScheduleConfig`] (only valid values) → [`Order`] (who computes what, in turn) →
//! [`lower`] (a policy adds transfers and slots) → [`Program`] → [`verify()`] → [`VerifiedProgram`], which may run.
//!
//! Beside that line:
//!
//! | room | for |
//! |---|---|
//! | [`simulate`], [`figures`] | when everything runs: step time, bubbles, waiting, critical path, memory; closed forms |
//! | [`plan`](mod@plan) | which schedule to run, within a memory limit |
//! | [`synth`] | zero-bubble orders for given costs and memory, searched with a stated bound |
//! | [`layout`] | which layers each stage has |
//! | [`format`](mod@format), [`import`] | files in and out, pictures, traces; schedules made elsewhere, proved |
//! | [`view`], [`sweep`](mod@sweep) | Megatron's queues as a view of a program; all small sizes built and proved |
//!
//! Nothing here depends on a tensor library or does I/O, but for the command line and for writing to what a caller hands in.
//!
//! Features, none of them on by default: `json` for the formats that are JSON (`format::{json, events, any, document, chrome}`),
//! `rayon` for sweeps and plans on all cores (the only threads there are), `cli` for the command `pp-schedule` with both.
//!
//! ```
//! use pp_schedule::{ScheduleConfig, ScheduleSpec, lower::lanes, verify};
//!
//! // Four ranks, two model chunks on each, eight microbatches: interleaved 1F1B.
//! let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, 8))?;
//! let verified = verify(lanes::lower(&config))?;
//! let rank0 = &verified.program().ranks[0];
//! assert!(rank0.steps().count() > 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod certificate;
mod channels;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
mod counts;
pub mod deps;
mod extent;
pub mod figures;
pub mod format;
mod groups;
mod ids;
pub mod import;
pub mod layout;
pub mod lower;
pub mod order;
mod placement;
pub mod plan;
mod precedence;
pub mod program;
pub mod quantity;
mod receive;
mod schedules;
pub mod simulate;
pub mod sweep;
pub mod synth;
mod table;
pub mod verify;
pub mod view;
mod work;

pub use certificate::{Certificate, CertificateError, CertifiedProgram, Fingerprint};
pub use config::{ConfigError, GPipeBackward, ScheduleConfig, ScheduleKind, ScheduleSpec};
pub use counts::{Counts, CountsInput};
pub use deps::Message;
pub use groups::Groups;
pub use ids::{ChannelId, Chunk, Direction, Microbatch, Rank, Stage};
pub use layout::{Assignment, LayerPartition, LayoutError, LayoutPattern, LayoutSpec};
pub use order::{Extent, Order, OrderError};
pub use placement::{Placement, Shape};
pub use program::{
    Action, Carries, Channel, Compute, Mark, Program, RankProgram, Recompute, Role, Slot, SlotClass, Step, Transfer,
};
pub use receive::receive_after;
pub use schedules::{all_orders, rank_order, rank_pairs};
pub use table::ScheduleTable;
pub use verify::{VerifiedProgram, VerifyError, verify};
pub use work::{ParseWorkError, Work, WorkKind};

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
