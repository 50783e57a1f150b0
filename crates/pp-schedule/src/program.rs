//! The program: what each rank does, in turn, as flat data. Everything downstream (verifier, executor, pictures) reads it.

use std::fmt;
use std::num::NonZeroU32;

use crate::deps::Message;
use crate::ids::{ChannelId, Chunk, Direction, Rank};
use crate::order::Extent;
use crate::work::Work;

/// What a slot is for. Each class is numbered by itself, from 0, on each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SlotClass {
    /// What a forward keeps for its backward: an in-flight activation.
    Saved,
    /// A buffer that a message is received into.
    Receive,
    /// A buffer that a message is sent from.
    Send,
    /// A tensor handed from one stage to another on the same rank.
    Local,
}

impl SlotClass {
    /// All classes, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Saved, Self::Receive, Self::Send, Self::Local];

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Saved => "saved",
            Self::Receive => "receive",
            Self::Send => "send",
            Self::Local => "local",
        }
    }
}

/// A place for a tensor on one rank, assigned when the program is built: class and index, packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(NonZeroU32);

impl Slot {
    const INDEX_BITS: u32 = 29;

    /// The slot `index` of a class.
    ///
    /// # Panics
    /// If `index` is 2^29 - 1 or more, which no program within [`crate::config::MAX_CELLS`] reaches.
    pub fn new(class: SlotClass, index: u32) -> Self {
        assert!(index < (1 << Self::INDEX_BITS) - 1, "slot index {index} does not fit");
        let packed = ((class as u32) << Self::INDEX_BITS) | (index + 1);
        Self(NonZeroU32::new(packed).unwrap_or(NonZeroU32::MIN))
    }

    /// What it is for.
    pub const fn class(self) -> SlotClass {
        match self.0.get() >> Self::INDEX_BITS {
            0 => SlotClass::Saved,
            1 => SlotClass::Receive,
            2 => SlotClass::Send,
            _ => SlotClass::Local,
        }
    }

    /// Its number within the class.
    pub const fn idx(self) -> usize {
        ((self.0.get() & ((1 << Self::INDEX_BITS) - 1)) - 1) as usize
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slot {}", self.class().name(), self.idx())
    }
}

/// Whether a forward keeps its activations or computes them again for its backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Recompute {
    /// As the model is configured.
    #[default]
    ModelDefault,
    /// Some layers at most (Megatron's partial activation checkpointing).
    Partial,
    /// Every layer.
    Full,
}

/// One computation and the slots it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compute {
    /// What is computed.
    pub work: Work,
    /// What a forward keeps for its backward.
    pub recompute: Recompute,
    /// Whether it overlaps with the computation after it; an executor that cannot overlap them runs one after the other.
    pub overlaps_next: bool,
    /// Where its state is kept: a forward fills it, a backward empties it. None in a forward-only program.
    pub saved: Option<Slot>,
    /// The slot it takes its activation or gradient from; none at the pipeline's ends.
    pub input: Option<Slot>,
    /// The slot it puts its result into; none at the pipeline's ends and for weight gradients.
    pub output: Option<Slot>,
}

/// The side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The message leaves this rank.
    Send,
    /// The message arrives at this rank.
    Receive,
}

/// One side of one message's way: a send or a receive on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Send or receive.
    pub role: Role,
    /// What is transferred.
    pub message: Message,
    /// The channel it goes over.
    pub channel: ChannelId,
    /// The rank at the other end.
    pub peer: Rank,
    /// The buffer.
    pub slot: Slot,
    /// Whether a send's buffer is free once the send is complete. If not, an [`Action::Free`] says when.
    pub releases: bool,
    /// Whether it is the last of the transfers that are posted together.
    pub ends_post: bool,
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Role::Send => write!(f, "send to rank {} the {}", self.peer, self.message),
            Role::Receive => write!(f, "receive from rank {} the {}", self.peer, self.message),
        }
    }
}

/// An action, as stored: indices into the tables of its [`RankProgram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Run computation number `.0`.
    Compute(u32),
    /// Start transfer number `.0`, and those after it up to the first that [ends the post](Transfer::ends_post), as one
    /// exchange, without waiting for them.
    Post(u32),
    /// Wait until transfer number `.0` is complete.
    Wait(u32),
    /// Give up the tensor in a send slot, whose send is complete.
    Free(Slot),
    /// Tell whoever synchronises gradients and parameters.
    Mark(Mark),
}

const _: () = assert!(size_of::<Action>() == 8, "programs of millions of actions have to fit in memory");

