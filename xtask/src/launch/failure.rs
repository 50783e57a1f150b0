//! Which rank failed first, and how to say so.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// What a shell adds to a signal's number.
pub(crate) const INTERRUPTED_BASE: i32 = 128;
/// A rank or peer was lost.
const LOST: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for How {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => How::Signal(signal),
            None => How::Code(status.code().unwrap_or(1)),
        }
    }
}

/// How one rank ended.
#[derive(Debug)]
pub(crate) struct RankEnd {
    pub(crate) rank: usize,
    pub(crate) how: How,
    /// Ranks seen to have ended at the same look have the same number; later looks have higher ones.
    pub(crate) look: u64,
    /// The launcher ended it, so its end says nothing.
    pub(crate) stopped: bool,
    /// The last line on its stderr that says what went wrong.
    pub(crate) last_error: Option<String>,
}

/// The rank whose failure explains the others.
///
/// A rank that exits 3 lost a peer, so any other failure comes before it, even one that was seen a little later.
pub(crate) fn first(ends: &[RankEnd]) -> Option<&RankEnd> {
    ends.iter().filter(|end| end.failed()).min_by_key(|end| (end.only_lost_a_peer(), end.look, end.rank))
}

impl RankEnd {
    pub(crate) fn failed(&self) -> bool {
        !self.stopped && self.how != How::Code(0)
    }

    fn only_lost_a_peer(&self) -> bool {
        self.how == How::Code(LOST.into())
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self.how {
            How::Signal(_) => LOST,
            How::Code(code @ (1 | 2 | 3 | 130 | 143)) => code as u8,
            // A panic, say. The contract knows one code for it.
            How::Code(_) => 1,
        }
    }

    pub(crate) fn describe(&self, n_ranks: usize) -> String {
        let rank = self.rank;
        let others = if n_ranks > 1 { "; the other ranks were stopped" } else { "" };
        match (self.how, &self.last_error) {
            (How::Signal(signal), _) => format!("rank {rank} was killed by {}{others}", signal_name(signal)),
            (How::Code(code), Some(reason)) => format!("rank {rank} failed with exit code {code}: {reason}"),
            (How::Code(code), None) => format!("rank {rank} failed with exit code {code}{others}"),
        }
    }
}

/// The line that tells the reason: the last that starts with `error:`, else the last that is no mere hint.
pub(crate) fn error_line<'a>(lines: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let error = lines.clone().rev().find_map(as_error);
    error.or_else(|| lines.rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("note:")))
}

/// The reason in a line that starts with `error:`.
pub(crate) fn as_error(line: &str) -> Option<&str> {
    line.trim().strip_prefix("error:").map(str::trim).filter(|reason| !reason.is_empty())
}

/// `signal 9 (SIGKILL)`
pub(crate) fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(rank: usize, how: How, look: u64) -> RankEnd {
        RankEnd { rank, how, look, stopped: false, last_error: None }
    }

    fn first_of(ends: &[RankEnd]) -> Option<usize> {
        first(ends).map(|end| end.rank)
    }

    #[test]
    fn a_job_without_failures_has_no_first() {
        assert_eq!(first_of(&[end(0, How::Code(0), 1), end(1, How::Code(0), 5)]), None);
    }

    #[test]
    fn a_killed_rank_explains_those_that_lost_it() {
        let ends = [end(0, How::Code(3), 4), end(1, How::Signal(9), 4), end(2, How::Code(3), 5)];
        assert_eq!(first_of(&ends), Some(1));
    }

    #[test]
    fn the_cause_is_named_even_when_it_was_seen_later() {
        assert_eq!(first_of(&[end(0, How::Code(3), 4), end(1, How::Code(1), 9)]), Some(1));
    }

    #[test]
    fn among_equals_the_earliest_and_then_the_lowest_rank_is_first() {
        assert_eq!(first_of(&[end(0, How::Code(1), 8), end(1, How::Signal(6), 7)]), Some(1));
        assert_eq!(first_of(&[end(2, How::Code(3), 7), end(1, How::Code(3), 7)]), Some(1));
    }

    #[test]
    fn ranks_that_the_launcher_stopped_do_not_count() {
        let stopped = RankEnd { stopped: true, ..end(0, How::Signal(9), 1) };
        assert_eq!(first_of(&[stopped, end(1, How::Code(3), 2)]), Some(1));
    }

    #[test]
    fn the_last_line_names_rank_and_reason() {
        let killed = end(1, How::Signal(9), 0);
        assert_eq!(killed.describe(4), "rank 1 was killed by signal 9 (SIGKILL); the other ranks were stopped");
        assert_eq!(killed.describe(1), "rank 1 was killed by signal 9 (SIGKILL)");
        let failed = RankEnd { last_error: Some("loss is not finite".into()), ..end(2, How::Code(1), 0) };
        assert_eq!(failed.describe(4), "rank 2 failed with exit code 1: loss is not finite");
    }

    #[test]
    fn the_exit_code_is_the_ranks_own_where_the_contract_knows_it() {
        let code = |how| end(0, how, 0).exit_code();
        assert_eq!([1, 2, 3, 130].map(|c| code(How::Code(c))), [1, 2, 3, 130]);
        assert_eq!(code(How::Signal(11)), 3);
        assert_eq!(code(How::Code(101)), 1);
    }

    #[test]
    fn the_reason_is_found_among_other_lines() {
        let line = |text: &'static str| error_line(text.lines());
        assert_eq!(line("warning: slow\nerror: --pp 3: no\n"), Some("--pp 3: no"));
        assert_eq!(line("error: first\nerror: second\nbye"), Some("second"));
        assert_eq!(
            line("thread panicked\nindex out of bounds\nnote: run with RUST_BACKTRACE=1\n"),
            Some("index out of bounds")
        );
        assert_eq!(line("\n"), None);
    }
}
