//! What goes by rows: norm, embedding, loss.

use pp_kernels::loss::IGNORE;

use super::compare::{Bench, Output};
use crate::error::Result;
use crate::ops::Number;

pub(super) fn cases(bench: &mut Bench) -> Result<()> {
    for (n, h) in [(6, 5), (1, 768), (130, 192)] {
        layer_norm(bench, n, h)?;
    }
    for (batch, seq, positions, vocab, h) in [(2, 3, 5, 7, 4), (1, 1, 1, 2, 3), (4, 32, 32, 300, 96)] {
        embedding(bench, batch, seq, positions, vocab, h)?;
    }
    for (n, vocab) in [(5, 7), (1, 2), (66, 1111)] {
        cross_entropy(bench, n, vocab)?;
    }
    Ok(())
}

fn layer_norm(bench: &mut Bench, n: usize, h: usize) -> Result<()> {
    bench.case(format!("rows {n}, width {h}"), |side| {
        let (x, dy) = (side.values(1, &[n, h], 3.0)?, side.values(2, &[n, h], 1.0)?);
        let (gamma, beta) = (side.values(3, &[h], 1.0)?, side.values(4, &[h], 1.0)?);
        let (dgamma, dbeta) = (side.wide(5, &[h], 1.0)?, side.wide(6, &[h], 1.0)?);
        let (y, stats) = (side.set.layer_norm)(&x, &gamma, &beta, 1e-5)?;
        let dx = (side.set.layer_norm_backward_input)(&dy, &x, &gamma, &stats)?;
        (side.set.layer_norm_backward_weight)(&dy, &x, &stats, &dgamma, &dbeta)?;
        Ok(vec![
            Output::new("layer norm y", y, 1, h),
            Output::new("layer norm mean", stats.mean, 0, h),
            Output::new("layer norm rstd", stats.rstd, 0, h),
            Output::new("layer norm dx", dx, 1, h),
            Output::new("layer norm dgamma", dgamma, 0, n + h),
            Output::new("layer norm dbeta", dbeta, 0, n),
        ])
    })
}

fn embedding(bench: &mut Bench, batch: usize, seq: usize, positions: usize, vocab: usize, h: usize) -> Result<()> {
    bench.case(format!("batch {batch}, seq {seq} of {positions}, vocab {vocab}, width {h}"), |side| {
        let (wte, wpe) = (side.values(1, &[vocab, h], 1.0)?, side.values(2, &[positions, h], 1.0)?);
        let (dwte, dwpe) = (side.wide(3, &[vocab, h], 1.0)?, side.wide(4, &[positions, h], 1.0)?);
        let dy = side.values(5, &[batch, seq, h], 1.0)?;
        let tokens = side.tokens(side.below(6, batch * seq, vocab))?;
        let y = (side.set.embedding)(&tokens, seq, &wte, &wpe)?;
        (side.set.embedding_backward)(&tokens, &dy, &dwte, &dwpe)?;
        Ok(vec![
            Output::new("embedding y", y, 1, 1),
            Output::new("embedding dwte", dwte, 0, batch * seq),
            Output::new("embedding dwpe", dwpe, 0, batch),
        ])
    })
}

/// With labels that are ignored, and with none that is not.
fn cross_entropy(bench: &mut Bench, n: usize, vocab: usize) -> Result<()> {
    for all_ignored in [false, true] {
        let ignored = if all_ignored { ", all ignored" } else { "" };
        bench.case(format!("rows {n}, vocab {vocab}{ignored}"), |side| {
            let logits = side.values(1, &[1, n, vocab], 3.0)?;
            let ignore = |row: usize| all_ignored || row % 5 == 3;
            let labels = side.below(2, n, vocab).into_iter().enumerate();
            let labels = labels.map(|(row, label)| if ignore(row) { IGNORE } else { i64::from(label) }).collect();
            let labels = side.labels(labels)?;
            let loss = (side.set.cross_entropy)(&logits, &labels)?;
            let trained = (side.set.cross_entropy_in_place)(&logits, &labels)?;
            let count = |count: u64| Number::Here(count as f64);
            let counts = side.numbers(&[&count(loss.count), &count(trained.count)])?;
            Ok(vec![
                Output::new("cross-entropy sum", side.numbers(&[&loss.sum, &trained.sum])?, 0, n + vocab),
                Output::new("cross-entropy count", counts, 0, 1),
                Output::new("cross-entropy dlogits", logits, 1, vocab),
            ])
        })?;
    }
    Ok(())
}
