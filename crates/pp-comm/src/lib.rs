//! Executes pipeline programs: messages between ranks, and the one loop that runs a rank's program.
//!
//! The rooms, from the ground up (each uses only those above it in this list):
//!
//! - [`Buffer`], [`Boundary`], [`Envelope`]: what travels, and the contract it must fulfil;
//! - [`CommError`]: what can go wrong between ranks; nothing blocks without a deadline, and errors between ranks name them;
//! - [`flight`]: what a rank did last, records of it, and which rank and action a failure came from;
//! - [`Endpoint`]: a rank's ends of the program's channels, in memory ([`memory_fabric`]), in memory shared between processes,
//!   over sockets or, with the feature `nccl`, between GPUs (`Member::over_nccl`);
//! - [`Control`]: a barrier and the exchange of small values in rank order;
//! - [`Host`] and [`join`]: how processes find each other, check that they run the same program, and make every link
//!   before step 0;
//! - [`Group`] and [`mesh`]: the ranks of a run by tensor, data and pipeline axis; nothing uses a group that it was not given;
//! - [`p2p`]: transfers posted together, and Megatron's point-to-point methods over a ring;
//! - [`collectives`]: what the ranks of a group do together with tensors, waiting or as a handle;
//! - [`execute`]: runs a [`CertifiedProgram`](pp_schedule::CertifiedProgram) over an endpoint, calling a [`StageCompute`];
//! - [`contract`]: a step as HyperParallel has it, from the batch to averaged gradients.
//!
//! # Example
//! Two ranks in two threads run a schedule whose stages add one:
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use pp_comm::{
//!     Boundaries, Boundary, Buffer, DType, Group, MemorySpec, StageCompute, StepSpec, Task, execute, memory_fabric,
//! };
//! use pp_schedule::{ScheduleConfig, ScheduleSpec, lower::lanes, verify};
//!
//! struct AddOne {
//!     last: bool,
//! }
//!
//! impl StageCompute for AddOne {
//!     type Error = Infallible;
//!     fn forward(&mut self, _: Task, input: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
//!         let x = input.map_or(0, |buffer| buffer.as_i64().expect("agreed to be i64")[0]);
//!         Ok((!self.last).then(|| Buffer::i64(&[1], vec![x + 1]).expect("one element")))
//!     }
//!     // A real stage has backwards too; this program is forward-only.
//!     fn backward(&mut self, _: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
//!         Ok(gradient)
//!     }
//!     fn backward_input(&mut self, _: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
//!         Ok(gradient)
//!     }
//!     fn backward_weight(&mut self, _: Task) -> Result<(), Infallible> {
//!         Ok(())
//!     }
//! }
//!
//! let config = ScheduleConfig::new(&ScheduleSpec::new(2, 1, 3))?.to_forward_only();
//! let verified = verify(lanes::lower(&config))?;
//! let boundaries = Boundaries::same(Boundary::new(DType::I64, &[1])?);
//! let channels = verified.program().channels.clone();
//! let spec = MemorySpec { n_ranks: 2, channels, capacity: 0, deadline: Duration::from_secs(5) };
//! std::thread::scope(|scope| {
//!     for builder in memory_fabric(spec).expect("both ranks exist") {
//!         let (verified, boundaries) = (&verified, &boundaries);
//!         scope.spawn(move || {
//!             let mut member = builder.build();
//!             let rank = member.endpoint.rank();
//!             let mut stage = AddOne { last: rank.0 == 1 };
//!             let group = Group::all(2, rank).expect("one of the two");
//!             let spec = StepSpec { step: 0, group: &group, boundaries };
//!             execute(&verified.certified(rank), spec, &mut member.endpoint, &mut stage).expect("runs");
//!             member.close();
//!         });
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The README's example is a test too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod alarm;
mod arrival;
mod board;
mod channel_fields;
mod collective;
pub mod collectives;
pub mod contract;
mod control;
mod deadline;
mod endpoint;
mod error;
mod executor;
mod fabric;
pub mod flight;
mod group;
mod member;
pub mod mesh;
mod message;
#[cfg(all(test, loom))]
mod models;
mod numbered;
pub mod p2p;
mod pieces;
mod rendezvous;
mod round;
mod sync;
mod wire;

pub use control::{Control, Heard, MAX_COLLECTIVE_BYTES, Watch};
/// What the fuzz targets call: parsers that are nobody else's business.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::control::{fuzz_reports as reports, fuzz_verdicts as verdicts};
    pub use crate::rendezvous::fuzz_words as words;
    pub use crate::wire::fuzz as frame;
}

pub use collective::{Collective, Elements};
#[cfg(feature = "nccl")]
pub use endpoint::{Communicators, HandOver, NcclSpec, Waits};
pub use endpoint::{Endpoint, Fault, FaultError, RecvTicket, RoughLinks, SendTicket, Transports};
#[cfg(feature = "nccl")]
pub use error::Communicator;
pub use error::{CommError, Operation};

pub use executor::{
    Boundaries, Did, ExecError, ExecFault, Recording, Span, StageCompute, StepReport, StepSpec, Task, agree, execute,
    execute_recorded,
};
pub use flight::{Event, Recorder, State, Subject};
pub use group::Group;
pub use member::{Member, MemoryBuilder, MemorySpec, memory_fabric};
pub use message::{Boundary, Buffer, BufferError, DType, Envelope, HeaderError, Label, MAX_DIMS, MAX_MESSAGE_BYTES};
#[cfg(feature = "nccl")]
pub use message::{DeviceAllocator, StreamAllocator};
/// NCCL itself: devices, streams and memory that [`NcclSpec`] and [`Buffer::on_device`] take.
#[cfg(feature = "nccl")]
pub use nccl_rs;
pub use rendezvous::{
    Host, HostAddress, HostSpec, JoinSpec, Joined, Refusal, RendezvousError, Secret, SecretError, await_address,
    clear_address, join, peek_address, publish_address, withdraw_address,
};
