//! What the tests share: fabrics of every kind, and members that run a body on a thread per rank.

use std::net::TcpListener;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use pp_comm::{
    Host, HostSpec, JoinSpec, Joined, Member, MemorySpec, RendezvousError, RoughLinks, Transports, join, memory_fabric,
};
use pp_schedule::{Channel, Program, Rank};

#[cfg(feature = "nccl")]
#[path = "gpu.rs"]
mod gpu;

pub(crate) use crate::messages::*;

/// A kind of fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Threads of one process, channels of that capacity.
    Memory(u64),
    /// Processes in all but name, over connections.
    Socket,
    /// The same over shared memory.
    Shm,
    /// The same two on links that stall and move a few bytes at a time.
    RoughSocket,
    RoughShm,
    /// The same between GPUs, those of the emulated driver: a communicator per channel, or one for all channels.
    #[cfg(feature = "nccl")]
    Nccl(pp_comm::Communicators),
}

impl Kind {
    /// Whether a send is complete before its receive is posted.
    pub(crate) const fn buffers(self) -> bool {
        matches!(self, Self::Memory(1..))
    }

    /// Whether a sender may be told as well that its message is not what its receiver expects: between GPUs both sides of a
    /// transfer are one operation, and a receiver that does not go on ends it for both.
    pub(crate) const fn may_tell_senders(self) -> bool {
        match self {
            #[cfg(feature = "nccl")]
            Self::Nccl(_) => true,
            _ => false,
        }
    }

    /// Whether what is agreed on a message is looked at before its bytes are.
    pub(crate) const fn sends_boundaries(self) -> bool {
        match self {
            #[cfg(feature = "nccl")]
            Self::Nccl(_) => false,
            _ => true,
        }
    }

    /// Whether a program that is sound can run: on one communicator not all can.
    pub(crate) fn takes(self, program: &Program) -> bool {
        match self {
            #[cfg(feature = "nccl")]
            Self::Nccl(pp_comm::Communicators::One) => pp_schedule::verify::check_grouped(program).is_ok(),
            _ => {
                let _ = program;
                true
            }
        }
    }

    /// What its links may use, and whether they are rough.
    const fn links(self) -> (Transports, Option<RoughLinks>) {
        match self {
            Self::Memory(_) | Self::Socket => (Transports::Socket, None),
            Self::Shm => (Transports::SharedMemory, None),
            Self::RoughSocket => (Transports::Socket, Some(RoughLinks { seed: 7 })),
            Self::RoughShm => (Transports::SharedMemory, Some(RoughLinks { seed: 11 })),
            #[cfg(feature = "nccl")]
            Self::Nccl(_) => (Transports::Auto, None),
        }
    }
}

/// All kinds between GPUs, those for some programs only included; where they are at all, see [`EVERY`].
pub(crate) fn between_gpus() -> Vec<Kind> {
    #[cfg(feature = "nccl")]
    return gpu::all_kinds();
    #[cfg(not(feature = "nccl"))]
    Vec::new()
}

/// Every kind that the same body must pass on; the rough ones too, or not. Between GPUs only with the feature `nccl` and where the
/// emulated driver is in the loader's way, as `cargo xtask ci emulator` puts it.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    rough: bool,
}

pub(crate) const ALL: Kinds = Kinds { rough: false };

/// The same and the rough ones.
pub(crate) const EVERY: Kinds = Kinds { rough: true };

impl IntoIterator for Kinds {
    type Item = Kind;
    type IntoIter = std::vec::IntoIter<Kind>;

    fn into_iter(self) -> Self::IntoIter {
        let mut kinds = vec![Kind::Memory(0), Kind::Memory(1), Kind::Memory(4), Kind::Socket, Kind::Shm];
        if self.rough {
            kinds.extend([Kind::RoughSocket, Kind::RoughShm]);
        }
        #[cfg(feature = "nccl")]
        kinds.extend(gpu::kinds());
        kinds.into_iter()
    }
}

/// Runs `body` for every rank of a new fabric, each on a thread of its own; gives the results in rank order.
pub(crate) fn run<R: Send>(
    kind: Kind,
    n_ranks: u32,
    channels: &[Channel],
    body: impl Fn(Member) -> R + Sync,
) -> Vec<R> {
    run_within(PATIENCE, kind, n_ranks, channels, body)
}

/// The same with another deadline, for collectives too.
pub(crate) fn run_within<R: Send>(
    deadline: Duration,
    kind: Kind,
    n_ranks: u32,
    channels: &[Channel],
    body: impl Fn(Member) -> R + Sync,
) -> Vec<R> {
    match kind {
        Kind::Memory(capacity) => {
            let spec = MemorySpec { n_ranks, channels: channels.to_vec(), capacity, deadline };
            let builders = memory_fabric(spec).expect("the channels are between the ranks");
            each(builders, |builder| body(builder.build()))
        }
        Kind::Socket | Kind::Shm | Kind::RoughSocket | Kind::RoughShm => {
            let links = vec![kind.links(); n_ranks as usize];
            join_each(deadline, links, channels, |joined| body(joined.expect("all ranks join").member))
        }
        #[cfg(feature = "nccl")]
        Kind::Nccl(communicators) => {
            let links = vec![kind.links(); n_ranks as usize];
            join_each(deadline, links, channels, |joined| {
                let member = joined.expect("all ranks join").member;
                body(gpu::over_nccl(member, communicators))
            })
        }
    }
}

/// Runs `body` for every rank of a run between processes, or rather threads that know no better; each uses the links that are
/// given for it.
pub(crate) fn join_each<R: Send>(
    deadline: Duration,
    links: Vec<(Transports, Option<RoughLinks>)>,
    channels: &[Channel],
    body: impl Fn(Result<Joined, RendezvousError>) -> R + Sync,
) -> Vec<R> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let n_ranks = links.len() as u32;
    let spec = HostSpec {
        n_ranks,
        certificates: Vec::new(),
        deadline,
        heartbeat: HEARTBEAT,
        secret: None,
        run_name: String::new(),
    };
    let host = Host::spawn(listener, spec).expect("a host");
    let address = host.address();
    let results = each((0..n_ranks).map(Rank).zip(links).collect(), |(rank, (transports, rough))| {
        let spec = JoinSpec {
            host: address.into(),
            rank,
            n_ranks,
            fingerprints: Vec::new(),
            channels: channels.to_vec(),
            deadline,
            heartbeat: HEARTBEAT,
            transports,
            rough,
            terms: 0,
            secret: None,
            run_name: String::new(),
        };
        body(join(&spec))
    });
    host.wait(PATIENCE).expect("all ranks have left");
    results
}

/// A thread per item; panics as the first thread that does.
pub(crate) fn each<T: Send, R: Send>(items: Vec<T>, body: impl Fn(T) -> R + Sync) -> Vec<R> {
    let body = &body;
    thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || body(item))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// A meeting point outside the fabric, for bodies that must not end before each other.
pub(crate) fn meeting(n_ranks: usize) -> Barrier {
    Barrier::new(n_ranks)
}
