//! The colours of all pictures.
//!
//! Forward, full backward, input and weight gradient stay apart for all kinds of colour blindness (a difference of at
//! least 25 in CIELAB for normal, protan, deutan and tritan vision; a test computes it), and each is light enough for
//! dark letters, on a light page and on a dark one. Whoever sees no colour at all tells them by their edges: a full backward has
//! a dark edge at its top and at its bottom, an input gradient at its top, a weight gradient at its bottom, a forward none,
//! as `B = I + W`.

use crate::work::WorkKind;

/// A colour: red, green, blue.
pub(super) type Rgb = [u8; 3];

/// The letters on boxes of any kind.
pub(super) const INK: Rgb = [0x11, 0x16, 0x1c];

/// The most shades that are used; with more chunks, neighbours share one.
pub(super) const MAX_SHADES: u32 = 8;

/// The colour of a kind.
pub(super) const fn base(kind: WorkKind) -> Rgb {
    match kind {
        WorkKind::Forward => [0x4f, 0x9d, 0xf0],
        WorkKind::Backward => [0xee, 0x77, 0x33],
        WorkKind::BackwardInput => [0xf6, 0xe5, 0x8d],
        WorkKind::BackwardWeight => [0xaa, 0x77, 0x99],
    }
}

/// The colour of a kind's edges.
pub(super) const fn edge(kind: WorkKind) -> Rgb {
    match kind {
        WorkKind::Forward => [0x1f, 0x4f, 0x8a],
        WorkKind::Backward => [0x7d, 0x33, 0x0d],
        WorkKind::BackwardInput => [0x7a, 0x66, 0x10],
        WorkKind::BackwardWeight => [0x55, 0x2c, 0x49],
    }
}

/// Whether a kind's boxes have a dark edge at the top, and at the bottom.
pub(super) const fn edges(kind: WorkKind) -> (bool, bool) {
    match kind {
        WorkKind::Forward => (false, false),
        WorkKind::Backward => (true, true),
        WorkKind::BackwardInput => (true, false),
        WorkKind::BackwardWeight => (false, true),
    }
}

/// Which shade a chunk has, of `n_chunks`; below [`n_shades`].
pub(super) fn shade_of(chunk: u32, n_chunks: u32) -> u32 {
    (u64::from(chunk) * u64::from(n_shades(n_chunks)) / u64::from(n_chunks.max(1))) as u32
}

/// How many shades chunks have.
pub(super) fn n_shades(n_chunks: u32) -> u32 {
    n_chunks.clamp(1, MAX_SHADES)
}

/// The colour of a kind in a shade: later chunks are lighter.
pub(super) fn fill(kind: WorkKind, shade: u32, n_shades: u32) -> Rgb {
    let lightest = if kind == WorkKind::BackwardInput { 0.6 } else { 0.55 };
    // With two shades the step would be larger than it need be.
    let step = (lightest / f64::from(n_shades.saturating_sub(1).max(1))).min(0.42);
    let white = f64::from(shade) * step;
    base(kind).map(|channel| (f64::from(channel) + (255.0 - f64::from(channel)) * white).round() as u8)
}

/// As CSS has it.
pub(super) fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(channel: u8) -> f64 {
        let value = f64::from(channel) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    }

    fn luminance(colour: Rgb) -> f64 {
        let [red, green, blue] = colour.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// The contrast of WCAG 2.
    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    type Matrix = [[f64; 3]; 3];

    /// Machado, Oliveira and Fernandes 2009, severity 1: normal, protan, deutan, tritan.
    const VISION: [Matrix; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    fn times(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(factor, value)| factor * value).sum())
    }

    fn lab(colour: Rgb, vision: &Matrix) -> [f64; 3] {
        let seen = times(vision, colour.map(linear)).map(|channel| channel.clamp(0.0, 1.0));
        let to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]];
        let [x, y, z] = times(&to_xyz, seen);
        let bend = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let (x, y, z) = (bend(x / 0.95047), bend(y), bend(z / 1.08883));
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn kinds_stay_apart_for_all_kinds_of_colour_blindness() {
        for vision in &VISION {
            for one in WorkKind::ALL {
                for other in WorkKind::ALL.into_iter().filter(|&other| other > one) {
                    let difference: f64 = lab(base(one), vision)
                        .iter()
                        .zip(lab(base(other), vision))
                        .map(|(one, other)| (one - other) * (one - other))
                        .sum();
                    assert!(difference.sqrt() >= 25.0, "{one:?} and {other:?}: {}", difference.sqrt());
                }
            }
        }
    }

    #[test]
    fn letters_are_readable_on_every_shade_and_edges_are_dark() {
        for kind in WorkKind::ALL {
            for n in 1..=MAX_SHADES {
                for shade in 0..n {
                    let fill = fill(kind, shade, n);
                    assert!(contrast(fill, INK) >= 4.5, "{kind:?} {shade}: {}", contrast(fill, INK));
                }
            }
            assert!(contrast(base(kind), edge(kind)) >= 2.0, "{kind:?}: {}", contrast(base(kind), edge(kind)));
        }
    }

    #[test]
    fn every_chunk_has_a_shade_of_its_own_up_to_the_most() {
        for n in 1..=MAX_SHADES {
            let shades: Vec<u32> = (0..n).map(|chunk| shade_of(chunk, n)).collect();
            assert_eq!(shades, (0..n).collect::<Vec<_>>());
        }
        assert!((0..64).all(|chunk| shade_of(chunk, 64) < n_shades(64)));
        assert_eq!(shade_of(63, 64), MAX_SHADES - 1);
    }
}
