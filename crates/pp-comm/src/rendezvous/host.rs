//! The place where ranks meet: gathers them, checks them, introduces them, and serves their collectives.

use std::collections::BTreeSet;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pp_schedule::{Certificate, Rank};

use super::auth::{Greeting, Purpose};
use super::gate::{Gate, Guest, POLL};
use super::protocol::{Hello, VERSION, Welcome};
use super::refusal::Refusal;
use super::secret::Secret;
use super::{RendezvousError, check_open};
use crate::board::Board;
use crate::control::{Connection, serve};
use crate::deadline::Deadline;
use crate::wire::{Kind, write_frame};

/// What a host expects.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// How many ranks there are.
    pub n_ranks: u32,
    /// The certificates of the programs that the ranks will run; each rank must bring the fingerprints of its part of
    /// each, in this order.
    pub certificates: Vec<Certificate>,
    /// How long the ranks may take to arrive, and each of their collectives.
    pub deadline: Duration,
    /// How long a rank may be silent before it counts as frozen; several signs of life are given in this time.
    pub heartbeat: Duration,
    /// What all ranks of the run know and nobody else; none only where nobody else can connect.
    pub secret: Option<Secret>,
    /// Tells attempts at the same job apart: ranks that give another name are turned away. May be empty.
    pub run_name: String,
}

/// How long at least whoever comes late to a run that could not start is told so, while the host is kept.
const LATE: Duration = Duration::from_secs(10);

/// A host at work, in a thread of its own. Dropped, it ends the run: every rank loses it, and whoever comes late to a run
/// that could not start finds nobody.
#[derive(Debug)]
pub struct Host {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What lets the host's thread be stopped from outside.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// Every rank's connection, to be shut down.
    streams: Board<Vec<TcpStream>>,
    /// How the run ended, once it has.
    ended: Board<Option<Ended>>,
}

/// How a run ended: to be told as often as somebody asks.
#[derive(Clone, Debug)]
enum Ended {
    AllLeft,
    Refused(Refusal),
    Failed(io::ErrorKind, String),
}

impl Ended {
    fn tell(self) -> Result<(), RendezvousError> {
        match self {
            Self::AllLeft => Ok(()),
            Self::Refused(refusal) => Err(RendezvousError::Refused(refusal)),
            Self::Failed(kind, why) => Err(RendezvousError::system("serve the ranks")(io::Error::new(kind, why))),
        }
    }
}

