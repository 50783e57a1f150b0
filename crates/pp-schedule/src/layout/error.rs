//! Why layers cannot be partitioned as asked.

use super::limits::{FIRST, LAST, MAX_BALANCED_LAYERS, MAX_STAGES, nearest_multiples, nearest_with, stages};
use super::pattern_error::PatternError;
use crate::ids::{Chunk, Rank};

/// Why layers cannot be partitioned as asked. Each message names flag, value, rule and what works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// They do not divide evenly.
    #[error(
        "--num-layers {n_layers} does not divide over {} stages (--pp {pp} x --vp {vp}); nearest that works: \
         --num-layers {}, or --layer-split with a count per stage",
        stages(*pp, *vp), nearest_multiples(u64::from(*n_layers), stages(*pp, *vp))
    )]
    NotDivisible {
        /// Layers.
        n_layers: u32,
        /// Pipeline ranks.
        pp: u32,
        /// Chunks per rank.
        vp: u32,
    },
    /// They do not divide evenly with embedding or loss counted.
    #[error(
        "--num-layers {n_layers} and {extra} for embedding or loss do not divide over {} stages (--pp {pp} x --vp {vp}); \
         nearest that works: --num-layers {}",
        stages(*pp, *vp), nearest_with(*n_layers, i64::from(*extra), stages(*pp, *vp))
    )]
    AccountedNotDivisible {
        /// Layers.
        n_layers: u32,
        /// Embedding and loss, as far as they count.
        extra: u32,
        /// Pipeline ranks.
        pp: u32,
        /// Chunks per rank.
        vp: u32,
    },
    /// Not a count per stage.
    #[error("--layer-split gives {given} counts, but there are {n_stages} stages: one count per stage, in stage order")]
    Stages {
        /// Counts given.
        given: usize,
        /// Stages.
        n_stages: u32,
    },
    /// The counts do not add up.
    #[error("--layer-split adds up to {sum} layers, but --num-layers is {n_layers}; change one of them")]
    Sum {
        /// Their sum.
        sum: u64,
        /// Layers.
        n_layers: u32,
    },
    /// A size of zero.
    #[error("{flag} is 0, but must be at least 1")]
    Zero {
        /// The flag that was 0.
        flag: &'static str,
    },
    /// More stages than anybody has.
    #[error(
        "--pp {pp} x --vp {vp} is more than {MAX_STAGES} stages, the most layers are assigned to; use a smaller --vp"
    )]
    TooManyStages {
        /// Pipeline ranks.
        pp: u32,
        /// Chunks per rank.
        vp: u32,
    },
    /// Counts of the ends, and embedding or loss counted as layers.
    #[error(
        "{FIRST} and {LAST} exclude --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split; \
         leave one kind out"
    )]
    CountsAndAccount,
    /// A layout together with another way to lay out.
    #[error(
        "--pipeline-layout says where every layer goes and excludes {FIRST}, {LAST}, \
         --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split; leave one kind out"
    )]
    LayoutAndOthers,
    /// Both ends are one rank.
    #[error("{FIRST} {first} and {LAST} {last} are for different ranks, but --pp is 1; leave both out")]
    FirstAndLastOnOneRank {
        /// Layers of the first rank.
        first: u32,
        /// Layers of the last rank.
        last: u32,
    },
    /// An end's layers do not divide over its chunks.
    #[error(
        "{flag} {count} does not divide over --vp {vp}; nearest that works: {}",
        nearest_multiples(u64::from(*count), u64::from(*vp))
    )]
    EndNotDivisible {
        /// The flag.
        flag: &'static str,
        /// Layers of that end.
        count: u32,
        /// Chunks per rank.
        vp: u32,
    },
    /// No ranks between the ends, but layers are left.
    #[error(
        "the ends take {fits} layers and no rank is between them, but --num-layers is {n_layers}; use --num-layers {fits}"
    )]
    LeftOver {
        /// Layers left, negative if the ends take more than there are.
        left: i64,
        /// Layers.
        n_layers: u32,
        /// Layers that the ends take.
        fits: i64,
    },
    /// Ranks between the ends, but no layers are left.
    #[error(
        "the ends take all --num-layers {n_layers}, but {ranks} ranks are left without; nearest that works: \
         --num-layers {}", u64::from(*n_layers) + stages(*ranks, *vp)
    )]
    NothingLeft {
        /// Ranks that get nothing.
        ranks: u32,
        /// Chunks per rank.
        vp: u32,
        /// Layers.
        n_layers: u32,
    },
    /// What the ends leave does not divide.
    #[error(
        "the ends leave {left} of --num-layers {n_layers}, which does not divide over {ranks} ranks x --vp {vp}; \
         nearest that works: --num-layers {}",
        nearest_with(*n_layers, -*ends, stages(*ranks, *vp))
    )]
    MiddleNotDivisible {
        /// Layers left.
        left: i64,
        /// Ranks that have no count of their own.
        ranks: u32,
        /// Chunks per rank.
        vp: u32,
        /// Layers.
        n_layers: u32,
        /// Layers of the ends.
        ends: i64,
    },
    /// Both ends of two ranks given, with virtual stages: Megatron divides by zero here.
    #[error(
        "{FIRST} {first} and {LAST} {last} leave no rank between, which excludes --vp {vp}; leave --vp out, or use \
         --layer-split with {},{} for each chunk", first / vp, last / vp
    )]
    NoMiddleRanks {
        /// Chunks per rank.
        vp: u32,
        /// Layers of the first rank.
        first: u32,
        /// Layers of the last rank.
        last: u32,
    },
    /// The ends take more layers than there are.
    #[error(
        "rank {rank}, chunk {chunk} would have {count} of --num-layers {n_layers}: the ends take more than there are; \
         lower {FIRST} or {LAST}"
    )]
    NegativeCount {
        /// The rank.
        rank: Rank,
        /// The chunk.
        chunk: Chunk,
        /// Its layers by Megatron's arithmetic.
        count: i64,
        /// Layers.
        n_layers: u32,
    },
    /// A layout that is none.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Layers for multi-token prediction cannot be trained.
    #[error("--mtp-num-layers {mtp_layers}: layers for multi-token prediction are not trained; leave them out")]
    MtpNotTrained {
        /// MTP layers.
        mtp_layers: u32,
    },
    /// The layout has the embedding where it does not run.
    #[error("layout: the embedding (E) is on stage {stage}, but runs on stage 0; start the layout with `E`")]
    EmbeddingNotFirst {
        /// The stage it is on.
        stage: usize,
    },
    /// The layout has the loss where it does not run.
    #[error("layout: the loss (L) is on stage {stage}, but runs on stage {last_stage}; end the layout with `L`")]
    LossNotLast {
        /// The stage it is on.
        stage: usize,
        /// The last stage.
        last_stage: usize,
    },
    /// Balance makes no empty stage.
    #[error(
        "--num-layers {n_layers} cannot give each of {n_stages} stages (--pp x --vp) a layer; nearest that works: \
         --num-layers {n_stages}, or at most {n_layers} stages"
    )]
    FewerLayersThanStages {
        /// Layers.
        n_layers: usize,
        /// Stages.
        n_stages: u32,
    },
    /// Balance would take too long.
    #[error("--num-layers {n_layers} is more than {MAX_BALANCED_LAYERS}, the most that are balanced; give counts")]
    TooManyLayersToBalance {
        /// Layers.
        n_layers: usize,
    },
    /// The sum of all costs overflows.
    #[error("the costs of the layers add up to more than {}; use a larger unit of cost", u64::MAX)]
    CostsTooLarge,
}
