//! Making the links: one connection per channel, all before step 0, in one global order.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pp_schedule::{Channel, Rank, Role};

use super::RendezvousError;
use super::auth::{Greeting, Purpose, nonce};
use super::dial::connect;
use super::gate::{Gate, Guest, POLL, is_shortage};
use super::knock::{NotIn, knock};
use super::protocol::{LinkHello, VERSION};
use super::secret::Secret;
use crate::alarm::{Alarm, Watch};
use crate::board::Board;
use crate::deadline::Deadline;
use crate::endpoint::{Pipe, Transports};
use crate::wire::invalid;

/// The longest that proofs may take before the rank dials again; a peer answers at once.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Pause between two attempts to dial.
const RETRY: Duration = Duration::from_millis(10);

/// How long the host is given to say which rank went first, once a peer does not answer.
const VERDICT: Duration = Duration::from_secs(1);

/// How long there may be no file free for a link before that is why there is none.
const SHORTAGE: Duration = Duration::from_millis(250);

/// What a rank needs to make its links.
pub(super) struct Linking<'a> {
    pub(super) rank: Rank,
    pub(super) n_ranks: u32,
    /// Tells this run's links from those of any other.
    pub(super) run: u128,
    /// What the run's programs hash to.
    pub(super) programs: [u8; 32],
    pub(super) secret: Option<&'a Secret>,
    /// Where the ranks take links, by rank.
    pub(super) addresses: &'a [SocketAddr],
    /// Where this rank does.
    pub(super) listener: &'a TcpListener,
    pub(super) deadline: Deadline,
    /// What bytes may go through.
    pub(super) transports: Transports,
    /// Where the loss of a rank is noted.
    pub(super) alarm: &'a Alarm,
}

/// The links that peers have dialed.
#[derive(Default)]
struct Arrived {
    streams: BTreeMap<Channel, TcpStream>,
    /// Why no more will come.
    fault: Option<RendezvousError>,
}

