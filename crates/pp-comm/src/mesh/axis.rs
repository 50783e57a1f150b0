//! The ways in which ranks differ.

/// What the ranks of a group have in common and differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// All ranks.
    All,
    /// Those that share a layer: `tp` varies.
    Tensor,
    /// Those with the same part of the model and other data: `dp` varies.
    Data,
    /// Those of one pipeline: `pp` varies.
    Pipeline,
    /// Those with one copy of the model: `tp` and `pp` vary.
    Model,
    /// Those with the first and the last stage of one pipeline, which share the embedding's weights. One rank where
    /// that has both; the ranks between have no such group.
    Embedding,
}

impl Axis {
    /// Every axis.
    pub const ALL: [Self; 6] = [Self::All, Self::Tensor, Self::Data, Self::Pipeline, Self::Model, Self::Embedding];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Tensor => "tensor",
            Self::Data => "data",
            Self::Pipeline => "pipeline",
            Self::Model => "model",
            Self::Embedding => "embedding",
        }
    }
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinates {
    /// Its place in its tensor group.
    pub tp: u32,
    /// Its place in its data group.
    pub dp: u32,
    /// Its place in its pipeline: the rank that programs know.
    pub pp: u32,
}
