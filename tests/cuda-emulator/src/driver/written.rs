//! Which bytes of an allocation were ever written.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges, none touching the next: each begin with its end.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<usize, usize>);

impl Written {
    /// These too.
    pub(super) fn add(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&begin, &last)) = self.0.range(..=end).next_back()
            && last >= start
        {
            start = start.min(begin);
            end = end.max(last);
            self.0.remove(&begin);
        }
        self.0.insert(start, end);
    }

    /// The first byte of a range that never was.
    pub(super) fn first_missing(&self, range: &Range<usize>) -> Option<usize> {
        let mut at = range.start;
        while at < range.end {
            match self.0.range(..=at).next_back() {
                Some((_, &last)) if last > at => at = last,
                _ => return Some(at),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_ranges_is_as_a_byte_map() {
        let ranges: Vec<_> = (0..7).flat_map(|a| (a..7).map(move |b| a..b)).collect();
        for first in &ranges {
            for second in &ranges {
                for third in &ranges {
                    let mut written = Written::default();
                    let mut bytes = [false; 7];
                    for range in [first, second, third] {
                        written.add(range.clone());
                        bytes[range.clone()].fill(true);
                    }
                    for asked in &ranges {
                        let missing = asked.clone().find(|&i| !bytes[i]);
                        assert_eq!(written.first_missing(asked), missing, "{first:?} {second:?} {third:?} {asked:?}");
                    }
                    let (mut ends, n) = (written.0.iter(), written.0.len());
                    assert!(n < 2 || ends.next().unwrap().1 < ends.next().unwrap().0);
                }
            }
        }
    }
}
