//! The place where ranks meet: gathers them, checks them, introduces them, and serves their collectives.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pp_schedule::{Certificate, Rank};

use super::protocol::{Hello, MAX_HELLO_BYTES, VERSION, Welcome};
use super::secret::Secret;
use super::{Refusal, RendezvousError};
use crate::board::Board;
use crate::control::{Connection, serve};
use crate::deadline::Deadline;
use crate::wire::{Kind, read_frame, write_frame};

/// Pause between two looks for a new connection.
const POLL: Duration = Duration::from_millis(2);

/// How long a new connection may take to say its first word; whoever takes longer is no rank.
pub(super) const FIRST_WORD: Duration = Duration::from_secs(5);

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
}

/// A host at work, in a thread of its own. Dropped, it ends the run: every rank loses it.
#[derive(Debug)]
pub struct Host {
    address: SocketAddr,
    shared: Arc<Shared>,
    outcome: mpsc::Receiver<Result<(), RendezvousError>>,
    thread: Option<JoinHandle<()>>,
}

/// What lets the host's thread be stopped from outside.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// Every connection there is, to be shut down.
    streams: Board<Vec<TcpStream>>,
}

impl Host {
    /// Starts a host on a listener. Bind it to port 0 and ask [`Host::address`] for the port that the system chose.
    ///
    /// # Errors
    /// [`RendezvousError::Coverage`] when a certificate is for another number of ranks, [`RendezvousError::System`].
    pub fn spawn(listener: TcpListener, spec: HostSpec) -> Result<Self, RendezvousError> {
        let n_ranks = spec.n_ranks;
        let other = spec.certificates.iter().find(|certificate| certificate.fingerprints().len() != n_ranks as usize);
        if let Some(certificate) = other {
            return Err(RendezvousError::Coverage { covered: certificate.fingerprints().len(), n_ranks });
        }
        let cannot = || RendezvousError::system("start the host");
        let address = listener.local_addr().map_err(cannot())?;
        listener.set_nonblocking(true).map_err(cannot())?;
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), streams: Board::new(Vec::new()) });
        let (sender, outcome) = mpsc::channel();
        let theirs = Arc::clone(&shared);
        let run = move || run(listener, &spec, &theirs, &sender);
        let thread = thread::Builder::new().name("host".to_owned()).spawn(run).map_err(cannot())?;
        Ok(Self { address, shared, outcome, thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all ranks have left the run, or it could not start.
    ///
    /// # Errors
    /// [`RendezvousError::Refused`] if it did not start, [`RendezvousError::NotOver`] if it has not ended in time.
    pub fn wait(self, limit: Duration) -> Result<(), RendezvousError> {
        match self.outcome.recv_timeout(limit) {
            Ok(outcome) => outcome,
            Err(_) => Err(RendezvousError::NotOver { limit }),
        }
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
fn run(listener: TcpListener, spec: &HostSpec, shared: &Shared, outcome: &mpsc::Sender<Result<(), RendezvousError>>) {
    let mut arrivals: Vec<Option<Arrival>> = std::iter::repeat_with(|| None).take(spec.n_ranks as usize).collect();
    let deadline = Deadline::after(spec.deadline);
    let gathered = gather(&listener, spec, shared, deadline, &mut arrivals);
    let mut arrivals: Vec<Arrival> = arrivals.into_iter().flatten().collect();
    // Below, nobody listens for the outcome any more once the host was dropped.
    match gathered {
        Ok(()) => {
            // The port is free again from here on.
            drop(listener);
            let _ = outcome.send(introduce(arrivals, spec));
        }
        Err(refusal) => {
            for arrival in &mut arrivals {
                refuse(&mut arrival.stream, &refusal);
            }
            let _ = outcome.send(Err(RendezvousError::Refused(refusal.clone())));
            // Whoever comes late is told too, rather than left to wonder.
            while let Ok((mut stream, _)) = next_hello(&listener, shared, deadline) {
                refuse(&mut stream, &refusal);
            }
        }
    }
}

/// Tells the ranks of each other and serves them until they have left.
fn introduce(arrivals: Vec<Arrival>, spec: &HostSpec) -> Result<(), RendezvousError> {
    let addresses = arrivals.iter().map(|arrival| arrival.address).collect();
    let welcome = Welcome { run: run_id(), addresses, certificates: spec.certificates.clone() }.encode();
    let connect = |Arrival { stream, .. }: Arrival| {
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(Some(spec.deadline.max(POLL)))?;
        let mut writer = stream.try_clone()?;
        // A rank that died since it arrived shows when its connection is served.
        let _ = write_frame(&mut writer, Kind::Welcome, 0, 0, &welcome);
        Ok(Connection { reader: stream, writer })
    };
    let connections: io::Result<Vec<Connection>> = arrivals.into_iter().map(connect).collect();
    serve(connections.map_err(RendezvousError::system("serve the ranks"))?, spec.deadline);
    Ok(())
}

/// A rank that said hello.
struct Arrival {
    stream: TcpStream,
    address: SocketAddr,
}

/// Why nobody says hello any more.
enum NoHello {
    Stopped,
    Expired,
}

/// Takes in ranks until all are there, or one does not fit, or time is up.
fn gather(
    listener: &TcpListener,
    spec: &HostSpec,
    shared: &Shared,
    deadline: Deadline,
    arrivals: &mut [Option<Arrival>],
) -> Result<(), Refusal> {
    while arrivals.iter().any(Option::is_none) {
        let (mut stream, hello) = match next_hello(listener, shared, deadline) {
            Ok(next) => next,
            Err(NoHello::Stopped) => return Err(Refusal::Stopped),
            Err(NoHello::Expired) => {
                let missing = (0..).map(Rank).zip(arrivals.iter()).filter(|(_, arrival)| arrival.is_none());
                let missing = missing.map(|(rank, _)| rank).collect();
                return Err(Refusal::Missing { missing, n_ranks: spec.n_ranks, limit: spec.deadline });
            }
        };
        if let Err(refusal) = check(&hello, spec, arrivals) {
            refuse(&mut stream, &refusal);
            return Err(refusal);
        }
        arrivals[hello.rank.idx()] = Some(Arrival { stream, address: hello.address });
    }
    Ok(())
}

/// Takes connections until one says hello properly. Whoever does not is a stranger, not a rank that fails.
fn next_hello(listener: &TcpListener, shared: &Shared, deadline: Deadline) -> Result<(TcpStream, Hello), NoHello> {
    loop {
        if shared.stop.load(Ordering::Relaxed) {
            return Err(NoHello::Stopped);
        }
        let left = deadline.remaining().ok_or(NoHello::Expired)?;
        // Accepting again costs little; whatever is wrong, the deadline ends it.
        let Ok((mut stream, _)) = listener.accept() else {
            thread::sleep(POLL.min(left));
            continue;
        };
        let Ok(handle) = stream.try_clone() else { continue };
        shared.streams.update(|streams| streams.push(handle));
        // The host may have been dropped just before its connections got this one.
        if shared.stop.load(Ordering::Relaxed) {
            return Err(NoHello::Stopped);
        }
        match first_word(&mut stream, left) {
            Ok(hello) => return Ok((stream, hello)),
            Err(_) => shared.streams.update(Vec::pop),
        };
    }
}

fn first_word(stream: &mut TcpStream, left: Duration) -> io::Result<Hello> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(left.min(FIRST_WORD)))?;
    let frame = read_frame(stream, MAX_HELLO_BYTES)?;
    if frame.kind != Kind::Hello {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Hello::decode(&frame.payload)
}

/// Whether a rank fits.
fn check(hello: &Hello, spec: &HostSpec, arrivals: &[Option<Arrival>]) -> Result<(), Refusal> {
    let &Hello { version, n_ranks, rank, ref fingerprints, .. } = hello;
    if version != VERSION {
        return Err(Refusal::Version { rank, theirs: version, ours: VERSION });
    }
    if n_ranks != spec.n_ranks {
        return Err(Refusal::World { rank, theirs: n_ranks, ours: spec.n_ranks });
    }
    match arrivals.get(rank.idx()) {
        None => return Err(Refusal::NoSuchRank { rank, n_ranks }),
        Some(Some(_)) => return Err(Refusal::Duplicate { rank }),
        Some(None) => {}
    }
    if fingerprints.len() != spec.certificates.len() {
        let (theirs, ours) = (fingerprints.len() as u32, spec.certificates.len() as u32);
        return Err(Refusal::Programs { rank, theirs, ours });
    }
    for ((&built, certificate), program) in fingerprints.iter().zip(&spec.certificates).zip(0..) {
        let verified = certificate.fingerprints()[rank.idx()];
        if built != verified {
            return Err(Refusal::Program { rank, program, built, verified });
        }
    }
    Ok(())
}

/// A rank that cannot be told will notice the end of the connection.
fn refuse(stream: &mut TcpStream, refusal: &Refusal) {
    let _ = write_frame(stream, Kind::Refused, 0, 0, &refusal.encode());
}

/// A number that no other run has, from the randomness that the standard library seeds its hash maps with.
fn run_id() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    (half() << 64) | half()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_before_anything_else() {
        let spec = HostSpec { n_ranks: 2, certificates: Vec::new(), deadline: POLL, heartbeat: POLL, secret: None };
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let hello = Hello { version: 9, n_ranks: 7, rank: Rank(5), fingerprints: Vec::new(), address };
        let expected = Refusal::Version { rank: Rank(5), theirs: 9, ours: VERSION };
        assert_eq!(check(&hello, &spec, &[None, None]), Err(expected));
    }

    #[test]
    fn runs_have_different_ids() {
        assert_ne!(run_id(), run_id());
    }
}
