//! Point-to-point between pipeline ranks: transfers posted together, and Megatron's methods over the ring of a group.
//!
//! [`Exchange`] is the primitive; it knows channels and labels, and nothing of pipelines. [`RingComm`] has the nine
//! methods that Megatron's schedules call, for schedules that are written as calls rather than as programs; a program
//! needs none of it.
//!
//! ```
//! use std::time::Duration;
//! use pp_comm::p2p::{Contents, Item, Outgoing, RingComm, RingSpec, Tag};
//! use pp_comm::{Boundary, Buffer, DType, Group, MemorySpec, memory_fabric};
//! use pp_schedule::lower::megatron::{Issue, Overlap};
//! use pp_schedule::{Microbatch, Placement, Rank, Stage};
//!
//! let group = |rank| Group::all(2, rank).expect("one of the two");
//! let channels = group(Rank(0)).ring_channels();
//! let spec = MemorySpec { n_ranks: 2, channels, capacity: 0, deadline: Duration::from_secs(5) };
//! let builders = memory_fabric(spec)?;
//! let agreed = Contents::tensor(Boundary::new(DType::F32, &[2])?);
//! std::thread::scope(|scope| {
//!     for builder in builders {
//!         let agreed = &agreed;
//!         scope.spawn(move || {
//!             let mut member = builder.build();
//!             let rank = member.endpoint.rank();
//!             let mut ring = RingComm::new(RingSpec {
//!                 group: group(rank),
//!                 placement: Placement::looped(2, 1),
//!                 issue: Issue::Batched,
//!                 overlap: Overlap::Off,
//!                 forward: agreed.clone(),
//!                 backward: agreed.clone(),
//!             })
//!             .expect("a ring over both");
//!             // A rank's tags are about its own stages: what one sends is what the next stage takes.
//!             let tag = Tag { step: 0, stage: Stage(rank.0), microbatch: Microbatch(0) };
//!             let activation = Item::Tensor(Buffer::f32(&[2], vec![1.5, 2.5]).expect("two elements"));
//!             if rank == Rank(0) {
//!                 let output = Outgoing { tag, items: vec![activation] };
//!                 ring.send_forward(&mut member.endpoint, output).expect("rank 1 receives");
//!             } else {
//!                 let input = ring.recv_forward(&mut member.endpoint, tag).expect("rank 0 sends");
//!                 assert_eq!(input, Some(vec![activation]));
//!             }
//!             member.close();
//!         });
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod contents;
mod error;
mod exchange;
mod handles;
mod outbox;
mod ring;
mod shapes;
mod sizing;
mod spec;

pub use contents::{Contents, Item, Part};
pub use error::P2pError;
pub use exchange::{Exchange, InFlight, Receiving, Sending};
pub use handles::{RecvHandle, SendHandle};
pub use outbox::Outbox;
pub use ring::{RingComm, Started};
pub use spec::{Outgoing, RingSpec, Tag};