impl Host {
    /// Starts a host on a listener. Bind it to port 0 and ask [`Host::address`] for the port that the system chose.
    ///
    /// # Errors
    /// [`RendezvousError::Coverage`] when a certificate is for another number of ranks, [`RendezvousError::Open`] when
    /// other machines can connect and there is no secret, [`RendezvousError::System`].
    pub fn spawn(listener: TcpListener, spec: HostSpec) -> Result<Self, RendezvousError> {
        let n_ranks = spec.n_ranks;
        let other = spec.certificates.iter().find(|certificate| certificate.fingerprints().len() != n_ranks as usize);
        if let Some(certificate) = other {
            return Err(RendezvousError::Coverage { covered: certificate.fingerprints().len(), n_ranks });
        }
        let cannot = || RendezvousError::system("start the host");
        let address = listener.local_addr().map_err(cannot())?;
        check_open(address, spec.secret.as_ref())?;
        listener.set_nonblocking(true).map_err(cannot())?;
        let run = run_id().map_err(cannot())?;
        let (streams, ended) = (Board::new(Vec::new()), Board::new(None));
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), streams, ended });
        let theirs = Arc::clone(&shared);
        let live = move || live(listener, &spec, run, &theirs);
        let thread = thread::Builder::new().name("host".to_owned()).spawn(live).map_err(cannot())?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all ranks have left the run, or it could not start. A run that is not over when the limit passes goes
    /// on as before, and may be waited for again: only dropping the host ends it.
    ///
    /// # Errors
    /// [`RendezvousError::Refused`] if it did not start, [`RendezvousError::NotOver`] if it has not ended in time.
    pub fn wait(&self, limit: Duration) -> Result<(), RendezvousError> {
        let ended = self.shared.ended.wait(Deadline::after(limit), |ended| ended.clone());
        ended.map_or(Err(RendezvousError::NotOver { limit }), Ended::tell)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.streams.update(|streams| {
            for stream in streams.drain(..) {
                // An error means that the connection is gone already.
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

/// The life of the host's thread.
fn live(listener: TcpListener, spec: &HostSpec, run: u128, shared: &Shared) {
    let mut gathering = Gathering {
        gate: Gate::new(&listener, Purpose::Control, spec.secret.as_ref(), run),
        spec,
        shared,
        deadline: Deadline::after(spec.deadline),
        arrivals: std::iter::repeat_with(|| None).take(spec.n_ranks as usize).collect(),
        strangers: BTreeSet::new(),
    };
    let end = |how| shared.ended.update(|ended| *ended = Some(how));
    match gathering.gather() {
        Ok(()) => {
            let arrivals = gathering.arrivals.into_iter().flatten().collect();
            // The port is free again from here on.
            drop(listener);
            let served = introduce(arrivals, spec);
            end(served.map_or_else(|error| Ended::Failed(error.kind(), error.to_string()), |()| Ended::AllLeft));
        }
        Err(refusal) => {
            for arrival in gathering.arrivals.iter_mut().flatten() {
                refuse(&mut arrival.stream, &refusal);
            }
            end(Ended::Refused(refusal.clone()));
            // Whoever comes late is told too, rather than left to wonder: for as long again as ranks may take to arrive,
            // unless the host is dropped before.
            gathering.deadline = Deadline::after(spec.deadline.max(LATE));
            while let Ok(guests) = gathering.guests() {
                for mut guest in guests {
                    refuse(&mut guest.stream, &refusal);
                }
            }
        }
    }
}

/// Tells the ranks of each other and serves them until they have left.
fn introduce(arrivals: Vec<Arrival>, spec: &HostSpec) -> io::Result<()> {
    let addresses = arrivals.iter().map(|arrival| arrival.hello.address).collect();
    let welcome = Welcome { heartbeat: spec.heartbeat, addresses, certificates: spec.certificates.clone() }.encode();
    let connect = |Arrival { mut stream, hello }: Arrival| {
        stream.set_write_timeout(Some(spec.deadline.max(POLL)))?;
        // A rank that died since it arrived shows when its connection is served.
        let _ = write_frame(&mut stream, Kind::Welcome, 0, 0, &welcome);
        Ok(Connection { stream, heartbeat: hello.heartbeat })
    };
    let connections: io::Result<Vec<Connection>> = arrivals.into_iter().map(connect).collect();
    serve(connections?, spec.deadline, spec.heartbeat)
}

/// A rank that said hello and proved itself.
struct Arrival {
    stream: TcpStream,
    hello: Hello,
}

/// Why nobody says hello any more.
enum NoHello {
    Stopped,
    Expired,
}

/// The host while it waits for the ranks.
struct Gathering<'a> {
    gate: Gate<'a>,
    spec: &'a HostSpec,
    shared: &'a Shared,
    deadline: Deadline,
    /// By rank.
    arrivals: Vec<Option<Arrival>>,
    /// As which ranks somebody came who is none of this run.
    strangers: BTreeSet<Rank>,
}

impl Gathering<'_> {
    /// Takes in ranks until all are there, or one does not fit, or time is up.
    fn gather(&mut self) -> Result<(), Refusal> {
        while self.arrivals.iter().any(Option::is_none) {
            let mut guests = self.guests().map_err(|why| self.why_not(&why))?.into_iter();
            while let Some(guest) = guests.next() {
                if let Err(refusal) = self.take_in(guest) {
                    guests.for_each(|mut guest| refuse(&mut guest.stream, &refusal));
                    return Err(refusal);
                }
            }
        }
        Ok(())
    }

    /// Waits for ranks that prove themselves.
    fn guests(&mut self) -> Result<Vec<Guest>, NoHello> {
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return Err(NoHello::Stopped);
            }
            let left = self.deadline.remaining().ok_or(NoHello::Expired)?;
            let look = self.gate.look();
            for rank in look.strangers {
                self.note_stranger(rank);
            }
            if !look.guests.is_empty() {
                return Ok(look.guests);
            }
            if !look.busy {
                thread::sleep(POLL.min(left));
            }
        }
    }

    /// Takes in one rank; an error ends the run.
    fn take_in(&mut self, mut guest: Guest) -> Result<(), Refusal> {
        match self.check(&guest) {
            Ok(Some(hello)) => {
                // Without a second handle the host could not be dropped while it serves: better without the rank.
                let Ok(handle) = guest.stream.try_clone() else { return Ok(()) };
                self.shared.streams.update(|streams| streams.push(handle));
                let rank = hello.greeting.rank as usize;
                self.arrivals[rank] = Some(Arrival { stream: guest.stream, hello });
                Ok(())
            }
            // It knows the secret, but talks nonsense: no rank of any version.
            Ok(None) => Ok(()),
            Err(refusal) => {
                refuse(&mut guest.stream, &refusal);
                if refusal.ends_the_run() {
                    return Err(refusal);
                }
                self.note_stranger(Rank(guest.greeting.rank));
                Ok(())
            }
        }
    }

    fn note_stranger(&mut self, rank: Rank) {
        // What others claim may be any number; there are only so many ranks.
        if rank.0 < self.spec.n_ranks {
            self.strangers.insert(rank);
        }
    }

    fn why_not(&self, why: &NoHello) -> Refusal {
        if let NoHello::Stopped = why {
            return Refusal::Stopped;
        }
        let missing = (0..).map(Rank).zip(&self.arrivals).filter(|(_, arrival)| arrival.is_none());
        let missing: Vec<Rank> = missing.map(|(rank, _)| rank).collect();
        let strangers = self.strangers.iter().copied().filter(|rank| missing.contains(rank)).collect();
        Refusal::Missing { missing, strangers, n_ranks: self.spec.n_ranks, limit: self.spec.deadline }
    }

    /// Whether a rank fits; none if what it says makes no sense.
    fn check(&self, guest: &Guest) -> Result<Option<Hello>, Refusal> {
        let Greeting { version, n_ranks, rank, .. } = guest.greeting;
        let rank = Rank(rank);
        if version != VERSION {
            return Err(Refusal::Version { rank, theirs: version, ours: VERSION });
        }
        let Ok(hello) = Hello::decode(&guest.first_word) else { return Ok(None) };
        if hello.run_name != self.spec.run_name {
            return Err(Refusal::Run { rank, theirs: hello.run_name, ours: self.spec.run_name.clone() });
        }
        if n_ranks != self.spec.n_ranks {
            return Err(Refusal::World { rank, theirs: n_ranks, ours: self.spec.n_ranks });
        }
        match self.arrivals.get(rank.idx()) {
            None => return Err(Refusal::NoSuchRank { rank, n_ranks }),
            Some(Some(earlier)) if earlier.is_there() => return Err(Refusal::Duplicate { rank }),
            Some(_) => {}
        }
        self.check_programs(rank, &hello).map(|()| Some(hello))
    }

    fn check_programs(&self, rank: Rank, hello: &Hello) -> Result<(), Refusal> {
        let (theirs, ours) = (&hello.fingerprints, &self.spec.certificates);
        if theirs.len() != ours.len() {
            return Err(Refusal::Programs { rank, theirs: theirs.len() as u32, ours: ours.len() as u32 });
        }
        for ((&built, certificate), program) in theirs.iter().zip(ours).zip(0..) {
            let verified = certificate.fingerprints()[rank.idx()];
            if built != verified {
                return Err(Refusal::Program { rank, program, built, verified });
            }
        }
        Ok(())
    }
}

impl Arrival {
    /// Whether its connection still stands. A rank whose first call went wrong half-way calls again.
    fn is_there(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let _ = self.stream.set_nonblocking(false);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A rank that cannot be told will notice the end of the connection.
fn refuse(stream: &mut TcpStream, refusal: &Refusal) {
    let _ = write_frame(stream, Kind::Refused, 0, 0, &refusal.encode());
}

/// A number that no other run has.
fn run_id() -> io::Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u128::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_different_ids() {
        assert_ne!(run_id().expect("randomness"), run_id().expect("randomness"));
    }
}
