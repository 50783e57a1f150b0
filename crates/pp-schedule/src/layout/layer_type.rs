//! The kinds of layers that stand on stages.

/// A kind of layer in a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerType {
    /// The embedding (`E`).
    Embedding,
    /// A transformer layer (`t`): what `--num-layers` counts.
    Decoder,
    /// A layer for multi-token prediction (`m`).
    Mtp,
    /// The head and its loss (`L`).
    Loss,
}

impl LayerType {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Embedding, Self::Decoder, Self::Mtp, Self::Loss];

    /// Its letter in a layout string.
    pub const fn letter(self) -> char {
        match self {
            Self::Embedding => 'E',
            Self::Decoder => 't',
            Self::Mtp => 'm',
            Self::Loss => 'L',
        }
    }

    /// Its name in a layout of lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Decoder => "decoder",
            Self::Mtp => "mtp",
            Self::Loss => "loss",
        }
    }

    pub(super) fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.letter() == letter)
    }
}
