//! Linear layers and attention.

use super::compare::{Bench, Output};
use crate::error::Result;
use crate::layers::CausalMask;

pub(super) fn cases(bench: &mut Bench) -> Result<()> {
    // Odd sizes, a single row, and what a small model has.
    for (n, i, o) in [(7, 5, 3), (1, 33, 17), (128, 192, 576)] {
        linear(bench, n, i, o)?;
    }
    for (batch, seq, heads, head_dim) in [(2, 5, 3, 4), (1, 1, 1, 8), (3, 67, 4, 16), (1, 128, 2, 64)] {
        attention(bench, batch, seq, heads, head_dim)?;
    }
    Ok(())
}

fn linear(bench: &mut Bench, n: usize, i: usize, o: usize) -> Result<()> {
    let std = 1.0 / (i as f64).sqrt();
    bench.case(format!("rows {n}, from {i}, to {o}"), |side| {
        let (x, w, b) = (side.values(1, &[1, n, i], 1.0)?, side.values(2, &[o, i], std)?, side.values(3, &[o], 1.0)?);
        let dy = side.values(4, &[1, n, o], 1.0)?;
        let (dw, db) = (side.wide(5, &[o, i], 1.0)?, side.wide(6, &[o], 1.0)?);
        (side.set.linear_backward_weight)(&dy, &x, &dw, Some(&db))?;
        let dw_only = side.wide(7, &[o, i], 1.0)?;
        (side.set.linear_backward_weight)(&dy, &x, &dw_only, None)?;
        Ok(vec![
            Output::new("linear y", (side.set.linear)(&x, &w, Some(&b))?, 2, i),
            Output::new("linear y without bias", (side.set.linear)(&x, &w, None)?, 1, i),
            Output::new("linear dx", (side.set.linear_backward_input)(&dy, &w)?, 1, o),
            Output::new("linear dw", dw, 1, n),
            Output::new("linear dw without bias", dw_only, 1, n),
            Output::new("linear db", db, 0, n),
        ])
    })
}

fn attention(bench: &mut Bench, batch: usize, seq: usize, heads: usize, head_dim: usize) -> Result<()> {
    bench.case(format!("batch {batch}, seq {seq}, heads {heads} of {head_dim}"), |side| {
        let width = heads * head_dim;
        let qkv = side.values(1, &[batch, seq, 3 * width], 1.0)?;
        let dout = side.values(2, &[batch, seq, width], 1.0)?;
        let (out, probs) = (side.set.attention)(&qkv, heads, &CausalMask::default())?;
        let dqkv = (side.set.attention_backward)(&qkv, &probs, &dout, heads)?;
        // Scores are rounded by their product, and their exponentials have as much relative error as they have absolute: up
        // to that of a score of 4.
        Ok(vec![
            Output::new("attention out", out, 6, seq + head_dim),
            Output::new("attention probs", probs, 5, seq + head_dim),
            Output::new("attention dqkv", dqkv, 8, seq + head_dim),
        ])
    })
}
