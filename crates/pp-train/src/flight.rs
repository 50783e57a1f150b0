//! What a rank leaves behind when its run fails: the record of what it did last, and a line that says where it is.
//!
//! The record is written by whoever notices first that the rank fails: the thread that trains, as soon as it has an error; a
//! thread of its own when another rank is lost and the training thread does not come back from a computation; or the
//! handler of panics.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Error, Result};
use pp_comm::collectives::GroupError;
use pp_comm::flight::{Cause, Heard, RankRecord, Recorder, Report};
use pp_comm::{CommError, Control, ExecError, ExecFault, Member, RendezvousError, Watch};

use crate::config::TrainConfig;
use crate::failure::Failure;

/// How long after a loss the training thread may take to notice by itself; then it is recorded where it is.
const NOTICE: Duration = Duration::from_millis(100);

/// How long after a loss the training thread may take to come back; then the process is ended without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// One rank's flight record: a handle for every thread that may have to write it.
#[derive(Clone, Debug)]
pub struct Flight {
    state: Arc<Mutex<State>>,
    /// Ends the process of a rank that cannot come back to say why it ends.
    end: fn(&str),
}

#[derive(Debug, Default)]
struct State {
    armed: Option<Armed>,
    /// What the last line on standard error is to say of the record.
    told: String,
    /// The rank has failed, and said all that it will.
    is_over: bool,
}

#[derive(Debug)]
struct Armed {
    recorder: Recorder,
    watch: Watch,
    folder: PathBuf,
}

/// Why a record is written.
#[derive(Debug)]
struct Word<'a> {
    cause: Cause,
    why: &'a str,
    /// The words say where in its program the rank was.
    says_where: bool,
    /// Nothing more will be said of this rank.
    is_last: bool,
}

impl Flight {
    /// For a process that `end` ends, with a line that says why, when its training thread cannot.
    pub fn new(end: fn(&str)) -> Self {
        Self { state: Arc::default(), end }
    }

    /// Has records of this rank written from here on, and the process ended when another rank is lost and the training
    /// thread does not come back. A rank that is alone says all there is to say itself, and writes one only where it was
    /// asked to.
    ///
    /// An earlier run's record of this rank is taken away: in a directory that was named before, nothing else would tell
    /// it from one of this run.
    pub(crate) fn arm(&self, config: &TrainConfig, member: &Member) -> Result<()> {
        let recorder = member.endpoint.recorder().clone();
        let folder = match &config.flight_dir {
            Some(folder) => folder.clone(),
            None if member.control.n_ranks() == 1 => return Ok(()),
            None => default_folder(&recorder),
        };
        // Mostly there is none.
        let _ = std::fs::remove_file(folder.join(RankRecord::file_name(recorder.rank().0)));
        self.lock().armed = Some(Armed { recorder, watch: member.control.watch(), folder });
        let flight = self.clone();
        member.on_loss(move |rank, reason| flight.outlive(&CommError::PeerLost { rank, reason: reason.to_owned() }))?;
        Ok(())
    }

    /// What a thread of its own does after a loss: the record soon, and the end of the process if nobody else ends it.
    fn outlive(&self, loss: &CommError) {
        let why = loss.to_string();
        let word = |is_last| Word { cause: Cause::of(loss), why: &why, says_where: false, is_last };
        thread::sleep(NOTICE);
        self.write(word(false));
        thread::sleep(PATIENCE.saturating_sub(NOTICE));
        if let Some(told) = self.write(word(true)) {
            (self.end)(&format!("{why}; this rank did not come back within {PATIENCE:?}{told}"));
        }
    }

    /// What a rank does that fails by an error: it writes its record, has all others end, and takes the reason that all agree
    /// on for its own.
    pub(crate) fn failed(&self, control: &mut Control, error: Error) -> Error {
        let says_where = error.chain().any(|cause| cause.is::<ExecError>());
        let kind = Failure::of(&error);
        let why = format!("{error:#}");
        if kind != Failure::Invalid {
            // Before anything that takes time: nobody may be left to write it afterwards.
            self.write(Word { cause: cause_of(&error), why: &why, says_where, is_last: false });
        }
        let error = agreed(control, error);
        if kind != Failure::Invalid {
            self.write(Word { cause: cause_of(&error), why: &format!("{error:#}"), says_where, is_last: true });
        }
        error
    }

