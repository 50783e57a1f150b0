//! What ranks can do together.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An operation that all ranks of a run or a group take part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Collective {
    /// All ranks wait for each other.
    Barrier = 1,
    /// All ranks get what each of them gives, in rank order.
    AllGather = 2,
    /// All ranks get what one of them gives.
    Broadcast = 3,
    /// All ranks get the sum of what they give.
    AllReduce = 4,
    /// Each rank gets its share of the sum of what they give.
    ReduceScatter = 5,
}

impl Collective {
    const ALL: [Self; 5] = [Self::Barrier, Self::AllGather, Self::Broadcast, Self::AllReduce, Self::ReduceScatter];

    /// The collective with this number on the wire.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|collective| *collective as u8 == code)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Barrier => "barrier",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
        })
    }
}

/// Of what the values are that a rank gives to an all-gather through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Elements {
    /// Bytes.
    Bytes = 0,
    /// `f32` values.
    F32 = 1,
    /// `f64` values.
    F64 = 2,
}

impl Elements {
    const ALL: [Self; 3] = [Self::Bytes, Self::F32, Self::F64];

    /// The type with this number on the wire.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|elements| *elements as u8 == code)
    }

    /// Bytes of one of them.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::F32 => "f32 values",
            Self::F64 => "f64 values",
        })
    }
}