/// What a program says to whoever synchronises gradients and parameters over data-parallel ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Gradients of the backwards from here on are not synchronised by themselves.
    SyncOff,
    /// They are again.
    SyncOn,
    /// Synchronise the gradients of a chunk: its last backward is done.
    SyncGradients(Chunk),
    /// Fetch the parameters of a chunk: its first forward comes soon.
    SyncParameters(Chunk),
    /// The step's gradients are complete.
    Finalize,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SyncOff => f.write_str("gradient synchronisation off"),
            Self::SyncOn => f.write_str("gradient synchronisation on"),
            Self::SyncGradients(chunk) => write!(f, "synchronise the gradients of chunk {chunk}"),
            Self::SyncParameters(chunk) => write!(f, "synchronise the parameters of chunk {chunk}"),
            Self::Finalize => f.write_str("finalize the gradients"),
        }
    }
}

/// An action with its operands looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Run a computation.
    Compute(&'a Compute),
    /// Start transfers (the number of the first, themselves) as one exchange, without waiting for them.
    Post(u32, &'a [Transfer]),
    /// Wait until a transfer (its number, itself) is complete.
    Wait(u32, &'a Transfer),
    /// Give up the tensor in a slot.
    Free(Slot),
    /// Tell whoever synchronises gradients and parameters.
    Mark(Mark),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute(compute) => write!(f, "compute {}", compute.work),
            Self::Post(_, transfers) => {
                f.write_str("post: ")?;
                for (index, transfer) in transfers.iter().enumerate() {
                    write!(f, "{}{transfer}", if index == 0 { "" } else { " and " })?;
                }
                Ok(())
            }
            Self::Wait(_, transfer) => write!(f, "wait: {transfer}"),
            Self::Free(slot) => write!(f, "free: {slot}"),
            Self::Mark(mark) => mark.fmt(f),
        }
    }
}

/// The program of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankProgram {
    /// The rank.
    pub rank: Rank,
    /// What it does, in turn.
    pub actions: Vec<Action>,
    /// The computations the actions refer to.
    pub computes: Vec<Compute>,
    /// The transfers the actions refer to.
    pub transfers: Vec<Transfer>,
}

impl RankProgram {
    /// The action at `index` with its operands; `None` past the end or where the action refers to nothing.
    #[inline]
    pub fn step(&self, index: usize) -> Option<Step<'_>> {
        Some(match *self.actions.get(index)? {
            Action::Compute(compute) => Step::Compute(self.computes.get(compute as usize)?),
            Action::Post(first) => Step::Post(first, self.posted(first)?),
            Action::Wait(transfer) => Step::Wait(transfer, self.transfers.get(transfer as usize)?),
            Action::Free(slot) => Step::Free(slot),
            Action::Mark(mark) => Step::Mark(mark),
        })
    }

    /// The transfers that a post starts; `None` when it refers to nothing or does not end.
    #[inline]
    pub fn posted(&self, first: u32) -> Option<&[Transfer]> {
        let rest = self.transfers.get(first as usize..)?;
        if rest.first()?.ends_post {
            return Some(&rest[..1]);
        }
        let last = rest.iter().position(|transfer| transfer.ends_post)?;
        Some(&rest[..=last])
    }

    /// The actions in turn with their operands, up to the first that refers to nothing (the verifier refuses those).
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        (0..self.actions.len()).map_while(|index| self.step(index))
    }

    /// How many slots of a class it uses: its peak memory in units of that class's tensors.
    pub fn n_slots(&self, class: SlotClass) -> usize {
        let computes = self.computes.iter().flat_map(|compute| [compute.saved, compute.input, compute.output]);
        let slots = computes.flatten().chain(self.transfers.iter().map(|transfer| transfer.slot));
        slots.filter(|slot| slot.class() == class).map(|slot| slot.idx() + 1).max().unwrap_or(0)
    }
}

/// A FIFO from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// The rank that sends.
    pub source: Rank,
    /// The rank that receives.
    pub destination: Rank,
    /// What it carries: activations, gradients, or both in one order.
    pub carries: Carries,
    /// The queue that its transfers stand in at either end. On a rank, posts of one queue go one after the other; posts
    /// of different queues do not wait for each other.
    pub queue: u32,
}

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carries {
    /// The messages of one direction.
    Only(Direction),
    /// Those of both, in one order.
    Both,
}

impl Carries {
    /// Whether messages of a direction go over it.
    pub fn includes(self, direction: Direction) -> bool {
        self == Self::Both || self == Self::Only(direction)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.carries {
            Carries::Only(direction) => write!(f, "{direction} channel")?,
            Carries::Both => f.write_str("channel for both directions")?,
        }
        write!(f, " from rank {} to rank {}", self.source, self.destination)
    }
}

/// The program of a whole step, for all ranks. It says what would run; only [`crate::verify()`] says that it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is over.
    pub extent: Extent,
    /// Every channel there is, by [`ChannelId`].
    pub channels: Vec<Channel>,
    /// The ranks' programs, by rank.
    pub ranks: Vec<RankProgram>,
}
