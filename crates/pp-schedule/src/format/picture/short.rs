//! How long a short computation is: what a drawing has to leave room for.

use crate::simulate::Span;

/// Of ten computations that take time, nine take as long or longer, in ticks. `None` without any.
pub(in crate::format) fn short_span(rows: &[Vec<Span>]) -> Option<f64> {
    let lengths = rows.iter().flatten().map(|span| span.end - span.start);
    let mut lengths: Vec<u64> = lengths.filter(|length| *length > 0).collect();
    let at = lengths.len() / 10;
    (!lengths.is_empty()).then(|| *lengths.select_nth_unstable(at).1 as f64)
}
