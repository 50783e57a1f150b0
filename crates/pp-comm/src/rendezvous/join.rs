//! A rank's side of the rendezvous.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use pp_schedule::{Certificate, Channel, Fingerprint, Rank};

use super::address::peek_address;
use super::links::Linking;
use super::protocol::{Hello, MAX_WELCOME_BYTES, VERSION, Welcome};
use super::secret::Secret;
use super::{Refusal, RendezvousError};
use crate::alarm::Alarm;
use crate::control::{Control, SocketControl};
use crate::deadline::Deadline;
use crate::endpoint::{Endpoint, RoughLinks, SocketTransport, Transports};
use crate::flight::Recorder;
use crate::member::{Member, channels_of};
use crate::wire::{Kind, invalid, read_frame, write_frame};

/// Pause between two attempts to reach the host.
const RETRY: Duration = Duration::from_millis(10);

/// The longest single attempt to reach an address that a file names: it may be an old one.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The host's verdict comes at its deadline; a rank gives it this long to arrive.
const VERDICT_GRACE: Duration = Duration::from_secs(1);

/// Where the host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAddress {
    /// At an address that is known.
    Known(SocketAddr),
    /// Where a file says that [`publish_address`](super::publish_address) writes; looked at anew with every attempt.
    InFile(PathBuf),
}

impl From<SocketAddr> for HostAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Known(address)
    }
}

impl HostAddress {
    /// The address as it is known now.
    fn look(&self) -> Result<Option<SocketAddr>, RendezvousError> {
        match self {
            Self::Known(address) => Ok(Some(*address)),
            Self::InFile(path) => peek_address(path),
        }
    }

    /// What a single attempt may take of the time that is left.
    fn attempt(&self, left: Duration) -> Duration {
        match self {
            Self::Known(_) => left,
            Self::InFile(_) => left.min(ATTEMPT),
        }
    }

    /// Why nobody was reached, by the last attempt there was.
    fn unreachable(&self, last: Option<(SocketAddr, String)>, limit: Duration) -> RendezvousError {
        match (last, self) {
            (Some((address, reason)), _) => RendezvousError::Unreachable { address, limit, reason },
            (None, Self::InFile(path)) => RendezvousError::NoAddress { path: path.display().to_string(), limit },
            (None, &Self::Known(address)) => {
                RendezvousError::Unreachable { address, limit, reason: "no time was given".to_owned() }
            }
        }
    }
}

/// Who joins.
#[derive(Clone, Debug)]
pub struct JoinSpec {
    /// Where the host listens; it need not do so yet. Every rank should give the same address, rank 0 too: the address
    /// by which a rank reaches the host is also the one by which the others will reach the rank.
    pub host: HostAddress,
    /// The rank that joins.
    pub rank: Rank,
    /// How many ranks it believes there are.
    pub n_ranks: u32,
    /// The fingerprints of the programs it has built, in the order of the host's certificates.
    pub fingerprints: Vec<Fingerprint>,
    /// The channels of all its programs together; those of other ranks are passed over.
    pub channels: Vec<Channel>,
    /// How long the rendezvous may take as a whole, and each wait after it.
    pub deadline: Duration,
    /// How long a rank may be silent before it counts as frozen; several signs of life are given in this time.
    pub heartbeat: Duration,
    /// What messages may go through.
    pub transports: Transports,
    /// Whether this rank's ends of the links are made rough on purpose, for tests.
    pub rough: Option<RoughLinks>,
    /// What all ranks of the run know and nobody else; none only where nobody else can connect.
    pub secret: Option<Secret>,
}

/// What a rank has once all have joined.
#[derive(Debug)]
pub struct Joined {
    /// Its place in the run.
    pub member: Member,
    /// The certificates of the programs, as the host gave them: they make the rank's own programs fit to be executed.
    pub certificates: Vec<Certificate>,
}

