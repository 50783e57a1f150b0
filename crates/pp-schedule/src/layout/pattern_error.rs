//! Why a text or lists are no layout.

use super::layer_type::LayerType;
use super::limits::{MAX_PATTERN_LEN, nearest_multiples};

/// Why a text or lists are no layout, or not one for these layers and ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Neither a layer nor one of the signs.
    #[error(
        "layout: `{}` at character {at} is no layer; layers are E (embedding), t (transformer), m (MTP), L (loss), \
         and `|` starts the next stage", found.escape_debug()
    )]
    UnknownCharacter {
        /// The character.
        found: char,
        /// Its place in the text, from 0.
        at: usize,
    },
    /// A name in a list that is no layer's.
    #[error("layout: `{}` on stage {stage} is no layer; layers are embedding, decoder, mtp, loss", name.escape_debug())]
    UnknownName {
        /// The name.
        name: String,
        /// The stage it is on.
        stage: usize,
    },
    /// An encoder layer.
    #[error("layout: stage {stage} has an encoder layer, and a layout takes decoder layers only; write `decoder`")]
    Encoder {
        /// The stage it is on.
        stage: usize,
    },
    /// `(` without its `)`.
    #[error(
        "layout: `(` at character {at} is not closed before the next `(` or the end; groups do not nest: `(tt|)*3`"
    )]
    Unclosed {
        /// Its place in the text, from 0.
        at: usize,
    },
    /// `)` without its `(`.
    #[error("layout: `)` at character {at} closes no group; write `(tt|)*3`, or leave it out")]
    Unopened {
        /// Its place in the text, from 0.
        at: usize,
    },
    /// A group that is empty or not repeated.
    #[error(
        "layout: the group at character {at} {}; write `(tt|)*3`, or leave the parentheses out",
        if *empty { "is empty" } else { "is not followed by `*` and a count" }
    )]
    BareGroup {
        /// The place of its `(` in the text, from 0.
        at: usize,
        /// Whether there is nothing in it.
        empty: bool,
    },
    /// `*` that repeats nothing, or has no count.
    #[error(
        "layout: `*` at character {at} has no {}; write `t*3`, or leave it out",
        if *counted { "single layer, bar or group before it" } else { "count after it" }
    )]
    BareStar {
        /// Its place in the text, from 0.
        at: usize,
        /// Whether a count follows.
        counted: bool,
    },
    /// More than anybody trains.
    #[error(
        "layout: {len} layers and separators are more than {MAX_PATTERN_LEN}, the most a layout may have; repeat less"
    )]
    TooLong {
        /// How many there would be.
        len: usize,
    },
    /// The stages do not divide over the ranks.
    #[error(
        "layout: {stages} stages do not divide over --pp {pp}; nearest that works: {} stages",
        nearest_multiples(*stages as u64, u64::from(*pp))
    )]
    StagesNotDivisible {
        /// Stages in the layout.
        stages: usize,
        /// Pipeline ranks.
        pp: u32,
    },
    /// The chunks per rank are not those of the layout.
    #[error("layout: its stages make {chunks} chunks per rank, but --vp is {vp}; use --vp {chunks}, or leave it out")]
    Chunks {
        /// Chunks per rank in the layout.
        chunks: usize,
        /// Chunks per rank asked for.
        vp: u32,
    },
    /// No layer on any stage.
    #[error("layout: it has no layers; the smallest is `EtL`")]
    NoLayers,
    /// Something stands before the embedding, or it is missing.
    #[error("layout: the first layer is {}, but must be the embedding; start with `E`", found.name())]
    FirstNotEmbedding {
        /// The first layer.
        found: LayerType,
    },
    /// Something stands behind the loss, or it is missing.
    #[error("layout: the last layer is {}, but must be the loss; end with `L`", found.name())]
    LastNotLoss {
        /// The last layer.
        found: LayerType,
    },
    /// Several embeddings or losses.
    #[error("layout: {} stands {count} times, but must stand once", kind.name())]
    NotOnce {
        /// Which.
        kind: LayerType,
        /// How often.
        count: usize,
    },
    /// Not every layer, or too many.
    #[error("layout: it has {decoders} transformer layers (t), but --num-layers is {n_layers}; change one of them")]
    Decoders {
        /// In the layout.
        decoders: usize,
        /// Asked for.
        n_layers: u32,
    },
    /// Not every MTP layer, or too many.
    #[error("layout: it has {count} MTP layers (m), but --mtp-num-layers is {mtp_layers}; change one of them")]
    MtpCount {
        /// In the layout.
        count: usize,
        /// Asked for.
        mtp_layers: u32,
    },
    /// A transformer layer behind an MTP layer.
    #[error("layout: a transformer layer (t) stands behind an MTP layer (m); put every m behind the last t")]
    DecoderAfterMtp,
    /// MTP layers on several stages.
    #[error("layout: the MTP layers (m) are on several stages, but must be on one; put them together")]
    MtpSpread,
    /// MTP layers on a chunk that is not its rank's last.
    #[error("layout: the MTP layers (m) are on stage {stage}, which is not the last chunk of its rank; move them back")]
    MtpNotInLastChunk {
        /// The stage they are on.
        stage: usize,
    },
}
