//! What went wrong, by the ranks' records: which rank, which action, and what shows it.
//!
//! A rank that was killed leaves no record; one that failed by itself says so; and where all only waited, the waits are
//! followed from rank to rank to where they come from. What the records do not tell is said to be unknown.

mod follow;
mod hearsay;
mod message;
#[cfg(test)]
mod tests;
mod text;
mod view;

use serde::Serialize;

use super::cause::Cause;
use super::read::Records;
use super::record::RankRecord;
use follow::{Origin, follow};
use hearsay::{Word, word};
use view::{Silence, View, at_action, at_text, end_of, wait_of};

/// What it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// A rank's process ended without a word: killed.
    Killed,
    /// A rank's process stood still.
    Frozen,
    /// A rank left no record and did not end by itself: it stood still.
    Gone,
    /// A rank failed by itself: a computation, a panic, a file.
    Failed,
    /// A message was sent and never arrived.
    Lost,
    /// A message was waited for that was never sent, or sent for nobody.
    NeverPosted,
    /// A message arrived twice.
    Duplicated,
    /// A message had another shape than agreed.
    WrongShape,
    /// A message had another element type than agreed.
    WrongType,
    /// Bytes arrived that are no message.
    Malformed,
    /// A message was under way for too long.
    HeldUp,
    /// Ranks waited for each other.
    Circle,
    /// All waited for a rank that waited for nobody.
    Slow,
    /// Ranks asked for different collectives.
    Disagreed,
    /// The records do not say.
    Unknown,
}

/// What a rank was at when the run failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocked {
    /// The rank.
    pub rank: u32,
    /// The step, where what it was at belongs to one.
    pub step: Option<u64>,
    /// The action of its program.
    pub action: Option<u32>,
    /// The rank it waited for, if it was one.
    pub peer: Option<u32>,
    /// In words.
    pub text: String,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What it was.
    pub verdict: Verdict,
    /// The rank it came from, if it is one.
    pub rank: Option<u32>,
    /// The step.
    pub step: Option<u64>,
    /// The action of that rank's program.
    pub action: Option<u32>,
    /// In a sentence.
    pub summary: String,
    /// What shows it.
    pub evidence: Vec<String>,
    /// What each rank was at that has left a record.
    pub ranks: Vec<Blocked>,
    /// Ranks without a record that can be read.
    pub missing: Vec<u32>,
    /// Those of them that have left one all the same.
    pub unreadable: Vec<u32>,
    /// Files that could not be used, and why.
    pub problems: Vec<String>,
}

impl Explanation {
    /// Whether the records tell what it was.
    pub fn is_known(&self) -> bool {
        self.verdict != Verdict::Unknown
    }
}

/// What was found, before it is laid out.
struct Finding {
    verdict: Verdict,
    rank: Option<u32>,
    step: Option<u64>,
    action: Option<u32>,
    summary: String,
    evidence: Vec<String>,
}

impl Finding {
    fn new(verdict: Verdict, rank: u32, summary: String) -> Self {
        Self { verdict, rank: Some(rank), step: None, action: None, summary, evidence: Vec::new() }
    }

    fn at(self, step: Option<u64>, action: Option<u32>) -> Self {
        Self { step, action, ..self }
    }
}

/// Finds what went wrong.
pub fn explain(records: &Records) -> Explanation {
    let stand_ins = hearsay::stand_ins(records);
    let view = View { records, stand_ins: &stand_ins };
    let mut found = killed(view)
        .or_else(|| first_hand(view))
        .or_else(|| lost_without_word(view))
        .or_else(|| by_waits(view))
        .unwrap_or_else(|| unknown(view));
    found.evidence.extend(stand_ins.values().map(|told| {
        format!("rank {} told the others of its failure, without which nothing is known of it: {}", told.rank, told.why)
    }));
    let ranks = records.ranks.values().map(|record| {
        let wait = wait_of(record);
        let at = wait.or(record.within.last());
        Blocked {
            rank: record.rank,
            step: at.and_then(|event| event.step),
            action: record.action,
            peer: wait.and_then(|event| event.peer),
            text: at_text(record),
        }
    });
    let Finding { verdict, rank, step, action, summary, evidence } = found;
    Explanation {
        verdict,
        rank,
        step,
        action,
        summary,
        evidence,
        ranks: ranks.collect(),
        missing: records.missing().collect(),
        unreadable: records.unreadable.iter().copied().collect(),
        problems: records.problems.clone(),
    }
}

