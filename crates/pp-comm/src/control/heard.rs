//! What the ranks did last, as they report it with their signs of life: kept by the host, passed on to all.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pp_schedule::Rank;

use crate::flight::{Event, Recorder, State};
use crate::wire::{Fields, Payload, invalid};

/// The most bytes of a report.
const MAX_TEXT: usize = 200;

/// The most reports in one frame.
pub(super) const MAX_ROWS: usize = 64;

/// What a rank reported last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The rank.
    pub rank: Rank,
    /// How long ago it did what it reported.
    pub ago: Duration,
    /// What that was.
    pub text: String,
}

/// A look at the other ranks that all threads of a rank may have, also while it computes or after it has failed.
#[derive(Clone, Debug)]
pub struct Watch {
    recorder: Recorder,
    reports: Reports,
}

impl Watch {
    pub(super) const fn new(recorder: Recorder, reports: Reports) -> Self {
        Self { recorder, reports }
    }

    /// What every rank reported last, in rank order; ranks of which nothing is known are left out. It is as fresh as the
    /// ranks' signs of life, of which there are several in a heartbeat. Ranks that are threads of one process report nothing
    /// to each other: there it is this rank's own last deed alone.
    pub fn last_heard(&self) -> Vec<Heard> {
        let (own, now) = (self.recorder.rank(), Instant::now());
        let mut reports = self.reports.lock().clone();
        let place = own.idx();
        if reports.len() <= place {
            reports.resize(place + 1, None);
        }
        if let Some(event) = self.recorder.last() {
            reports[place] = Some(Report { at: event.at, text: describe(&event) });
        }
        let heard = |(rank, report): (u32, Option<Report>)| {
            let Report { at, text } = report?;
            Some(Heard { rank: Rank(rank), ago: now.saturating_duration_since(at), text })
        };
        (0..).zip(reports).filter_map(heard).collect()
    }
}

/// One rank's last report, in this process's time.
#[derive(Clone, Debug)]
struct Report {
    at: Instant,
    text: String,
}

/// All ranks' last reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports(Arc<Mutex<Vec<Option<Report>>>>);

impl Reports {
    pub(super) fn new(n_ranks: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![None; n_ranks])))
    }

    /// Takes in a rank's sign of life; at most a line of it is kept.
    pub(super) fn take_beat(&self, rank: Rank, payload: &[u8]) -> io::Result<()> {
        let mut fields = Fields(payload);
        let (age, text) = (fields.u64()?, fields.bytes()?);
        self.keep(rank, age, text)
    }

    /// Takes in what the host passes on.
    pub(super) fn take_news(&self, payload: &[u8]) -> io::Result<()> {
        let mut fields = Fields(payload);
        let n_rows = fields.u32()?;
        (0..n_rows).try_for_each(|_| {
            let (rank, age, text) = (Rank(fields.u32()?), fields.u64()?, fields.bytes()?);
            self.keep(rank, age, text)
        })
    }

    fn keep(&self, rank: Rank, age: u64, text: &[u8]) -> io::Result<()> {
        let now = Instant::now();
        let at = now.checked_sub(Duration::from_millis(age)).unwrap_or(now);
        let mut reports = self.lock();
        let place = reports.get_mut(rank.idx()).ok_or_else(|| invalid(format!("a report of rank {rank}")))?;
        let text = String::from_utf8_lossy(text);
        *place = Some(Report { at, text: line(text.chars().filter(|char| !char.is_control())) });
        Ok(())
    }

    /// What is known of the ranks from `first` on, as a frame's payload, and from where to go on the next time.
    pub(super) fn news(&self, first: usize) -> (Vec<u8>, usize) {
        let (reports, now) = (self.lock(), Instant::now());
        let known = (0..).zip(reports.iter()).skip(first).take(MAX_ROWS);
        let known: Vec<(u32, &Report)> = known.filter_map(|(rank, report)| Some((rank, report.as_ref()?))).collect();
        let payload = Payload::default().u32(known.len() as u32);
        let payload = known.iter().fold(payload, |payload, &(rank, Report { at, text })| {
            payload.u32(rank).u64(millis(now.saturating_duration_since(*at))).bytes(text.as_bytes())
        });
        let next = first + MAX_ROWS;
        (payload.0, if next < reports.len() { next } else { 0 })
    }

    /// A thread that panicked while it held the lock leaves reports that are still whole: every change is one move.
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Report>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rank's sign of life, as a frame's payload.
pub(super) fn beat(recorder: &Recorder) -> Vec<u8> {
    let (age, text) = match recorder.last() {
        Some(event) => (millis(event.at.elapsed()), describe(&event)),
        None => (0, "nothing yet".to_owned()),
    };
    Payload::default().u64(age).bytes(text.as_bytes()).0
}

