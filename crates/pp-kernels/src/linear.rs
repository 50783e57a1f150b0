//! The linear layer `y = x wᵀ + b`: `x` `[n, i]`, `w` `[o, i]`, `b` `[o]`, `y` `[n, o]`.

use rayon::prelude::*;

use crate::matmul::{MatMut, MatRef, Threading, matmul};
use crate::par::{self, COLUMNS, check_len};
use crate::real::Real;
use crate::simd::vectorized;

/// `y = x wᵀ + b`; without a bias `y = x wᵀ`. Overwrites `y`.
///
/// # Panics
/// When a length does not match `n`, `i`, `o`.
pub fn forward<T: Real>(x: &[T], w: &[T], bias: Option<&[T]>, y: &mut [T], n: usize, i: usize, o: usize) {
    check_len("x", x.len(), n * i, "[n, i]");
    check_len("w", w.len(), o * i, "[o, i]");
    check_len("y", y.len(), n * o, "[n, o]");
    if let Some(bias) = bias {
        check_len("bias", bias.len(), o, "[o]");
        for row in y.chunks_exact_mut(o.max(1)) {
            row.copy_from_slice(bias);
        }
    }
    let w = MatRef::new(w, o, i, i).transposed();
    let x = MatRef::new(x, n, i, i);
    matmul(MatMut::new(y, n, o, o), bias.is_some(), T::ONE, x, w, Threading::Pool);
}

/// `dx = dy w`. Overwrites `dx` `[n, i]`.
///
/// # Panics
/// When a length does not match `n`, `i`, `o`.
pub fn backward_input<T: Real>(dy: &[T], w: &[T], dx: &mut [T], n: usize, i: usize, o: usize) {
    check_len("dy", dy.len(), n * o, "[n, o]");
    check_len("w", w.len(), o * i, "[o, i]");
    check_len("dx", dx.len(), n * i, "[n, i]");
    matmul(MatMut::new(dx, n, i, i), false, T::ONE, MatRef::new(dy, n, o, o), MatRef::new(w, o, i, i), Threading::Pool);
}

/// `dw += dyᵀ x`. Accumulates into `dw` `[o, i]`.
///
/// # Panics
/// When a length does not match `n`, `i`, `o`.
pub fn backward_weight<T: Real>(dy: &[T], x: &[T], dw: &mut [T], n: usize, i: usize, o: usize) {
    check_len("dy", dy.len(), n * o, "[n, o]");
    check_len("x", x.len(), n * i, "[n, i]");
    check_len("dw", dw.len(), o * i, "[o, i]");
    matmul(
        MatMut::new(dw, o, i, i),
        true,
        T::ONE,
        MatRef::new(dy, n, o, o).transposed(),
        MatRef::new(x, n, i, i),
        Threading::Pool,
    );
}

/// `db += ` the sum of the rows of `dy` `[n, o]`. Accumulates into `db` `[o]`.
///
/// # Panics
/// When a length does not match `n`, `o`.
pub fn backward_bias<T: Real>(dy: &[T], db: &mut [T], n: usize, o: usize) {
    check_len("dy", dy.len(), n * o, "[n, o]");
    check_len("db", db.len(), o, "[o]");
    if par::pays(n * o) {
        let tasks = db.par_chunks_mut(COLUMNS).enumerate();
        tasks.for_each(|(task, db)| add_column_sums(dy, task * COLUMNS, o, db));
    } else {
        for (task, db) in db.chunks_mut(COLUMNS).enumerate() {
            add_column_sums(dy, task * COLUMNS, o, db);
        }
    }
}

vectorized! {
    /// Adds to `db` the sums of `db.len() <= COLUMNS` columns of `dy` from `first` on, four rows at
    /// a time.
    fn add_column_sums<'a, T: Real>[_](dy: &'a [T], first: usize, o: usize, db: &'a mut [T]) {
        let width = db.len();
        let mut sums = [T::ZERO; COLUMNS];
        let mut groups = dy.chunks_exact(4 * o);
        for group in &mut groups {
            let row = |r: usize| &group[r * o + first..][..width];
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            for (j, sum) in sums[..width].iter_mut().enumerate() {
                *sum = *sum + ((a[j] + b[j]) + (c[j] + d[j]));
            }
        }
        for row in groups.remainder().chunks_exact(o) {
            for (sum, &x) in sums.iter_mut().zip(&row[first..][..width]) {
                *sum = *sum + x;
            }
        }
        for (db, sum) in db.iter_mut().zip(sums) {
            *db = *db + sum;
        }
    }
}
