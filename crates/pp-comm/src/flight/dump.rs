//! Writing a rank's record: whole or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::cause::Cause;
use super::parts::StateName;
use super::record::{EventRecord, FORMAT, Heard, Moment, RankRecord};
use super::recorder::{Event, Recorder, Snapshot, State, Subject};

/// Only the user who ran it may read what a run did.
const OWNER_ONLY: u32 = 0o700;

/// What a rank has to say when it fails, beside what its recorder holds.
#[derive(Clone, Debug)]
pub struct Report {
    /// Why, in words.
    pub why: String,
    /// Why, in parts.
    pub cause: Cause,
    /// What every rank had last reported.
    pub heard: Vec<Heard>,
}

impl RankRecord {
    /// The record of a rank at this moment.
    pub fn new(recorder: &Recorder, report: Report) -> Self {
        let clock = Clock::read();
        let Snapshot { action, events, n_forgotten, open } = recorder.snapshot();
        let run = recorder.run();
        let rank = recorder.rank().0;
        // Waits that have failed are over, but they are what the rank was at: the last to fail is the outermost.
        let failed = events.iter().rev().take_while(|event| event.state == State::Failed && !is_compute(event));
        let began = failed.map(|failed| begin_of(failed, &events));
        Self {
            format: FORMAT,
            run: run.and_then(|run| run.id).map(|id| format!("{id:032x}")),
            rank,
            world: run.map_or(rank + 1, |run| run.n_ranks),
            why: report.why,
            cause: report.cause,
            at: clock.moment(),
            action,
            quiet_seconds: events.last().map(|event| clock.before(event.at)),
            within: open.iter().chain(began).map(|event| clock.record(event)).collect(),
            n_forgotten,
            events: events.iter().map(|event| clock.record(event)).collect(),
            heard: report.heard,
        }
    }

    /// The name of a rank's file.
    pub fn file_name(rank: u32) -> String {
        format!("rank-{rank}.json")
    }

    /// Writes it into a directory, which is made if it is not there; gives the file's path. Whoever reads sees the whole
    /// record or an earlier one.
    ///
    /// # Errors
    /// What the system says; nothing is left then.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let was_there = folder.exists();
        DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(folder)?;
        let name = Self::file_name(self.rank);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let draft = folder.join(format!(".{name}.{}-{number}", std::process::id()));
        let path = folder.join(name);
        let written = write_draft(&draft, self).and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            // It may never have been made.
            let _ = fs::remove_file(&draft);
            if !was_there {
                // Another rank may have put its own there meanwhile, and then it stays.
                let _ = fs::remove_dir(folder);
            }
            return Err(error);
        }
        Ok(path)
    }
}

fn write_draft(draft: &Path, record: &RankRecord) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(record)?;
    text.push(b'\n');
    // One that is there already is somebody else's.
    let mut file = File::create_new(draft)?;
    file.write_all(&text)
}

const fn is_compute(event: &Event) -> bool {
    matches!(event.subject, Subject::Compute { .. })
}

/// The event with which something that failed was begun.
fn begin_of<'a>(failed: &'a Event, events: &'a [Event]) -> &'a Event {
    let begun = |event: &&Event| event.state == State::Begun && event.subject == failed.subject;
    events.iter().rev().find(begun).unwrap_or(failed)
}

/// How instants lie to the two clocks of a [`Moment`].
struct Clock {
    now: Instant,
    monotonic: Duration,
    unix: Duration,
}

impl Clock {
    fn read() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        Self {
            now: Instant::now(),
            monotonic: Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default()),
            // A calendar before 1970 is none.
            unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    fn moment(&self) -> Moment {
        Moment { unix_us: micros(self.unix), monotonic_us: micros(self.monotonic) }
    }

    /// In seconds.
    fn before(&self, instant: Instant) -> f64 {
        self.now.saturating_duration_since(instant).as_secs_f64()
    }

    fn record(&self, event: &Event) -> EventRecord {
        let subject = super::parts::SubjectPart::from(event.subject);
        let before = self.now.saturating_duration_since(event.at);
        EventRecord {
            step: subject.step(),
            action: event.action,
            text: subject.to_string(),
            peer: subject.peer(),
            subject,
            bytes: event.n_bytes,
            state: StateName::from(event.state),
            seconds_before: before.as_secs_f64(),
            monotonic_us: micros(self.monotonic.saturating_sub(before)),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
