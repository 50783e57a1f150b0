//! How much the named zero-bubble schedules may hold, in half-activations of one stage: a forward takes two, an input
//! gradient gives back one and a weight gradient the other.
//!
//! With a V, a stage is half as large as without, so two chunks with the limit `4 pp` hold what one chunk holds with `2 pp`:
//! the activations of `pp` microbatches, as 1F1B does.

/// 1F1B's memory with one chunk: the limit of ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism").
pub const fn zb_h1(pp: u32) -> u64 {
    2 * pp as u64
}

/// Twice 1F1B's memory with one chunk: enough for no bubble in a steady state (the same paper's ZB-2p).
pub const fn zb_2p(pp: u32) -> u64 {
    4 * pp as u64
}

/// 1F1B's memory with the V's two chunks (the same paper's ZB-V).
pub const fn zb_v(pp: u32) -> u64 {
    4 * pp as u64
}

/// About half of 1F1B's memory with the V's two chunks: both activations of `pp / 2 + 1` microbatches (Qi et al. 2024,
/// "Pipeline Parallelism with Controllable Memory", V-Half).
pub const fn v_half(pp: u32) -> u64 {
    4 * (pp as u64 / 2 + 1)
}

/// About a third of 1F1B's memory with the V's two chunks: both activations of `(pp + 2) / 3` microbatches, rounded up,
/// and never more than one activation per rank and one (the same paper's V-Min).
pub const fn v_min(pp: u32) -> u64 {
    let pp = pp as u64;
    let thirds = 4 * (pp + 2).div_ceil(3);
    let ranks = 2 * (pp + 1);
    if thirds < ranks { thirds } else { ranks }
}
