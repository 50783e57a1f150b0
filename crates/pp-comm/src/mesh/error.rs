//! Sizes that make no mesh.

/// Why there is no such mesh.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// A size of zero.
    #[error("a mesh of --tp {tp} x --dp {dp} x --pp {pp} has no ranks; each must be at least 1")]
    Zero {
        /// Tensor-parallel ranks.
        tp: u32,
        /// Data-parallel ranks.
        dp: u32,
        /// Pipeline ranks.
        pp: u32,
    },
    /// More ranks than there may be.
    #[error("a mesh of --tp {tp} x --dp {dp} x --pp {pp} has {} ranks, but at most {most} may take part",
        u128::from(*tp) * u128::from(*dp) * u128::from(*pp))]
    TooLarge {
        /// Tensor-parallel ranks.
        tp: u32,
        /// Data-parallel ranks.
        dp: u32,
        /// Pipeline ranks.
        pp: u32,
        /// The most ranks there may be.
        most: u32,
    },
    /// Another number of ranks was started.
    #[error("{} there, but --tp {tp} x --dp {dp} x --pp {pp} needs {}; {}", are(*n_ranks), tp * dp * pp,
        nearest(*n_ranks, [*tp, *dp, *pp], *most))]
    World {
        /// Ranks there are.
        n_ranks: u32,
        /// Tensor-parallel ranks.
        tp: u32,
        /// Data-parallel ranks.
        dp: u32,
        /// Pipeline ranks.
        pp: u32,
        /// The most ranks there may be.
        most: u32,
    },
    /// Stages placed on another number of ranks than a pipeline has.
    #[error("stages are placed on {placed} ranks, but a pipeline of this mesh has --pp {pp}")]
    Placement {
        /// Pipeline ranks.
        pp: u32,
        /// Ranks of the placement.
        placed: u32,
    },
}

fn are(n_ranks: u32) -> String {
    format!("{} {}", ranks(n_ranks), if n_ranks == 1 { "is" } else { "are" })
}

fn ranks(n_ranks: u32) -> String {
    format!("{n_ranks} rank{}", if n_ranks == 1 { "" } else { "s" })
}

/// What would work with the ranks there are, or with nearly as many: another `dp`, since `tp` and `pp` cut the model.
fn nearest(n_ranks: u32, [tp, dp, pp]: [u32; 3], most: u32) -> String {
    let (model, needed) = (tp * pp, ranks(tp * dp * pp));
    if n_ranks != 0 && n_ranks <= most && n_ranks.is_multiple_of(model) {
        return format!("use --dp {}, or start {needed}", n_ranks / model);
    }
    let below = n_ranks.min(most) / model;
    let fits = |&other: &u32| other != 0 && other != dp && other.checked_mul(model).is_some_and(|ranks| ranks <= most);
    let with = |dp: u32| format!("--dp {dp} on {}", ranks(dp * model));
    let others: Vec<String> = [below, below + 1].into_iter().filter(fits).map(with).collect();
    let others = if others.is_empty() { String::new() } else { format!(", or use {}", others.join(" or ")) };
    format!("start {needed}{others}")
}
