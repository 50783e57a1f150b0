//! The newtypes every other room counts in. All ids are 0-based.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a slice.
            #[inline]
            pub const fn idx(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A pipeline rank: one process of one pipeline, `0..pp`.
    Rank
);
id!(
    /// A global stage: the model is `0..pp * vp` stages, run in this order by every microbatch.
    Stage
);
id!(
    /// A model chunk local to a rank, `0..vp`.
    Chunk
);
id!(
    /// A microbatch of one step, `0..m`.
    Microbatch
);
id!(
    /// A channel of a program: a FIFO from one rank to another.
    ChannelId
);

/// The way a message or a computation goes through the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Activations, from stage 0 to the last.
    Forward,
    /// Gradients, from the last stage to stage 0.
    Backward,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        })
    }
}
