//! A rank's side of the rendezvous.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use pp_schedule::{Certificate, Channel, Fingerprint, Rank};

use super::address::peek_address;
use super::auth::{Greeting, Purpose, nonce};
use super::knock::{NotIn, Until, knock};
use super::links::Linking;
use super::lists::compare;
use super::protocol::{Hello, VERSION, Welcome, hash_of};
use super::refusal::Refusal;
use super::secret::Secret;
use super::{RendezvousError, check_open};
use crate::alarm::Alarm;
use crate::control::{Control, Line, SocketControl};
use crate::deadline::Deadline;
use crate::endpoint::{Endpoint, RoughLinks, SocketTransport, Transports};
use crate::error::CommError;
use crate::flight::Recorder;
use crate::member::{Member, channels_of, check_channels};
use crate::wire::{Kind, MAX_STRANGER_BYTES, encode_frame, invalid, read_frame};

/// Pause between two attempts to reach the host.
const RETRY: Duration = Duration::from_millis(10);

/// The longest single attempt to reach an address that a file names: it may be an old one.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The longest that proofs may take before the rank calls again; a host answers at once.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The same at an address that a file names: whoever listens at an old one may never say anything.
const FILE_HANDSHAKE: Duration = Duration::from_secs(3);

/// The host's verdict comes at its deadline; a rank gives it this long to arrive.
const VERDICT_GRACE: Duration = Duration::from_secs(1);

/// No address is longer in writing.
const LONGEST: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)), u16::MAX);

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

    /// What the proofs of a single attempt may take.
    const fn handshake(&self) -> Duration {
        match self {
            Self::Known(_) => HANDSHAKE,
            Self::InFile(_) => FILE_HANDSHAKE,
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
    /// Tells attempts at the same job apart: the host turns away whoever gives another name than it has. May be empty.
    pub run_name: String,
    /// A hash of whatever else all ranks must have been started alike with, such as arguments and data.
    pub terms: u128,
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
/// Both ends of a channel must list it. A run's list unites what the rank's programs need, as lowering gives them, with the
/// [`collective_channels`](crate::Group::collective_channels) and [`ring_channels`](crate::Group::ring_channels) of the groups
/// that the rank uses.
/// ```
/// use std::{net::TcpListener, thread, time::Duration};
/// use pp_comm::{Buffer, Group, Host, HostSpec, JoinSpec, Transports, collectives::GroupComm, join};
/// use pp_schedule::Rank;
///
/// let (deadline, heartbeat) = (Duration::from_secs(20), Duration::from_secs(10));
/// let host = HostSpec {
///     n_ranks: 2,
///     // Of the programs that the ranks will run; here they run none.
///     certificates: Vec::new(),
///     deadline,
///     heartbeat,
///     secret: None,
///     run_name: String::new(),
/// };
/// let host = Host::spawn(TcpListener::bind("127.0.0.1:0")?, host)?;
/// let address = host.address();
/// // Each rank is a process of its own, usually.
/// let live = |rank| {
///     let group = Group::all(2, Rank(rank)).expect("one of the two");
///     let mut channels = group.collective_channels();
///     channels.extend(group.ring_channels());
///     let spec = JoinSpec {
///         host: address.into(),
///         rank: Rank(rank),
///         n_ranks: 2,
///         fingerprints: Vec::new(),
///         channels,
///         deadline,
///         heartbeat,
///         transports: Transports::Auto,
///         rough: None,
///         secret: None,
///         run_name: String::new(),
///         terms: 0,
///     };
///     let mut member = join(&spec).expect("both join").member;
///     let mine = Buffer::i64(&[1], vec![20 + i64::from(rank)]).expect("one element");
///     let sum = GroupComm::new(group).all_reduce(&mut member.endpoint, mine).expect("both give");
///     member.close();
///     sum.as_i64().expect("as given")[0]
/// };
/// let sums = thread::scope(|scope| [0, 1].map(|rank| scope.spawn(move || live(rank))).map(|rank| rank.join()));
/// assert_eq!(sums.map(|sum| sum.expect("no panic")), [41, 41]);
/// host.wait(deadline)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`RendezvousError`], which names the ranks that are missing or do not fit. For channels that cannot be, before anybody
/// is called: [`CommError::NoSuchRank`](crate::CommError::NoSuchRank) and
/// [`CommError::OneRank`](crate::CommError::OneRank).
pub fn join(spec: &JoinSpec) -> Result<Joined, RendezvousError> {
    let &JoinSpec { rank, n_ranks, deadline: limit, .. } = spec;
    check_channels(n_ranks, &spec.channels)?;
    let deadline = Deadline::after(limit);
    let cannot = || RendezvousError::system(format!("join as rank {rank}"));
    let Met { stream, listener, run, welcome: Welcome { heartbeat: theirs, addresses, certificates } } =
        meet(spec, deadline)?;

    let channels = channels_of(rank, &spec.channels);
    let (alarm, recorder) = (Alarm::default(), Recorder::new(rank).of_run(Some(run), n_ranks));
    // Listening to the host from here on: a rank that is lost while the links are made shows at once.
    let line = Line { n_ranks, limit, heartbeat: spec.heartbeat, theirs };
    let control = SocketControl::new(stream, line, &alarm, &recorder).map_err(cannot())?;
    let mut control = Control::socket(n_ranks, limit, recorder.clone(), control);
    compare(&mut control, spec.terms, &channels)?;
    let linking = Linking {
        rank,
        n_ranks,
        run,
        programs: hash_of(&certificates),
        secret: spec.secret.as_ref(),
        addresses: &addresses,
        listener: &listener,
        deadline,
        transports: spec.transports,
        alarm: &alarm,
    };
    let endpoint = linking.make(&channels).and_then(|links| {
        let transport = SocketTransport::new(rank, links, spec.rough, &alarm)?;
        Ok(Endpoint::socket(channels.clone(), limit, recorder.clone(), transport))
    });
    let endpoint = endpoint.inspect_err(|error| tell(&mut control, error))?;
    drop(listener);
    control.barrier()?;
    Ok(Joined { member: Member { endpoint, control }, certificates })
}

/// Tells the others why this rank does not get as far as they, rather than have them see only that it is gone.
fn tell(control: &mut Control, error: &RendezvousError) {
    match error {
        // They know.
        RendezvousError::Comm(CommError::PeerLost { .. }) => {}
        RendezvousError::System { source, .. } => control.abort(&format!("{error}: {source}")),
        _ => control.abort(&error.to_string()),
    }
}

/// A rank that the host has welcomed.
struct Met {
    stream: TcpStream,
    listener: TcpListener,
    run: u128,
    welcome: Welcome,
}

/// Reaches the host and hears its answer. Whoever does not answer as a host does is passed over where a file has come to
/// name another since; whoever hangs up before it has proved itself is called again.
fn meet(spec: &JoinSpec, deadline: Deadline) -> Result<Met, RendezvousError> {
    let &JoinSpec { rank, n_ranks, deadline: limit, ref secret, .. } = spec;
    let cannot = || RendezvousError::system(format!("join as rank {rank}"));
    let no_answer = |(address, reason)| RendezvousError::NoAnswer { rank, address, reason };
    check_len(&hello(spec, LONGEST).map_err(cannot())?.encode())?;
    let mut last = None;
    loop {
        let dialed = dial(&spec.host, secret.as_ref(), deadline);
        let (mut stream, host) = dialed.map_err(|error| last.take().map_or(error, no_answer))?;
        // The address by which this machine reaches the host is one by which the others reach this machine.
        let local = stream.local_addr().map_err(cannot())?.ip();
        let listener = TcpListener::bind((local, 0)).map_err(cannot())?;
        listener.set_nonblocking(true).map_err(cannot())?;
        let address = listener.local_addr().map_err(cannot())?;
        check_open(address, secret.as_ref())?;
        let hello = hello(spec, address).map_err(cannot())?.encode();
        let attempt = deadline.at_most(spec.host.handshake());
        let not_in = match knock(&mut stream, Purpose::Control, &hello, secret.as_ref(), attempt) {
            Ok(run) => match answer(&stream, n_ranks, deadline) {
                Ok(Ok(welcome)) => return Ok(Met { stream, listener, run, welcome }),
                Ok(Err(refusal)) => return Err(RendezvousError::Refused(refusal)),
                Err(error) => NotIn::Failed(error),
            },
            Err(NotIn::Failed(error)) if may_be_storm(&error) => {
                last = Some((host, instead(&error, limit)));
                thread::sleep(RETRY);
                continue;
            }
            Err(not_in) => not_in,
        };
        if deadline.remaining().is_some() && spec.host.look()? != Some(host) {
            continue;
        }
        return Err(match not_in {
            NotIn::Refused(refusal) => RendezvousError::Refused(refusal),
            NotIn::WrongSecret => RendezvousError::WrongSecret { rank, address: host },
            NotIn::Failed(error) => no_answer((host, instead(&error, limit))),
        });
    }
}

/// Whether a host may have hung up on a rank because so many strangers called, rather than speak something else.
fn may_be_storm(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::InvalidData
}

/// What happened instead of an answer.
fn instead(error: &io::Error, limit: Duration) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it hung up".to_owned(),
        io::ErrorKind::TimedOut => format!("nothing came within {limit:?}"),
        _ => error.to_string(),
    }
}

