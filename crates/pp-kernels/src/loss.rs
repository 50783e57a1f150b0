//! Cross-entropy over a vocabulary: `-log softmax(logits)[label]`, summed over rows.
//!
//! Sum and count are returned apart: who owns the loss divides once, over all microbatches. So the
//! gradient is that of the sum too: `softmax(logits) - onehot(label)`.

use rayon::prelude::*;

use crate::par::{self, check_len};
use crate::real::Real;
use crate::simd::vectorized;

/// The label of a row that counts for nothing.
pub const IGNORE: i64 = -100;

/// Elements whose exponentials are added in the precision of the logits before the sum widens to
/// `f64`.
const WIDEN_EVERY: usize = 1024;

/// A loss before its division.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSum {
    /// The sum of the losses of rows that count, in nats.
    pub sum: f64,
    /// The number of rows that count.
    pub count: u64,
}

/// The loss of `logits` `[n, v]` against `labels` `[n]`; `n` is the number of labels.
///
/// With `dlogits` `[n, v]` also the gradient of the sum, overwritten; rows whose label is
/// [`IGNORE`] get zeros. Per-row losses are added in row order, in `f64`.
///
/// # Panics
/// When a length does not match, or a label is neither [`IGNORE`] nor in `0..v`.
pub fn cross_entropy<T: Real>(logits: &[T], labels: &[i64], dlogits: Option<&mut [T]>) -> LossSum {
    let v = row_len(logits.len(), labels);
    if let Some(dlogits) = dlogits {
        check_len("dlogits", dlogits.len(), logits.len(), "the shape of logits");
        return in_rows(dlogits, labels, v, |row_idx, dlogits, label| {
            dlogits.copy_from_slice(&logits[row_idx * v..][..v]);
            loss_to_gradient(dlogits, label)
        });
    }
    let one_row = |row_idx: usize| match label_in(labels[row_idx], v) {
        Some(label) => loss_only(&logits[row_idx * v..][..v], label),
        None => 0.0,
    };
    let losses: Vec<f64> = if par::pays(logits.len()) {
        let min = par::rows_per_task(v);
        (0..labels.len()).into_par_iter().with_min_len(min).map(one_row).collect()
    } else {
        (0..labels.len()).map(one_row).collect()
    };
    add_up(&losses, labels)
}

/// As [`cross_entropy`] with a gradient, which takes the place of the logits.
///
/// # Panics
/// As [`cross_entropy`].
pub fn cross_entropy_in_place<T: Real>(logits: &mut [T], labels: &[i64]) -> LossSum {
    let v = row_len(logits.len(), labels);
    in_rows(logits, labels, v, |_, row, label| loss_to_gradient(row, label))
}

/// Runs `one_row(row_idx, row, label)` on rows that count, zeroes the others, and adds up the
/// losses.
fn in_rows<T: Real>(
    rows: &mut [T],
    labels: &[i64],
    v: usize,
    one_row: impl Fn(usize, &mut [T], usize) -> f64 + Sync,
) -> LossSum {
    if labels.is_empty() {
        return LossSum::default();
    }
    let one_row = |(row_idx, row): (usize, &mut [T])| match label_in(labels[row_idx], v) {
        Some(label) => one_row(row_idx, row, label),
        None => {
            row.fill(T::ZERO);
            0.0
        }
    };
    let losses: Vec<f64> = if par::pays(rows.len()) {
        let min = par::rows_per_task(v);
        rows.par_chunks_exact_mut(v).with_min_len(min).enumerate().map(one_row).collect()
    } else {
        rows.chunks_exact_mut(v).enumerate().map(one_row).collect()
    };
    add_up(&losses, labels)
}

/// Adds per-row losses in row order; ignored rows hold 0.
fn add_up(losses: &[f64], labels: &[i64]) -> LossSum {
    let count = labels.iter().filter(|&&label| label != IGNORE).count() as u64;
    LossSum { sum: losses.iter().sum(), count }
}

/// Elements of a row of logits; checks lengths and labels.
#[track_caller]
fn row_len(n_logits: usize, labels: &[i64]) -> usize {
    if labels.is_empty() {
        check_len("logits", n_logits, 0, "[0, v]");
        return 0;
    }
    let n = labels.len();
    let v = n_logits / n;
    assert!(v > 0 && v * n == n_logits, "{n_logits} logits are not {n} rows, one per label");
    for (row_idx, &label) in labels.iter().enumerate() {
        assert!(
            label == IGNORE || (0..v as i64).contains(&label),
            "label {label} of row {row_idx} is neither {IGNORE} (ignored) nor in 0..{v}"
        );
    }
    v
}

/// A checked label as an index, none for [`IGNORE`].
fn label_in(label: i64, v: usize) -> Option<usize> {
    usize::try_from(label).ok().filter(|&label| label < v)
}

vectorized! {
    /// The loss of one row.
    fn loss_only<'a, T: Real>[simd](row: &'a [T], label: usize) -> f64 {
        let top = T::largest(simd, row);
        let mut sum = 0.0;
        let mut exps = [T::ZERO; WIDEN_EVERY];
        for block in row.chunks(WIDEN_EVERY) {
            let exps = &mut exps[..block.len()];
            for (e, &x) in exps.iter_mut().zip(block) {
                *e = (x - top).exp();
            }
            sum += T::sum(simd, exps).to_f64();
        }
        sum.ln() + (top.to_f64() - row[label].to_f64())
    }

    /// The loss of one row, which becomes its gradient. The same operations as [`loss_only`], so
    /// the same loss.
    fn loss_to_gradient<'a, T: Real>[simd](row: &'a mut [T], label: usize) -> f64 {
        let top = T::largest(simd, row);
        let target = row[label];
        let mut sum = 0.0;
        for block in row.chunks_mut(WIDEN_EVERY) {
            for x in block.iter_mut() {
                *x = (*x - top).exp();
            }
            sum += T::sum(simd, block).to_f64();
        }
        let inverse = T::from_f64(1.0 / sum);
        for x in row.iter_mut() {
            *x = *x * inverse;
        }
        row[label] = row[label] - T::ONE;
        sum.ln() + (top.to_f64() - target.to_f64())
    }
}
