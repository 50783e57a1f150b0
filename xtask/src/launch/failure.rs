//! How a job ended that did not end well: which rank failed first, and how to say so.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// What a shell adds to a signal's number.
const INTERRUPTED_BASE: i32 = 128;
/// Bad arguments, or a configuration that cannot run.
const REFUSED: u8 = 2;
/// A rank or peer was lost.
const LOST: u8 = 3;

/// An end with an exit code of its own. Any other error is a plain failure, which is 1.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: u8,
    pub(crate) reason: String,
}

impl Ended {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self { code: REFUSED, reason: reason.into() }
    }

    pub(crate) fn interrupted(signal: i32, when: &str) -> Self {
        let code = u8::try_from(INTERRUPTED_BASE + signal).unwrap_or(1);
        Self { code, reason: format!("interrupted by {}{when}", signal_name(signal)) }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Ended {}

/// The words of a message on one line.
pub(crate) fn on_one_line(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

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

/// Whom the ranks' records name for a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Culprit {
    pub(crate) rank: usize,
    pub(crate) what: What,
    pub(crate) summary: String,
}

/// As what the records name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Its process was killed, or failed by itself.
    Ended,
    /// Its process stood still.
    Froze,
    /// It made others fail: by a message, or by letting them wait.
    Other,
}

/// What a failure can be the cause of: each kind may bring about those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Killed by a signal.
    Killed,
    /// Failed by itself.
    Failed,
    /// Heard that the rank that its line names stands still: such a rank says nothing itself, and others may wait for it in
    /// vain before that is noticed.
    SawFrozen(usize),
    /// Waited in vain for another rank, which may be stuck and never fail.
    Waited,
    /// Lost a peer, and does not say which.
    Lost,
    /// Lost the peer that its line names.
    LostPeer(usize),
}

/// The rank whose failure explains the others: by the kind of its failure, then by when it was seen.
///
/// When all of them only lost another, the one to be named is the one that the others lost.
pub(crate) fn first(ends: &[RankEnd]) -> Option<&RankEnd> {
    let failed: Vec<&RankEnd> = ends.iter().filter(|end| end.failed()).collect();
    let mut path = vec![*failed.iter().min_by_key(|end| (end.kind().order(), end.look, end.rank))?];
    while let Some(Kind::LostPeer(peer)) = path.last().map(|end| end.kind()) {
        // They may name each other in a ring, of which the earliest is as good as any.
        if let Some(at) = path.iter().position(|end| end.rank == peer) {
            return path[at..].iter().copied().min_by_key(|end| (end.look, end.rank));
        }
        match failed.iter().find(|end| end.rank == peer) {
            Some(lost) => path.push(lost),
            None => break,
        }
    }
    path.pop()
}

impl Kind {
    fn order(self) -> u8 {
        match self {
            Self::Killed => 0,
            Self::Failed => 1,
            Self::SawFrozen(_) => 2,
            Self::Waited => 3,
            Self::Lost => 4,
            Self::LostPeer(_) => 5,
        }
    }

    /// By the reason that a rank gave which exited with [`LOST`].
    fn of_loss(reason: &str) -> Self {
        // What a lost peer reports may be that it waited; so this comes first.
        if let Some(peer) = lost_peer(reason) {
            let is_frozen = reason.contains("no heartbeat");
            return if is_frozen { Self::SawFrozen(peer) } else { Self::LostPeer(peer) };
        }
        let waited = ["did not complete within", "did not arrive", "was written to", "had not all left"];
        if waited.iter().any(|text| reason.contains(text)) { Self::Waited } else { Self::Lost }
    }
}

/// `... rank 2 is lost: ...` names 2.
fn lost_peer(reason: &str) -> Option<usize> {
    let (before, _) = reason.split_once(" is lost")?;
    let (before, number) = before.rsplit_once(' ')?;
    before.ends_with("rank").then(|| number.parse().ok()).flatten()
}

impl RankEnd {
    pub(crate) fn failed(&self) -> bool {
        !self.stopped && self.how != How::Code(0)
    }