fn hello(spec: &JoinSpec, address: SocketAddr) -> io::Result<Hello> {
    let (n_ranks, rank, has_secret) = (spec.n_ranks, spec.rank.0, spec.secret.is_some());
    let greeting = Greeting { version: VERSION, n_ranks, rank, has_secret, nonce: nonce()? };
    let (run_name, heartbeat, fingerprints) = (spec.run_name.clone(), spec.heartbeat, spec.fingerprints.clone());
    Ok(Hello { greeting, run_name, heartbeat, address, fingerprints })
}

fn check_len(hello: &[u8]) -> Result<(), RendezvousError> {
    let (n_bytes, limit) = (encode_frame(Kind::Hello, 0, 0, hello).len(), MAX_STRANGER_BYTES);
    if n_bytes > limit { Err(RendezvousError::TooLong { n_bytes, limit }) } else { Ok(()) }
}

/// Reaches the host, which may still be starting.
fn dial(
    host: &HostAddress,
    secret: Option<&Secret>,
    deadline: Deadline,
) -> Result<(TcpStream, SocketAddr), RendezvousError> {
    let mut last = None;
    while let Some(left) = deadline.remaining() {
        if let Some(address) = host.look()? {
            check_open(address, secret)?;
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

/// Waits for the host's answer, which comes when all ranks are there. A welcome must have an address for each of them:
/// links are made by them.
fn answer(stream: &TcpStream, n_ranks: u32, deadline: Deadline) -> io::Result<Result<Welcome, Refusal>> {
    let mut until = Until { stream, deadline: deadline.with_grace(VERDICT_GRACE).into() };
    let answer = read_frame(&mut until, &[Kind::Welcome, Kind::Refused])?;
    if answer.kind == Kind::Refused {
        return Refusal::decode(&answer.payload).map(Err);
    }
    let welcome = Welcome::decode(&answer.payload)?;
    if welcome.addresses.len() != n_ranks as usize {
        return Err(invalid(format!("a welcome for {} ranks", welcome.addresses.len())));
    }
    Ok(Ok(welcome))
}