/// A rank that whoever started it saw killed: nothing comes before that.
fn killed(view: View<'_>) -> Option<Finding> {
    let killed: Vec<(u32, &String)> =
        view.records.ends.iter().filter_map(|end| Some((end.rank, end.killed_by.as_ref()?))).collect();
    // Of several, the one that the others have lost.
    let lost = lost_ranks(view);
    let most_lost = |(rank, _): &&(u32, &String)| lost.iter().filter(|(lost, _)| lost == rank).count();
    let &(rank, signal) = killed.iter().rev().max_by_key(most_lost)?;
    Some(without_record(view, Verdict::Killed, rank, format!("rank {rank} was killed by {signal}")))
}

/// The earliest failure that is a rank's own, or that of a message it got.
fn first_hand(view: View<'_>) -> Option<Finding> {
    let own = view.all().filter(|record| record.cause.is_first_hand());
    let first = own.min_by_key(|record| record.at.unix_us)?;
    Some(message::fault(view, first).unwrap_or_else(|| {
        let at = first.within.last();
        let said = format!("rank {} failed{}: {}", first.rank, at_action(first.action), first.why);
        let step = at.or(first.events.last()).and_then(|event| event.step);
        Finding::new(Verdict::Failed, first.rank, said).at(step, first.action)
    }))
}

/// Ranks that others have lost, each with how that showed.
fn lost_ranks(view: View<'_>) -> Vec<(u32, &str)> {
    let lost = view.records.ranks.values().filter_map(|record| match &record.cause {
        Cause::Lost { rank, reason } => Some((*rank, reason.as_str())),
        _ => None,
    });
    lost.collect()
}

/// The rank that was lost, if it stood still or has left no record and no word to say more.
fn lost_without_word(view: View<'_>) -> Option<Finding> {
    let lost = lost_ranks(view);
    let is = |reason: &str, expected| word(reason, view.records) == expected;
    if let Some((rank, reason)) = lost.iter().find(|(_, reason)| is(reason, Word::Frozen)) {
        return Some(without_record(view, Verdict::Frozen, *rank, format!("rank {rank} froze: {reason}")));
    }
    // A process that is seen to end by itself, or that has written a record, is none that was killed.
    let is_silent = |(rank, reason): &&(u32, &str)| {
        view.record(*rank).is_none() && is(reason, Word::Cut) && view.silence(*rank) == Silence::Unknown
    };
    let n_named = |&&(rank, _): &&(u32, &str)| lost.iter().filter(|(other, _)| *other == rank).count();
    let (rank, reason) = lost.iter().rev().filter(is_silent).max_by_key(n_named)?;
    let said = format!("rank {rank} ended without a word, as one does that is killed: {reason}");
    Some(without_record(view, Verdict::Killed, *rank, said))
}

/// A finding about a rank that says nothing itself: what others know of it.
fn without_record(view: View<'_>, verdict: Verdict, rank: u32, summary: String) -> Finding {
    let mut evidence = view.last_known(rank);
    let others = view.records.ranks.values().filter(|record| record.rank != rank);
    let waiting = others.filter_map(|record| {
        let wait = wait_of(record)?;
        let waits_for_it = wait.peer == Some(rank)
            || (end_of(wait).is_none()
                && matches!(follow(view, record.rank), Origin::StoodStill { rank: of } | Origin::Unheard { rank: of } if of == rank));
        waits_for_it.then(|| format!("rank {} {}", record.rank, at_text(record)))
    });
    evidence.extend(waiting);
    Finding { evidence, ..Finding::new(verdict, rank, summary) }
}