impl Linking<'_> {
    /// Makes the links of `channels`, which are this rank's in the global order.
    ///
    /// The source of a channel dials, its destination accepts: in a thread beside, so that nobody who dials waits for
    /// what this rank does meanwhile. What two ranks then agree on over a link, they do in the global order on both sides:
    /// the first link that is not made yet has both its ranks at work on it, so no circle of waiting ranks can form.
    pub(super) fn make(&self, channels: &[Channel]) -> Result<Vec<(Channel, Pipe)>, RendezvousError> {
        let (arrived, done) = (Board::new(Arrived::default()), AtomicBool::new(false));
        let inbound: Vec<Channel> = channels.iter().filter(|channel| channel.source != self.rank).copied().collect();
        thread::scope(|scope| {
            let accept = || self.accept(&inbound, &arrived, &done);
            let acceptor = thread::Builder::new().name("accept".to_owned()).spawn_scoped(scope, accept);
            let links = acceptor.map_err(RendezvousError::system("start accepting links")).and_then(|_| {
                let made = channels.iter().map(|&channel| Ok((channel, self.link(channel, &arrived)?)));
                made.collect()
            });
            done.store(true, Ordering::Relaxed);
            links
        })
    }

    /// A wait of this rank's, which a loss ends too.
    const fn watch(&self, deadline: Deadline) -> Watch<'_> {
        Watch::new(deadline, self.alarm)
    }

    fn link(&self, channel: Channel, arrived: &Board<Arrived>) -> Result<Pipe, RendezvousError> {
        let (role, stream) = if channel.source == self.rank {
            (Role::Send, self.dial(channel).map_err(|error| self.error(channel, &error))?)
        } else {
            (Role::Receive, self.await_peer(channel, arrived)?)
        };
        let pipe = Pipe::negotiate(stream, role, self.transports, self.watch(self.deadline));
        pipe.map_err(|error| self.error(channel, &error))
    }

    /// Dials until the peer has proved itself; it may have hung up because so many strangers called.
    fn dial(&self, channel: Channel) -> io::Result<TcpStream> {
        let address = self.addresses.get(channel.destination.idx()).ok_or(io::ErrorKind::NotFound)?;
        loop {
            let mut stream = connect(address, self.watch(self.deadline))?;
            let (n_ranks, rank, has_secret) = (self.n_ranks, self.rank.0, self.secret.is_some());
            let greeting = Greeting { version: VERSION, n_ranks, rank, has_secret, nonce: nonce()? };
            let hello = LinkHello { greeting, run: self.run, channel, programs: self.programs }.encode();
            let attempt = self.watch(self.deadline.at_most(HANDSHAKE));
            match knock(&mut stream, Purpose::Link, &hello, self.secret, attempt) {
                Ok(run) if run == self.run => {
                    stream.set_read_timeout(None)?;
                    stream.set_write_timeout(None)?;
                    return Ok(stream);
                }
                Ok(_) => return Err(invalid(format!("a rank of another run answers at {address}"))),
                Err(NotIn::Failed(error)) if self.may_be_storm(&error) => thread::sleep(RETRY),
                Err(not_in) => return Err(not_in.into_error()),
            }
        }
    }

    /// Whether the peer may have hung up because so many strangers called.
    fn may_be_storm(&self, error: &io::Error) -> bool {
        error.kind() != io::ErrorKind::InvalidData && !is_shortage(error) && !self.alarm.has_rung()
    }

    /// Waits for the peer to dial.
    fn await_peer(&self, channel: Channel, arrived: &Board<Arrived>) -> Result<TcpStream, RendezvousError> {
        let found = arrived.wait(self.deadline, |arrived| {
            arrived.streams.remove(&channel).map(Ok).or_else(|| arrived.fault.take().map(Err))
        });
        found.unwrap_or_else(|| {
            let reason = format!("rank {} did not dial within {:?}", channel.source, self.deadline.limit());
            Err(RendezvousError::Link { rank: self.rank, channel, reason })
        })
    }

    /// The life of the accepting thread: until every peer has dialed, or nobody waits for them any more.
    fn accept(&self, inbound: &[Channel], arrived: &Board<Arrived>, done: &AtomicBool) {
        let mut gate = Gate::new(self.listener, Purpose::Link, self.secret, self.run);
        let (mut awaited, mut short_since) = (inbound.to_vec(), None::<Instant>);
        while !awaited.is_empty() && !done.load(Ordering::Relaxed) && self.deadline.remaining().is_some() {
            let look = gate.look();
            for guest in look.guests {
                match self.seat(guest, inbound) {
                    Ok(Some((channel, stream))) => {
                        awaited.retain(|&other| other != channel);
                        arrived.update(|arrived| drop(arrived.streams.insert(channel, stream)));
                    }
                    // Of another run, or talking nonsense: a stranger, not a rank that fails.
                    Ok(None) => {}
                    Err(fault) => return arrived.update(|arrived| arrived.fault = Some(fault)),
                }
            }
            if let Some(loss) = self.alarm.loss() {
                return arrived.update(|arrived| arrived.fault = Some(RendezvousError::Comm(loss.into())));
            }
            // What agreeing on a link takes for a moment comes back.
            let since = look.shortage.is_some().then(|| short_since.unwrap_or_else(Instant::now));
            short_since = since;
            if let (Some(shortage), Some(true)) = (look.shortage, since.map(|since| since.elapsed() > SHORTAGE)) {
                let fault =
                    RendezvousError::System { what: "take the links of other ranks".to_owned(), source: shortage };
                return arrived.update(|arrived| arrived.fault = Some(fault));
            }
            if !look.busy {
                thread::sleep(POLL);
            }
        }
    }

    /// The channel that somebody is here for, if it is of this run.
    fn seat(&self, guest: Guest, inbound: &[Channel]) -> Result<Option<(Channel, TcpStream)>, RendezvousError> {
        let Greeting { version, n_ranks, rank, .. } = guest.greeting;
        let Ok(hello) = LinkHello::decode(&guest.first_word) else { return Ok(None) };
        let LinkHello { run, channel, programs, .. } = hello;
        if (version, n_ranks, run, programs) != (VERSION, self.n_ranks, self.run, self.programs) {
            return Ok(None);
        }
        if channel.source != Rank(rank) || !inbound.contains(&channel) {
            let reason = format!("rank {rank} dialed for it, which has no place here");
            return Err(RendezvousError::Link { rank: self.rank, channel, reason });
        }
        Ok(Some((channel, guest.stream)))
    }

    fn error(&self, channel: Channel, error: &io::Error) -> RendezvousError {
        // The rank that the host knows to be lost is the better reason; the peer may only have left because of it. What two
        // ranks do not agree on is nobody's loss.
        let disagreed = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::Unsupported);
        // What this process lacks is its own fault, whoever else may be lost.
        let patience = if disagreed || is_shortage(error) { Duration::ZERO } else { VERDICT };
        match self.alarm.wait(self.deadline.at_most(patience)) {
            Some(loss) => RendezvousError::Comm(loss.into()),
            None => RendezvousError::Link { rank: self.rank, channel, reason: error.to_string() },
        }
    }
}