/// An event in one line.
fn describe(event: &Event) -> String {
    let state = match event.state {
        State::Posted => "posted",
        State::Begun => "begun",
        State::Done => "done",
        State::Failed => "failed",
    };
    let action = event.action.map_or_else(String::new, |action| format!("action {action}: "));
    line(format!("{action}{}, {state}", event.subject).chars())
}

/// As much of a text as a report may have.
fn line(chars: impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    for char in chars {
        if text.len() + char.len_utf8() > MAX_TEXT {
            break;
        }
        text.push(char);
    }
    text
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Takes in any bytes as a sign of life and as news.
///
/// # Panics
/// When a report is longer than any may be.
pub fn fuzz(bytes: &[u8]) {
    let reports = Reports::new(4);
    let _ = (reports.take_beat(Rank(2), bytes), reports.take_news(bytes));
    assert!(reports.lock().iter().flatten().all(|report| report.text.len() <= MAX_TEXT));
    let (news, _) = reports.news(0);
    assert!(Reports::new(4).take_news(&news).is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Collective;
    use crate::flight::Subject;
    use crate::wire::random::Random;

    #[test]
    fn what_a_rank_did_reaches_another_through_the_host() {
        let recorder = Recorder::new(Rank(1));
        let subject = Subject::Collective { collective: Collective::Barrier, group: None, round: 7 };
        recorder.at_action(Some(12));
        recorder.note(subject, State::Begun, 0);
        let (host, other) = (Reports::new(3), Reports::new(3));
        host.take_beat(Rank(1), &beat(&recorder)).expect("made here");
        let (news, next) = host.news(0);
        assert_eq!(next, 0);
        other.take_news(&news).expect("made here");
        let watch = Watch::new(Recorder::new(Rank(0)), other);
        let heard = watch.last_heard();
        assert_eq!(heard.len(), 1);
        assert_eq!((heard[0].rank, heard[0].text.as_str()), (Rank(1), "action 12: barrier 7 of all ranks, begun"));
        assert!(heard[0].ago < Duration::from_secs(60));
        let own = Watch::new(recorder, Reports::default());
        assert_eq!(own.last_heard()[0].text, heard[0].text);
    }

    #[test]
    fn reports_are_lines_of_ranks_there_are_and_many_take_turns() {
        let n_ranks = 2 * MAX_ROWS + 1;
        let (host, other) = (Reports::new(n_ranks), Reports::new(n_ranks));
        let long = "ä\n\u{1b}[1m".repeat(1000);
        for rank in 0..n_ranks as u32 {
            let payload = Payload::default().u64(u64::MAX).bytes(long.as_bytes()).0;
            host.take_beat(Rank(rank), &payload).expect("any age and text");
        }
        let mut first = 0;
        for expected in [MAX_ROWS, 2 * MAX_ROWS, 0] {
            let (news, next) = host.news(first);
            assert!(news.len() < 1 << 16);
            other.take_news(&news).expect("made here");
            assert_eq!(next, expected);
            first = next;
        }
        let heard = Watch::new(Recorder::new(Rank(0)), other).last_heard();
        assert_eq!(heard.len(), n_ranks);
        assert!(heard.iter().all(|heard| heard.text.len() <= MAX_TEXT && !heard.text.contains('\n')));
        let outside = Payload::default().u64(0).bytes(b"").0;
        assert!(host.take_beat(Rank(n_ranks as u32), &outside).is_err());
    }

    #[test]
    fn any_bytes_are_reports_or_errors() {
        let reports = Reports::new(4);
        for rank in 0..4 {
            reports.take_beat(Rank(rank), &beat(&Recorder::new(Rank(rank)))).expect("made here");
        }
        let samples = [beat(&Recorder::new(Rank(0))), reports.news(0).0];
        let mut random = Random(0x5eed);
        for _ in 0..40_000 {
            fuzz(&random.mutate(&samples));
        }
    }
}
