//! What a message between stages is made of: an ordered list of tensors and integers.

use std::fmt;

use crate::message::{Boundary, Buffer, BufferError, DType};

/// One item of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A tensor; it travels as it is.
    Tensor(Buffer),
    /// An integer; it travels as a tensor of no dimensions and is unpacked on arrival.
    Integer(i64),
}

impl Item {
    /// The tensor; none for an integer.
    pub fn into_tensor(self) -> Option<Buffer> {
        match self {
            Self::Tensor(buffer) => Some(buffer),
            Self::Integer(_) => None,
        }
    }

    pub(super) fn into_buffer(self) -> Result<Buffer, BufferError> {
        match self {
            Self::Tensor(buffer) => Ok(buffer),
            Self::Integer(integer) => Buffer::i64(&[], vec![integer]),
        }
    }
}

/// What both sides agreed an item to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A tensor of this type and shape; where shapes vary, of this type and at most this shape.
    Tensor(Boundary),
    /// An integer.
    Integer,
}

impl Part {
    /// What an item is.
    pub fn of(item: &Item) -> Self {
        match item {
            Item::Tensor(buffer) => Self::Tensor(buffer.boundary().clone()),
            Item::Integer(_) => Self::Integer,
        }
    }

    /// How it travels.
    pub(super) fn boundary(&self) -> Result<Boundary, BufferError> {
        match self {
            Self::Tensor(boundary) => Ok(boundary.clone()),
            Self::Integer => Boundary::new(DType::I64, &[]),
        }
    }

    pub(super) fn unpack(&self, buffer: Buffer) -> Result<Item, BufferError> {
        match self {
            Self::Tensor(_) => Ok(Item::Tensor(buffer)),
            // As long as its boundary, which is a scalar's.
            Self::Integer => Ok(Item::Integer(buffer.as_i64()?.first().copied().unwrap_or_default())),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(boundary) => boundary.fmt(f),
            Self::Integer => f.write_str("an integer"),
        }
    }
}

/// What the messages of a direction are made of, the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    parts: Vec<Part>,
    varies: bool,
}

impl Contents {
    /// Messages of just these parts, agreed before the step.
    pub const fn agreed(parts: Vec<Part>) -> Self {
        Self { parts, varies: false }
    }

    /// Messages of these parts whose tensors may have another shape each time: as many dimensions, each at most as
    /// large. The shapes are sent ahead of the tensors and checked against these before anything is allocated.
    pub const fn up_to(parts: Vec<Part>) -> Self {
        Self { parts, varies: true }
    }

    /// Messages of one tensor.
    pub fn tensor(boundary: Boundary) -> Self {
        Self::agreed(vec![Part::Tensor(boundary)])
    }

    /// The parts, in turn.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether shapes are sent ahead.
    pub const fn varies(&self) -> bool {
        self.varies
    }

    /// Whether an item may stand where `part` was agreed.
    pub(super) fn admits(&self, part: &Part, item: &Part) -> Verdict {
        match (part, item) {
            (Part::Integer, Part::Integer) => Verdict::Fine,
            (Part::Tensor(bound), Part::Tensor(found)) if bound.dtype() == found.dtype() && self.varies => {
                let fits = bound.shape().len() == found.shape().len()
                    && bound.shape().iter().zip(found.shape()).all(|(most, dim)| dim <= most);
                if fits { Verdict::Fine } else { Verdict::Beyond }
            }
            (Part::Tensor(agreed), Part::Tensor(found)) if agreed == found => Verdict::Fine,
            _ => Verdict::Other,
        }
    }
}

/// What is to be said of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// The right type, but of a shape that is beyond the bound.
    Beyond,
    /// Something else.
    Other,
}
