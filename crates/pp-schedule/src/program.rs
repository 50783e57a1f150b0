//! The program: what each rank does, in turn, as flat data. Everything downstream (verifier, executor, pictures) reads it.

use std::fmt;
use std::num::NonZeroU32;

use crate::deps::Message;
use crate::ids::{ChannelId, Direction, Rank};
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

/// One computation and the slots it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compute {
    /// What is computed.
    pub work: Work,
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
    /// Start transfer number `.0` without waiting for it.
    Post(u32),
    /// Wait until transfer number `.0` is complete.
    Wait(u32),
}

/// An action with its operands looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Run a computation.
    Compute(&'a Compute),
    /// Start a transfer (its number, itself) without waiting for it.
    Post(u32, &'a Transfer),
    /// Wait until a transfer (its number, itself) is complete.
    Wait(u32, &'a Transfer),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute(compute) => write!(f, "compute {}", compute.work),
            Self::Post(_, transfer) => write!(f, "post: {transfer}"),
            Self::Wait(_, transfer) => write!(f, "wait: {transfer}"),
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
            Action::Post(transfer) => Step::Post(transfer, self.transfers.get(transfer as usize)?),
            Action::Wait(transfer) => Step::Wait(transfer, self.transfers.get(transfer as usize)?),
        })
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

/// A FIFO from one rank to another that carries the messages of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// The rank that sends.
    pub source: Rank,
    /// The rank that receives.
    pub destination: Rank,
    /// Activations or gradients.
    pub direction: Direction,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} channel from rank {} to rank {}", self.direction, self.source, self.destination)
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