/// Joins a run: returns once every rank is there, fits, and has made all its links.
///
/// # Errors
/// [`RendezvousError`], which names the ranks that are missing or do not fit.
pub fn join(spec: &JoinSpec) -> Result<Joined, RendezvousError> {
    let &JoinSpec { rank, n_ranks, deadline: limit, .. } = spec;
    let deadline = Deadline::after(limit);
    let cannot = || RendezvousError::system(format!("join as rank {rank}"));
    let Met { stream, listener, welcome: Welcome { run, addresses, certificates } } = meet(spec, deadline)?;

    let channels = channels_of(rank, &spec.channels);
    let (alarm, recorder) = (Alarm::default(), Recorder::new(rank));
    // Listening to the host from here on: a rank that is lost while the links are made shows at once.
    let control = SocketControl::new(stream, n_ranks, limit, alarm.clone()).map_err(cannot())?;
    let mut control = Control::socket(n_ranks, limit, recorder.clone(), control);
    let linking = Linking {
        rank,
        run,
        addresses: &addresses,
        listener: &listener,
        deadline,
        transports: spec.transports,
        alarm: &alarm,
    };
    let links = linking.make(&channels)?;
    let endpoint =
        Endpoint::socket(channels, limit, recorder.clone(), SocketTransport::new(rank, links, spec.rough, &alarm)?);
    control.barrier()?;
    Ok(Joined { member: Member { endpoint, control }, certificates })
}

/// A rank that the host has welcomed.
struct Met {
    stream: TcpStream,
    listener: TcpListener,
    welcome: Welcome,
}

/// Reaches the host and hears its answer. Whoever does not answer as a host does is passed over where a file has come to
/// name another since.
fn meet(spec: &JoinSpec, deadline: Deadline) -> Result<Met, RendezvousError> {
    let &JoinSpec { rank, n_ranks, deadline: limit, .. } = spec;
    let cannot = || RendezvousError::system(format!("join as rank {rank}"));
    loop {
        let (mut stream, host) = dial(&spec.host, deadline)?;
        // The address by which this machine reaches the host is one by which the others reach this machine.
        let local = stream.local_addr().map_err(cannot())?.ip();
        let listener = TcpListener::bind((local, 0)).map_err(cannot())?;
        listener.set_nonblocking(true).map_err(cannot())?;
        let address = listener.local_addr().map_err(cannot())?;
        let fingerprints = spec.fingerprints.clone();
        let hello = Hello { version: VERSION, n_ranks, rank, fingerprints, address };
        match ask(&mut stream, &hello, deadline).and_then(|answer| check_size(answer, n_ranks)) {
            Ok(Ok(welcome)) => return Ok(Met { stream, listener, welcome }),
            Ok(Err(refusal)) => return Err(RendezvousError::Refused(refusal)),
            Err(_) if deadline.remaining().is_some() && spec.host.look()? != Some(host) => {}
            Err(error) => {
                return Err(RendezvousError::NoAnswer { rank, address: host, limit, reason: error.to_string() });
            }
        }
    }
}

/// Reaches the host, which may still be starting.
fn dial(host: &HostAddress, deadline: Deadline) -> Result<(TcpStream, SocketAddr), RendezvousError> {
    let mut last = None;
    while let Some(left) = deadline.remaining() {
        if let Some(address) = host.look()? {
            match TcpStream::connect_timeout(&address, host.attempt(left)) {
                // On a free local port the system can connect a socket to itself; that is no host.
                Ok(stream) if stream.local_addr().ok() == stream.peer_addr().ok() => {}
                Ok(stream) => return Ok((stream, address)),
                Err(error) => last = Some((address, error.to_string())),
            }
        }
        thread::sleep(RETRY.min(left));
    }
    Err(host.unreachable(last, deadline.limit()))
}

/// Says hello and waits for the host's answer, which comes when all ranks are there.
fn ask(stream: &mut TcpStream, hello: &Hello, deadline: Deadline) -> io::Result<Result<Welcome, Refusal>> {
    stream.set_nodelay(true)?;
    let left = deadline.with_grace(VERDICT_GRACE).remaining().ok_or(io::ErrorKind::TimedOut)?;
    stream.set_read_timeout(Some(left))?;
    write_frame(stream, Kind::Hello, hello.rank.0, 0, &hello.encode())?;
    let answer = read_frame(stream, MAX_WELCOME_BYTES)?;
    match answer.kind {
        Kind::Welcome => Welcome::decode(&answer.payload).map(Ok),
        Kind::Refused => Refusal::decode(&answer.payload).map(Err),
        kind => Err(invalid(format!("a frame of kind {kind:?}"))),
    }
}

/// A welcome must have an address for each rank: links are made by them.
fn check_size(answer: Result<Welcome, Refusal>, n_ranks: u32) -> io::Result<Result<Welcome, Refusal>> {
    match &answer {
        Ok(welcome) if welcome.addresses.len() != n_ranks as usize => {
            Err(invalid(format!("a welcome for {} ranks", welcome.addresses.len())))
        }
        _ => Ok(answer),
    }
}
