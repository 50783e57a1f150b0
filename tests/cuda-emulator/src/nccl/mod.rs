//! NCCL's half: communicators over Unix sockets, whose operations run as work on the driver half's streams.
//!
//! Rooms, each using only those above it: `kinds` numbers and refusals, `settings` the environment; `frame`, `link`
//! and `meet` what ranks tell each other and how they meet; `operation` and `reduce` what is moved and summed; `state`,
//! `comm`, `leave`, `split` and `registry` communicators; `run` operations at work; `call`, `sabotage`, `launch` and
//! `group` how they get on streams.

pub(crate) mod call;
pub(crate) mod comm;
pub(crate) mod frame;
pub(crate) mod group;
pub mod kinds;
pub(crate) mod launch;
pub(crate) mod leave;
pub(crate) mod link;
pub(crate) mod meet;
pub(crate) mod operation;
pub(crate) mod reduce;
pub(crate) mod registry;
pub(crate) mod run;
pub(crate) mod sabotage;
pub mod settings;
pub(crate) mod split;
pub(crate) mod state;