/// Where all only waited: where the waiting comes from.
fn by_waits(view: View<'_>) -> Option<Finding> {
    let records = || view.all();
    let has_waited_in_vain = |record: &&RankRecord| {
        matches!(record.cause, Cause::TransferDeadline { .. } | Cause::CollectiveDeadline { .. })
    };
    let mut starts: Vec<u32> = records().filter(has_waited_in_vain).map(|record| record.rank).collect();
    if starts.is_empty() {
        // Ranks that heard of a loss; the lost one may have written a record all the same.
        starts = lost_ranks(view).into_iter().map(|(rank, _)| rank).collect();
        starts.extend(records().map(|record| record.rank));
    }
    let origin = starts.iter().map(|&rank| follow(view, rank)).min_by_key(Origin::order)?;
    match origin {
        Origin::StoodStill { rank } => {
            let said = format!("rank {rank} stood still: it left no record, and did not end by itself");
            Some(without_record(view, Verdict::Gone, rank, said))
        }
        Origin::Busy { rank } => slow(view, rank),
        Origin::Circle { ranks } => Some(circle(view, &ranks)),
        Origin::Unheard { rank } => Some(unheard(view, rank)),
        Origin::Unclear => None,
        origin => message::of_origin(view, &origin),
    }
}

/// A rank that the others wait for, and that waits for nobody.
fn slow(view: View<'_>, rank: u32) -> Option<Finding> {
    let record = view.record(rank)?;
    let waiting = view.all().filter(|other| other.rank != rank && wait_of(other).is_some());
    let evidence: Vec<String> = waiting.map(|other| format!("rank {} {}", other.rank, at_text(other))).collect();
    if evidence.is_empty() {
        return None;
    }
    let said = format!("rank {rank} is slow or stuck: the others waited for it, and it {}", at_text(record));
    let step = record.within.last().or(record.events.last()).and_then(|event| event.step);
    Some(Finding { evidence, ..Finding::new(Verdict::Slow, rank, said).at(step, record.action) })
}

/// Ranks that wait for each other.
fn circle(view: View<'_>, ranks: &[u32]) -> Finding {
    let names: Vec<String> = ranks.iter().chain(ranks.first()).map(|rank| format!("rank {rank}")).collect();
    let records = || ranks.iter().filter_map(|&rank| view.record(rank));
    let evidence = records().map(|record| format!("rank {} {}", record.rank, at_text(record))).collect();
    let first = records().next();
    let step = first.and_then(wait_of).and_then(|wait| wait.step);
    let said = format!("the ranks waited for each other in a circle: {}", names.join(" -> "));
    Finding {
        verdict: Verdict::Circle,
        rank: ranks.first().copied(),
        step,
        action: first.and_then(|record| record.action),
        summary: said,
        evidence,
    }
}

/// All waited, in the end, for a rank of which nothing is known.
fn unheard(view: View<'_>, rank: u32) -> Finding {
    let said =
        format!("the others waited for rank {rank}, and {}: the records do not tell why", silence_text(view, rank));
    Finding { rank: None, ..without_record(view, Verdict::Unknown, rank, said) }
}

/// Why nothing is known of a rank, as far as that is known.
fn silence_text(view: View<'_>, rank: u32) -> String {
    let code = view.records.ends.iter().find(|end| end.rank == rank).and_then(|end| end.code);
    match (view.records.unreadable.contains(&rank), code) {
        (true, _) => "its record cannot be read".to_owned(),
        (false, Some(code)) => format!("its record is missing, though it ended by itself with exit code {code}"),
        (false, None) if view.silence(rank) == Silence::NoRecord => {
            "its record is missing, though it was not killed".to_owned()
        }
        (false, None) => "its record is missing: it was killed, stood still, or its record is elsewhere".to_owned(),
    }
}

fn unknown(view: View<'_>) -> Finding {
    let missing = view.records.missing().find(|&rank| view.record(rank).is_none());
    let evidence =
        view.records.ranks.values().map(|record| format!("rank {} wrote: {}", record.rank, record.why)).collect();
    let summary = missing.map_or_else(
        || "the records do not tell what went wrong".to_owned(),
        |rank| format!("the records do not tell what went wrong; of rank {rank}, {}", silence_text(view, rank)),
    );
    Finding { verdict: Verdict::Unknown, rank: None, step: None, action: None, summary, evidence }
}
