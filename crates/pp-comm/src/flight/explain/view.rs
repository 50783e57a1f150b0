//! Questions that the ranks' records answer: what became of a transfer, what a rank was at, what was last known of it.

use std::collections::BTreeMap;

use crate::flight::parts::{ChannelPart, LabelPart, RoleName, StateName, SubjectPart};
use crate::flight::read::Records;
use crate::flight::record::{EventRecord, RankRecord};

/// One end of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) role: RoleName,
    pub(super) channel: ChannelPart,
    pub(super) label: LabelPart,
}

impl End {
    /// The rank it is at.
    pub(super) const fn rank(self) -> u32 {
        match self.role {
            RoleName::Send => self.channel.source,
            RoleName::Receive => self.channel.destination,
        }
    }

    pub(super) const fn other(self) -> Self {
        let role = match self.role {
            RoleName::Send => RoleName::Receive,
            RoleName::Receive => RoleName::Send,
        };
        Self { role, ..self }
    }

    fn is(self, subject: &SubjectPart) -> bool {
        matches!(subject, SubjectPart::Transfer { role, channel, label }
            if (*role, *channel, *label) == (self.role, self.channel, self.label))
    }
}

/// What a rank's record says of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate<'a> {
    /// The rank has left no record.
    NoRecord,
    /// It was posted, and is not known to be complete.
    Posted(&'a EventRecord),
    /// It is complete.
    Done(&'a EventRecord),
    /// It was not posted, and the rank is not past it.
    NotYet,
    /// It was not posted, though the rank is past the place where it would have been.
    Skipped,
    /// It is not among the events that were kept, and may have been before them.
    Forgotten,
}

/// The records, as they are asked.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) records: &'a Records,
    /// In the place of records that are missing, by what the others were told.
    pub(super) stand_ins: &'a BTreeMap<u32, RankRecord>,
}

/// What is known of a rank that has left no record that can be read, and of which others were told nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// It did not end by itself, and whoever started it had to stop it.
    StoodStill,
    /// It ended by itself, or has written a record; that is missing or cannot be read.
    NoRecord,
    /// Nothing.
    Unknown,
}

