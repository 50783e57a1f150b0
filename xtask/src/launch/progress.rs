//! Rank 0's iteration lines, read for the progress bar.

use indicatif::{ProgressBar, ProgressStyle};

/// `iteration 12/80 | loss 3.1234 | ...`
#[derive(Debug, PartialEq)]
pub(crate) struct Iteration<'a> {
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// What follows the first bar, which is the figures.
    pub(crate) figures: &'a str,
}

impl<'a> Iteration<'a> {
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let (head, figures) = line.trim_end().split_once('|').unwrap_or((line.trim_end(), ""));
        let (done, total) = head.strip_prefix("iteration ")?.split_once('/')?;
        Some(Self { done: done.trim().parse().ok()?, total: total.trim().parse().ok()?, figures: figures.trim() })
    }
}

pub(crate) fn bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} [{elapsed} < {eta}] {wide_msg}");
    ProgressBar::new(total).with_style(style.expect("the template is a constant"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iteration_lines_are_told_from_others() {
        assert_eq!(
            Iteration::parse("iteration 12/80 | loss 3.1234 | grad norm 0.5\n"),
            Some(Iteration { done: 12, total: 80, figures: "loss 3.1234 | grad norm 0.5" })
        );
        assert_eq!(Iteration::parse("iteration  1/9"), Some(Iteration { done: 1, total: 9, figures: "" }));
        for other in ["", "iteration", "iteration x/9 | loss 1", "iterations 5/9", "stage 1/2 | layers 3"] {
            assert_eq!(Iteration::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_bars_template_is_valid() {
        bar(3).set_position(1);
    }
}
