//! How a tensor is divided among ranks.

use std::ops::Range;

use crate::message::{Boundary, Buffer, BufferError};
use crate::pieces::cut;

/// The elements of each of `n_shares` shares: one after the other, as even as possible, larger ones first.
pub(super) fn ranges(n_elements: usize, n_shares: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n_shares).map(move |share| range(n_elements, n_shares, share))
}

/// The elements of one of them.
pub(super) fn range(n_elements: usize, n_shares: usize, share: usize) -> Range<usize> {
    let (base, n_larger) = (n_elements / n_shares, n_elements % n_shares);
    let start = |share: usize| share * base + share.min(n_larger);
    start(share)..start(share + 1)
}

/// What a share of a tensor is.
pub(super) fn boundary(whole: &Boundary, n_shares: usize, share: usize) -> Result<Boundary, BufferError> {
    Boundary::new(whole.dtype(), &[range(whole.n_elements(), n_shares, share).len()])
}

/// All shares of a tensor.
pub(super) fn divide(whole: &Buffer, n_shares: usize) -> Result<Vec<Buffer>, BufferError> {
    let share = |range: Range<usize>| cut(whole, range.clone(), &[range.len()]);
    ranges(whole.boundary().n_elements(), n_shares).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_each_other_and_differ_by_one_at_most() {
        for (n_elements, n_shares) in [(0, 1), (0, 3), (2, 5), (7, 3), (9, 3), (100, 7)] {
            let ranges: Vec<Range<usize>> = ranges(n_elements, n_shares).collect();
            assert_eq!(ranges.len(), n_shares);
            assert_eq!((ranges[0].start, ranges[n_shares - 1].end), (0, n_elements));
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len() >= pair[1].len()));
            assert!(ranges[0].len() - ranges[n_shares - 1].len() <= 1);
        }
    }
}
