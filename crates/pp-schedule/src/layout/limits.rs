//! The sizes that layouts are bounded by, the names of flags, and the nearest sizes that work: what errors speak of.

/// The most layers that [`super::balance()`] takes: its memory grows with layers times stages.
pub const MAX_BALANCED_LAYERS: usize = 4096;
/// The most stages, `pp * vp`, that layers are assigned to.
pub const MAX_STAGES: u32 = 1 << 16;
/// The most layers and stage separators that a layout may have, written out.
pub const MAX_PATTERN_LEN: usize = 1 << 16;

/// `--decoder-first-pipeline-num-layers`, by Megatron's name.
pub(super) const FIRST: &str = "--decoder-first-pipeline-num-layers";
/// `--decoder-last-pipeline-num-layers`, by Megatron's name.
pub(super) const LAST: &str = "--decoder-last-pipeline-num-layers";

pub(super) fn stages(pp: u32, vp: u32) -> u64 {
    u64::from(pp) * u64::from(vp)
}

/// The multiples of `of` around `value`, but for 0.
pub(super) fn nearest_multiples(value: u64, of: u64) -> String {
    let below = value / of * of;
    let above = below + of;
    if below == 0 { above.to_string() } else { format!("{below} or {above}") }
}

/// The numbers of layers around `n_layers` that, with `extra` more, are a positive multiple of `of`.
pub(super) fn nearest_with(n_layers: u32, extra: i64, of: u64) -> String {
    let of = of as i64;
    let below = (i64::from(n_layers) + extra).div_euclid(of) * of;
    if below > extra.max(0) {
        format!("{} or {}", below - extra, below + of - extra)
    } else {
        (below + of - extra).to_string()
    }
}