impl<'a> View<'a> {
    pub(super) fn record(self, rank: u32) -> Option<&'a RankRecord> {
        self.records.ranks.get(&rank).or_else(|| self.stand_ins.get(&rank))
    }

    /// All records, stand-ins last.
    pub(super) fn all(self) -> impl Iterator<Item = &'a RankRecord> {
        self.records.ranks.values().chain(self.stand_ins.values())
    }

    pub(super) fn is_stand_in(self, rank: u32) -> bool {
        self.stand_ins.contains_key(&rank)
    }

    pub(super) fn silence(self, rank: u32) -> Silence {
        if self.records.unreadable.contains(&rank) {
            return Silence::NoRecord;
        }
        match self.records.ends.iter().find(|end| end.rank == rank) {
            Some(end) if end.stopped => Silence::StoodStill,
            Some(end) if end.killed_by.is_none() => Silence::NoRecord,
            _ => Silence::Unknown,
        }
    }

    /// What the rank at an end of a message's way has of it.
    pub(super) fn fate(self, end: End) -> Fate<'a> {
        let Some(record) = self.records.ranks.get(&end.rank()) else { return Fate::NoRecord };
        let events = || record.events.iter().rev().filter(|event| end.is(&event.subject));
        if let Some(done) = events().find(|event| event.state == StateName::Done) {
            return Fate::Done(done);
        }
        // The oldest: when it was posted.
        if let Some(posted) = events().next_back() {
            return Fate::Posted(posted);
        }
        let steps = || record.events.iter().filter_map(|event| event.step);
        let Some(step) = end.label.step() else {
            return if record.n_forgotten == 0 { Fate::NotYet } else { Fate::Forgotten };
        };
        // What is kept begins within the step or after it.
        if record.n_forgotten > 0 && steps().min().is_none_or(|first| first >= step) {
            return Fate::Forgotten;
        }
        let is_over = record.action.is_none() && steps().any(|at| at == step);
        if is_over || steps().any(|at| at > step) { Fate::Skipped } else { Fate::NotYet }
    }

    /// Where among its rank's events an end of a message's way first stands.
    pub(super) fn place(self, end: End) -> Option<usize> {
        self.record(end.rank())?.events.iter().position(|event| end.is(&event.subject))
    }

    /// How often an end of a message's way is complete.
    pub(super) fn n_done(self, end: End) -> usize {
        let events = self.record(end.rank()).map_or(&[][..], |record| &record.events);
        events.iter().filter(|event| event.state == StateName::Done && end.is(&event.subject)).count()
    }

    /// The ranks that a collective of all ranks waits for.
    pub(super) fn absent(self, round: u64) -> Vec<u32> {
        let is_at = |event: &EventRecord| matches!(event.subject, SubjectPart::Collective { group: None, round: at, .. } if at >= round);
        let is_there = |rank: &u32| self.record(*rank).is_some_and(|record| record.events.iter().any(is_at));
        (0..self.records.world).filter(|rank| !is_there(rank)).collect()
    }

    /// The ranks that a collective of a group waits for, as far as the records tell who is in the group.
    pub(super) fn absent_in(self, group: u32, round: u64) -> Vec<u32> {
        let number = |event: &EventRecord| match event.subject {
            SubjectPart::Collective { group: Some(of), round, .. } if of == group => Some(round),
            _ => None,
        };
        let latest = |record: &RankRecord| record.events.iter().filter_map(number).max();
        let ranks = self.records.ranks.iter();
        ranks.filter(|(_, record)| latest(record).is_some_and(|at| at < round)).map(|(&rank, _)| rank).collect()
    }

    /// What others know last of a rank: what it reported, and what they got from it.
    pub(super) fn last_known(self, rank: u32) -> Vec<String> {
        let records = || self.records.ranks.values();
        let heard = records().flat_map(|record| {
            let of_rank = record.heard.iter().filter(move |heard| heard.rank == rank);
            of_rank.map(move |heard| (record.at.unix_us as f64 / 1e6 - heard.seconds_before, heard, record))
        });
        let heard = heard.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, heard, record)| {
            format!(
                "rank {rank} last reported, {} before rank {} wrote its record: {}",
                time(heard.seconds_before),
                record.rank,
                heard.text
            )
        });
        let got = records().flat_map(|record| {
            let is_from = move |event: &&EventRecord| {
                let is_receive = matches!(event.subject, SubjectPart::Transfer { role: RoleName::Receive, .. });
                event.state == StateName::Done && is_receive && event.peer == Some(rank)
            };
            record.events.iter().filter(is_from).map(move |event| (event, record))
        });
        let got = got.min_by(|a, b| a.0.seconds_before.total_cmp(&b.0.seconds_before)).map(|(event, record)| {
            format!(
                "the last that came from rank {rank}: rank {} had {}, {} before its record",
                record.rank,
                event.text,
                time(event.seconds_before)
            )
        });
        heard.into_iter().chain(got).collect()
    }
}

/// What a rank waits for, innermost; none when it computes or is in code of its own.
pub(super) fn wait_of(record: &RankRecord) -> Option<&EventRecord> {
    record.within.iter().rev().find(|event| !matches!(event.subject, SubjectPart::Compute { .. }))
}

/// The end of a message's way that an event is about, for a transfer.
pub(super) fn end_of(event: &EventRecord) -> Option<End> {
    match event.subject {
        SubjectPart::Transfer { role, channel, label } => Some(End { role, channel, label }),
        _ => None,
    }
}

/// ` (action 7)`, where it belongs to one.
pub(super) fn at_action(action: Option<u32>) -> String {
    action.map_or_else(String::new, |action| format!(" (action {action})"))
}

/// A time of so many seconds, in words.
pub(super) fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// What a rank was at, in words.
pub(super) fn at_text(record: &RankRecord) -> String {
    let action = at_action(record.action);
    if let Some(wait) = wait_of(record) {
        return format!("was blocked {} on {}{action}", time(wait.seconds_before), wait.text);
    }
    match record.within.last() {
        Some(compute) => format!("was {} into {}{action}", time(compute.seconds_before), compute.text),
        None if record.action.is_some() => {
            format!("was {} at one action{action}, waiting for nobody", time(record.quiet_seconds.unwrap_or_default()))
        }
        None => "was outside a program, waiting for nobody".to_owned(),
    }
}