    fn kind(&self) -> Kind {
        match self.how {
            How::Signal(_) => Kind::Killed,
            How::Code(code) if code == i32::from(LOST) => self.last_error.as_deref().map_or(Kind::Lost, Kind::of_loss),
            How::Code(_) => Kind::Failed,
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self.how {
            How::Signal(_) => LOST,
            How::Code(code @ (1 | 2 | 3 | 129 | 130 | 131 | 143)) => code as u8,
            // A panic, say. The contract knows one code for it.
            How::Code(_) => 1,
        }
    }

    /// It refused its arguments or its configuration.
    pub(crate) fn refused(&self) -> bool {
        self.how == How::Code(i32::from(REFUSED))
    }

    /// What the last line says: whom the records name for the failure comes first, if that is another than this end names.
    pub(crate) fn describe_with(&self, culprit: Option<&Culprit>, n_ranks: usize) -> String {
        let own = self.describe(n_ranks);
        let agrees = |culprit: &Culprit| match culprit.what {
            What::Ended => culprit.rank == self.rank,
            What::Froze => self.kind() == Kind::SawFrozen(culprit.rank),
            What::Other => false,
        };
        match culprit {
            Some(culprit) if !agrees(culprit) => format!("{}; {own}", on_one_line(&culprit.summary)),
            _ => own,
        }
    }

    pub(crate) fn describe(&self, n_ranks: usize) -> String {
        let rank = self.rank;
        let others = if n_ranks > 1 { "; the other ranks were stopped" } else { "" };
        if let (Kind::SawFrozen(frozen), Some(reason)) = (self.kind(), &self.last_error) {
            return format!("rank {frozen} froze and the other ranks were stopped; rank {rank} said: {reason}");
        }
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

    /// The rank that is named for ranks that exit 3 with these lines, all seen at once; none for no line of its own.
    fn first_by_lines(lines: &[(usize, Option<&str>)]) -> Option<usize> {
        let lost = |&(rank, line): &(usize, Option<&str>)| RankEnd {
            last_error: line.map(str::to_owned),
            ..end(rank, How::Code(3), 1)
        };
        first_of(&lines.iter().map(lost).collect::<Vec<_>>())
    }

    const DEADLINE: Option<&str> =
        Some("rank 2, step 4, action 7 (wait): the receive from rank 3 of B0 did not complete within 5s");
    const MISSING: Option<&str> = Some("rank 3 of 4 did not arrive within 5s");
    const BARRIER: Option<&str> = Some("barrier 3 did not complete within 5s: rank 3 did not arrive");
    const TOLD: Option<&str> = Some("rank 2 is lost: it says that the send did not complete within 5s");

    #[test]
    fn a_rank_that_waited_in_vain_comes_before_those_that_lost_it() {
        for waited in [DEADLINE, MISSING, BARRIER] {
            let lines = [(0, Some("rank 1 is lost: gone")), (1, TOLD), (2, waited)];
            assert_eq!(first_by_lines(&lines), Some(2), "{waited:?}");
        }
        assert_eq!(first_by_lines(&[(0, None), (1, DEADLINE)]), Some(1));
        assert_eq!(first_by_lines(&[(0, TOLD), (1, None)]), Some(1));
    }

    #[test]
    fn a_frozen_rank_is_named_though_another_waited_in_vain() {
        let frozen =
            Some("rank 0, step 4, action 7 (wait): rank 3 is lost: no heartbeat for 2.0s: its process is frozen");
        for (lines, seen_by) in
            [(vec![(0, frozen), (2, DEADLINE)], 0), (vec![(0, TOLD), (1, frozen), (2, DEADLINE)], 1)]
        {
            assert_eq!(first_by_lines(&lines), Some(seen_by));
        }
        let end = RankEnd { last_error: frozen.map(str::to_owned), ..end(0, How::Code(3), 1) };
        let said = end.describe(4);
        assert!(said.starts_with("rank 3 froze") && said.contains("no heartbeat for 2.0s"), "{said}");
    }

    #[test]
    fn when_all_have_only_lost_another_the_one_that_they_lost_is_named() {
        let lost = ["rank 0 is lost", "rank 1 is lost", "step 3: rank 2 is lost: closed", "rank 3 is lost"].map(Some);
        let cases = [
            (vec![(0, lost[1]), (1, lost[2]), (2, lost[3])], 2),
            (vec![(0, lost[2]), (1, lost[2]), (2, lost[1])], 1),
            (vec![(0, lost[1]), (1, lost[2])], 1),
            (vec![(2, lost[3]), (3, lost[2])], 2),
            (vec![(1, lost[1])], 1),
        ];
        for (lines, expected) in cases {
            assert_eq!(first_by_lines(&lines), Some(expected), "{lines:?}");
        }
        // Of another kind is named first, whenever it was seen.
        let ends =
            [RankEnd { last_error: lost[1].map(str::to_owned), ..end(0, How::Code(3), 1) }, end(2, How::Code(2), 9)];
        assert_eq!(first_of(&ends), Some(2));
    }

    #[test]
    fn kinds_come_in_the_order_in_which_they_bring_about_each_other() {
        assert_eq!(first_of(&[end(0, How::Code(1), 1), end(1, How::Signal(9), 2), end(2, How::Code(2), 1)]), Some(1));
        assert_eq!(first_of(&[end(0, How::Code(3), 1), end(1, How::Code(101), 2)]), Some(1));
    }

    #[test]
    fn lost_peers_are_read_from_lines() {
        assert_eq!(lost_peer("rank 0, step 1, action 2 (x): rank 12 is lost: gone"), Some(12));
        for other in ["rank x is lost", "the rank is lost", "rank 1 was lost", " is lost", ""] {
            assert_eq!(lost_peer(other), None, "{other}");
        }
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
    fn whom_the_records_name_stands_in_the_last_line() {
        let culprit = |rank, what| Culprit { rank, what, summary: format!("rank {rank} is slow") };
        let waited = RankEnd { last_error: Some("it did not arrive".into()), ..end(0, How::Code(3), 0) };
        let said = waited.describe_with(Some(&culprit(2, What::Other)), 4);
        assert_eq!(said, "rank 2 is slow; rank 0 failed with exit code 3: it did not arrive");
        assert_eq!(waited.describe_with(None, 4), "rank 0 failed with exit code 3: it did not arrive");
        let killed = end(1, How::Signal(9), 0);
        assert_eq!(killed.describe_with(Some(&culprit(1, What::Ended)), 4), killed.describe(4));
        assert!(
            killed.describe_with(Some(&culprit(2, What::Ended)), 4).starts_with("rank 2 is slow; rank 1 was killed")
        );
        let frozen = RankEnd { last_error: Some("rank 3 is lost: no heartbeat for 2s".into()), ..waited };
        assert_eq!(frozen.describe_with(Some(&culprit(3, What::Froze)), 4), frozen.describe(4));
        assert!(frozen.describe_with(Some(&culprit(1, What::Froze)), 4).starts_with("rank 1 is slow; rank 3 froze"));
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