    /// What a rank does that fails with all that it had of the others: they hear of it as of a loss.
    pub(crate) fn failed_alone(&self, error: Error) -> Error {
        let why = format!("{error:#}");
        self.write(Word { cause: cause_of(&error), why: &why, says_where: false, is_last: true });
        error
    }

    /// Writes the record of a rank that fails by a panic.
    pub fn panicked(&self, panic: &str) {
        let cause = Cause::Own { reason: panic.to_owned() };
        self.write(Word { cause, why: panic, says_where: false, is_last: true });
    }

    /// What the last line is to say of the record, if one was written.
    pub fn told(&self) -> String {
        self.lock().told.clone()
    }

    /// Writes the record as it is now, unless the rank's last one is written; gives what is to be said of it.
    fn write(&self, word: Word<'_>) -> Option<String> {
        let Word { cause, why, says_where, is_last } = word;
        let mut state = self.lock();
        if state.is_over {
            return None;
        }
        state.is_over = is_last;
        let Some(Armed { recorder, watch, folder }) = &state.armed else { return Some(String::new()) };
        let heard = watch.last_heard().into_iter().map(|heard| Heard {
            rank: heard.rank.0,
            text: heard.text,
            seconds_before: heard.ago.as_secs_f64(),
        });
        let record = RankRecord::new(recorder, Report { why: why.to_owned(), cause, heard: heard.collect() });
        let at = if says_where { String::new() } else { where_of(&record) };
        let told = match record.write(folder) {
            Ok(path) => format!("{at}; what it did last is in {}", path.display()),
            Err(error) => format!("{at}; what it did last cannot be written to {}: {error}", folder.display()),
        };
        state.told.clone_from(&told);
        Some(told)
    }

    /// A thread that panicked while it held the lock leaves a state that is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the others of an error, which ends all their waits; gives it with the reason that all agree on.
fn agreed(control: &mut Control, mut error: Error) -> Error {
    if let Some(error) = error.downcast_mut::<ExecError>()
        && let ExecFault::Comm(comm) = &*error.fault
    {
        *error.fault = control.fail(comm).into();
    } else if let Some(GroupError::Comm(comm)) = error.downcast_mut() {
        *comm = control.fail(comm);
    } else if let Some(comm) = error.downcast_mut::<CommError>() {
        *comm = control.fail(comm);
    } else {
        control.abort(&format!("{error:#}"));
    }
    error
}

/// What the rank was at, for the line that ends it.
fn where_of(record: &RankRecord) -> String {
    match (record.within.last(), record.action) {
        (Some(event), Some(action)) => format!("; it was in {} (action {action})", event.text),
        (Some(event), None) => format!("; it was in {}", event.text),
        (None, Some(action)) => format!("; it was at action {action} of its program"),
        (None, None) => String::new(),
    }
}

/// The same on every rank of a run on this machine, and another than that of any other run.
fn default_folder(recorder: &Recorder) -> PathBuf {
    let run = recorder.run().and_then(|run| run.id);
    let name = run.map_or_else(|| std::process::id().to_string(), |id| format!("{id:032x}"));
    std::env::temp_dir().join(format!("pp-flight-{name}"))
}

fn cause_of(error: &Error) -> Cause {
    let comm = error.chain().find_map(comm_of).map(Cause::of);
    comm.unwrap_or_else(|| Cause::Own { reason: format!("{error:#}") })
}

/// The error between ranks that an error is or wraps. One that is transparent does not name it as its source.
fn comm_of<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a CommError> {
    let in_program = |error: &'a ExecError| match &*error.fault {
        ExecFault::Comm(comm) => Some(comm),
        _ => None,
    };
    let in_group = |error: &'a GroupError| match error {
        GroupError::Comm(comm) => Some(comm),
        _ => None,
    };
    let at_start = |error: &'a RendezvousError| match error {
        RendezvousError::Comm(comm) => Some(comm),
        _ => None,
    };
    let itself = error.downcast_ref::<CommError>();
    itself
        .or_else(|| error.downcast_ref().and_then(in_program))
        .or_else(|| error.downcast_ref().and_then(in_group))
        .or_else(|| error.downcast_ref().and_then(at_start))
}
