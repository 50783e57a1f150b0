//! A communicator: made in the background, used by launches, left, aborted or divided.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::frame::Frame;
use super::kinds::{Code, Refusal};
use super::link::Link;
use super::meet::{self, Guest, ID_LEN, Member, Met, Unmet};
use super::settings::{LIMIT, SHARED_DEVICE_VAR, settings};
use super::state::{Phase, State};
use crate::fault::{self, Fault};

/// How often waits look around.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// How a communicator is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Whether calls wait until they are done.
    pub(crate) blocking: bool,
    /// The caller's device.
    pub(crate) device: u32,
    /// What reports call it.
    pub(crate) name: Option<String>,
}

/// This rank's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    pub(crate) n_ranks: usize,
}

/// One rank's part in a communicator.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) request: Request,
    /// Among the communicators of this process, from 1.
    pub(crate) number: u64,
    /// Known from the beginning, unless it comes of a division.
    place: OnceLock<Place>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Comm {
    pub(crate) fn new(request: Request) -> Arc<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed) + 1;
        let (place, state, changed) = (OnceLock::new(), Mutex::new(State::new()), Condvar::new());
        Arc::new(Self { request, number, place, state, changed })
    }

    /// This rank's place; rank 0 of 0 before it is known.
    pub(crate) fn place(&self) -> Place {
        self.place.get().copied().unwrap_or(Place { rank: 0, n_ranks: 0 })
    }

    /// In reports: which communicator, and which rank of it.
    pub(crate) fn title(&self) -> String {
        let Place { rank, n_ranks } = self.place();
        let name = self.request.name.as_deref().map_or(String::new(), |name| format!(" {name:?}"));
        format!("communicator{name} #{}, rank {rank} of {n_ranks}", self.number)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and tells all who wait.
    pub(crate) fn change<T>(&self, how: impl FnOnce(&mut State) -> T) -> T {
        let changed = how(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// Waits for a change, for at most that long.
    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// It fails; the first reason stays.
    pub(crate) fn fail(&self, code: Code, text: impl Into<String>) {
        let text = format!("{}: {}", self.title(), text.into());
        self.change(|state| state.failure.get_or_insert(Refusal { code, text }).code);
    }

    /// It fails because the ranks do not agree on an operation; gives what is said of the first such one.
    pub(crate) fn disagree(&self, sides: &str) -> String {
        self.fail(Code::InvalidUsage, format!("the ranks do not agree on an operation\n{sides}"));
        self.change(|state| state.mismatch.get_or_insert_with(|| sides.to_string()).clone())
    }

    /// The result that `ncclCommGetAsyncError` gives.
    pub(crate) fn code(&self) -> Code {
        self.lock().code()
    }

    /// That it can be used now.
    ///
    /// # Errors
    /// It failed, or an earlier call is not done.
    pub(crate) fn ready(&self) -> Result<(), Refusal> {
        let state = self.lock();
        match (&state.failure, state.code(), state.phase) {
            (Some(failure), ..) => Err(failure.clone()),
            (None, Code::Success, Phase::Ready) => Ok(()),
            (None, Code::InProgress, _) => {
                Err(Refusal::usage(format!("{}: an earlier call is not done", self.title())))
            }
            (None, ..) => Err(Refusal::usage(format!("{}: it was finalized or aborted", self.title()))),
        }
    }

    /// Waits until nothing is under way on the host: what a blocking call does.
    ///
    /// # Errors
    /// It failed, or it takes too long.
    pub(crate) fn settle(&self) -> Result<(), Refusal> {
        let end = Instant::now() + LIMIT;
        let mut state = self.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.code() != Code::InProgress {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Refusal::system(format!("{}: not done after {LIMIT:?}", self.title())));
            }
            state = self.wait(state, TICK);
        }
    }

    /// Begins to meet the others, in the background.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn begin(self: &Arc<Self>, id: [u8; ID_LEN], place: Place) -> Result<(), Refusal> {
        self.place.get_or_init(|| place);
        let comm = Arc::clone(self);
        background("making", move || comm.make(&id))
    }

    /// Meets the others.
    pub(crate) fn make(self: &Arc<Self>, id: &[u8; ID_LEN]) {
        let Place { rank, n_ranks } = self.place();
        let given_up = || self.lock().is_over();
        if fault::asked().is_ok_and(|faults| faults.holds(Fault::InitNever, rank)) {
            while !given_up() {
                std::thread::sleep(TICK);
            }
            return;
        }
        let guest = Guest { n_ranks, rank, device: self.request.device };
        let met = meet::meet(id, guest, &given_up).and_then(|met| {
            check_devices(&met.members)?;
            self.connect(met).map_err(Unmet::from)
        });
        match met {
            Ok(()) | Err(Unmet::GivenUp) => {}
            Err(Unmet::Refused(why)) => self.fail(Code::InvalidUsage, why),
            Err(Unmet::System(why)) => self.fail(Code::SystemError, why),
        }
    }

    /// Takes a place that became known late.
    pub(crate) fn take_place(&self, place: Place) {
        self.place.get_or_init(|| place);
    }

    fn connect(self: &Arc<Self>, met: Met) -> io::Result<()> {
        let mut links = Vec::new();
        let mut readers = Vec::new();
        for (peer, stream) in met.streams.into_iter().enumerate() {
            links.push(match stream {
                None => None,
                Some(stream) => {
                    let (link, reading) = Link::new(stream)?;
                    readers.push((peer, reading));
                    Some(Arc::new(link))
                }
            });
        }
        self.change(|state| {
            let n_ranks = met.members.len();
            (state.n_sends, state.n_receives) = (vec![0; n_ranks], vec![0; n_ranks]);
            (state.members, state.links) = (met.members, links);
            if state.phase == Phase::Making {
                state.phase = Phase::Ready;
            }
        });
        for (peer, reading) in readers {
            let comm = Arc::clone(self);
            background("reader", move || comm.listen(peer, reading))
                .map_err(|refusal| io::Error::other(refusal.text))?;
        }
        // It may have been aborted meanwhile.
        if self.lock().is_over() {
            self.close();
        }
        Ok(())
    }

    fn listen(&self, peer: usize, mut stream: UnixStream) {
        while let Ok(Some(frame)) = Frame::read(&mut stream) {
            self.take(peer, frame);
        }
        self.lost(peer);
    }

    fn take(&self, peer: usize, frame: Frame) {
        if frame == Frame::Ask {
            let waits_for = self.lock().waits_for();
            // If the peer went away meanwhile, its link says so.
            let _ = self.tell(peer, Frame::Tell(waits_for));
            return;
        }
        if let Frame::Mismatch(sides) = &frame {
            self.disagree(sides);
            return;
        }
        self.change(|state| {
            let arrivals = &mut state.arrivals;
            match frame {
                Frame::Begun(begun) => drop(arrivals.begun.insert((peer, begun.key), begun)),
                Frame::Data { key, bytes } => drop(arrivals.data.insert((peer, key), bytes)),
                Frame::Tell(text) => drop(arrivals.told.insert(peer, text)),
                Frame::Goodbye => arrivals.left.push(peer),
                Frame::Ask | Frame::Mismatch(_) => {}
            }
        });
    }

    /// The connection to a peer ended.
    fn lost(&self, peer: usize) {
        let state = self.lock();
        let in_order = state.arrivals.left.contains(&peer) || matches!(state.phase, Phase::Left | Phase::Aborted);
        let pid = state.members.get(peer).map_or(0, |member| member.pid);
        drop(state);
        let silent = fault::asked().is_ok_and(|faults| faults.holds(Fault::SilentDeath, self.place().rank));
        if !in_order && !silent {
            self.fail(Code::RemoteError, format!("rank {peer} (process {pid}) is gone"));
        }
    }

    /// Tells a rank something; itself too.
    ///
    /// # Errors
    /// The peer is gone, or the communicator is over.
    pub(crate) fn tell(&self, peer: usize, frame: Frame) -> io::Result<()> {
        if peer == self.place().rank {
            self.take(peer, frame);
            return Ok(());
        }
        let link = self.lock().links.get(peer).cloned().flatten().ok_or(io::ErrorKind::NotConnected)?;
        link.send(&frame, &|| self.lock().is_over())
    }

    /// Tells all other ranks.
    pub(crate) fn tell_all(&self, frame: &Frame) {
        let Place { rank, n_ranks } = self.place();
        for peer in (0..n_ranks).filter(|&peer| peer != rank) {
            // Whoever is gone is noticed by its link.
            let _ = self.tell(peer, frame.clone());
        }
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        let links = self.lock().links.clone();
        links.iter().flatten().for_each(|link| link.close());
    }
}

/// In one process two ranks of a communicator may not share a device, unless NCCL is told that they may.
fn check_devices(members: &[Member]) -> Result<(), Unmet> {
    if settings().is_ok_and(|settings| settings.shared_device) {
        return Ok(());
    }
    for (rank, member) in members.iter().enumerate() {
        let same = |other: &&Member| other.pid == member.pid && other.device == member.device;
        if let Some(other) = members[..rank].iter().position(|other| same(&other)) {
            let device = member.device;
            return Err(Unmet::Refused(format!(
                "ranks {other} and {rank} are both on device {device}; NCCL refuses that, unless {SHARED_DEVICE_VAR}=1"
            )));
        }
    }
    Ok(())
}

/// Runs something on a thread that nobody waits for: it ends with the process.
///
/// # Errors
/// What the system says.
pub(crate) fn background(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Refusal> {
    let named = std::thread::Builder::new().name(format!("emulator: {name}"));
    named.spawn(work).map(drop).map_err(|error| Refusal::system(format!("cannot start a thread: {error}")))
}
