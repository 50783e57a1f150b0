//! What events are about, in parts: as they stand in a record, and in words.

use std::fmt;

use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Role, Stage};
use serde::{Deserialize, Serialize};

use super::recorder::{State, Subject};
use crate::collective::Collective;
use crate::error::Operation;
use crate::message::{Envelope, Label};

/// The side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RoleName {
    /// The message leaves the rank.
    Send,
    /// The message arrives at the rank.
    Receive,
}

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    /// Started, and nobody waits for it yet.
    Posted,
    /// In progress, or waited for.
    Begun,
    /// Complete.
    Done,
    /// Failed.
    Failed,
}

/// The way of a message, or both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Activations.
    Forward,
    /// Gradients.
    Backward,
    /// Both, in one order.
    Both,
}

/// A FIFO from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChannelPart {
    /// The rank that sends.
    pub source: u32,
    /// The rank that receives.
    pub destination: u32,
    /// What it carries.
    pub carries: Way,
    /// The queue that its transfers stand in at either end.
    pub queue: u32,
}

/// What travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum LabelPart {
    /// A tensor between stages.
    Tensor {
        /// The step.
        step: u64,
        /// Activation (forward) or gradient (backward).
        direction: Way,
        /// The stage that consumes it.
        stage: u32,
        /// The microbatch.
        microbatch: u32,
        /// Which of the message's tensors.
        part: u16,
    },
    /// The shapes of a message's tensors.
    Shapes {
        /// The step.
        step: u64,
        /// Activation (forward) or gradient (backward).
        direction: Way,
        /// The stage that consumes it.
        stage: u32,
        /// The microbatch.
        microbatch: u32,
    },
    /// A piece of a collective.
    Piece {
        /// The collective.
        collective: Collective,
        /// The group's number.
        group: u32,
        /// Its number among those of the group.
        round: u64,
        /// Which piece.
        piece: u32,
    },
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SubjectPart {
    /// A computation.
    Compute {
        /// The step.
        step: u64,
        /// What is computed: stage, letter, microbatch (`2F0`).
        work: String,
    },
    /// A send or a receive.
    Transfer {
        /// Which.
        role: RoleName,
        /// The channel it goes over.
        channel: ChannelPart,
        /// What is transferred.
        label: LabelPart,
    },
    /// A collective.
    Collective {
        /// Which.
        collective: Collective,
        /// The group; none for all ranks through the host.
        group: Option<u32>,
        /// Its number among those of the group.
        round: u64,
    },
}

impl SubjectPart {
    /// The step it belongs to, where it belongs to one.
    pub const fn step(&self) -> Option<u64> {
        match self {
            Self::Compute { step, .. } => Some(*step),
            Self::Transfer { label, .. } => label.step(),
            Self::Collective { .. } => None,
        }
    }

    /// The rank at the other end, for a transfer.
    pub const fn peer(&self) -> Option<u32> {
        match self {
            Self::Transfer { role: RoleName::Send, channel, .. } => Some(channel.destination),
            Self::Transfer { role: RoleName::Receive, channel, .. } => Some(channel.source),
            _ => None,
        }
    }
}

impl LabelPart {
    /// The step it belongs to; none for a piece of a collective.
    pub const fn step(self) -> Option<u64> {
        match self {
            Self::Tensor { step, .. } | Self::Shapes { step, .. } => Some(step),
            Self::Piece { .. } => None,
        }
    }
}

impl From<Role> for RoleName {
    fn from(role: Role) -> Self {
        match role {
            Role::Send => Self::Send,
            Role::Receive => Self::Receive,
        }
    }
}

impl From<State> for StateName {
    fn from(state: State) -> Self {
        match state {
            State::Posted => Self::Posted,
            State::Begun => Self::Begun,
            State::Done => Self::Done,
            State::Failed => Self::Failed,
        }
    }
}

const fn way_of(direction: Direction) -> Way {
    match direction {
        Direction::Forward => Way::Forward,
        Direction::Backward => Way::Backward,
    }
}

impl From<Channel> for ChannelPart {
    fn from(channel: Channel) -> Self {
        let Channel { source, destination, carries, queue } = channel;
        let carries = match carries {
            Carries::Only(direction) => way_of(direction),
            Carries::Both => Way::Both,
        };
        Self { source: source.0, destination: destination.0, carries, queue }
    }
}

impl From<Label> for LabelPart {
    fn from(label: Label) -> Self {
        match label {
            Label::Tensor { envelope: Envelope { step, message }, part } => {
                let Message { direction, stage, microbatch } = message;
                Self::Tensor { step, direction: way_of(direction), stage: stage.0, microbatch: microbatch.0, part }
            }
            Label::Shapes(Envelope { step, message: Message { direction, stage, microbatch } }) => {
                Self::Shapes { step, direction: way_of(direction), stage: stage.0, microbatch: microbatch.0 }
            }
            Label::Piece { collective, group, round, piece } => Self::Piece { collective, group, round, piece },
        }
    }
}

impl From<Operation> for SubjectPart {
    fn from(Operation { role, channel, label }: Operation) -> Self {
        Self::Transfer { role: role.into(), channel: channel.into(), label: label.into() }
    }
}

impl From<Subject> for SubjectPart {
    fn from(subject: Subject) -> Self {
        match subject {
            Subject::Compute { step, work } => Self::Compute { step, work: work.to_string() },
            Subject::Transfer(operation) => operation.into(),
            Subject::Collective { collective, group, round } => Self::Collective { collective, group, round },
        }
    }
}

fn label_of(part: LabelPart) -> Label {
    let envelope = |step, direction, stage, microbatch| {
        let direction = if direction == Way::Backward { Direction::Backward } else { Direction::Forward };
        Envelope { step, message: Message { direction, stage: Stage(stage), microbatch: Microbatch(microbatch) } }
    };
    match part {
        LabelPart::Tensor { step, direction, stage, microbatch, part } => {
            Label::Tensor { envelope: envelope(step, direction, stage, microbatch), part }
        }
        LabelPart::Shapes { step, direction, stage, microbatch } => {
            Label::Shapes(envelope(step, direction, stage, microbatch))
        }
        LabelPart::Piece { collective, group, round, piece } => Label::Piece { collective, group, round, piece },
    }
}

impl fmt::Display for LabelPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        label_of(*self).fmt(f)
    }
}

impl fmt::Display for SubjectPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute { step, work } => write!(f, "the computation {work} of step {step}"),
            Self::Transfer { role, channel, label } => {
                let (verb, peer) = match role {
                    RoleName::Send => ("send to", channel.destination),
                    RoleName::Receive => ("receive from", channel.source),
                };
                write!(f, "the {verb} rank {peer} of {label}", peer = Rank(peer))
            }
            Self::Collective { collective, group: Some(group), round } => {
                write!(f, "{collective} {round} of group {group}")
            }
            Self::Collective { collective, group: None, round } => write!(f, "{collective} {round} of all ranks"),
        }
    }
}
