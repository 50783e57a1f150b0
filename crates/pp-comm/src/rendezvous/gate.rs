//! Who is let in at a listener: many callers at once, each within bounds until it has proved itself.
//!
//! Before its proof a caller costs at most [`MAX_STRANGER_BYTES`] and [`PATIENCE`]; beyond [`MAX_CALLERS`] at once the
//! oldest is hung up on. Nobody holds up anybody: no read here waits.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use pp_schedule::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::auth::{Challenge, Greeting, Purpose, Role, Said, nonce};
use super::protocol::VERSION;
use super::refusal::Refusal;
use super::secret::Secret;
use crate::wire::{Fields, Kind, MAX_STRANGER_BYTES, encode_frame, parse_frame};

/// How long a caller may take to prove itself.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The most callers that have not proved themselves; a true one that is hung up on calls again.
const MAX_CALLERS: usize = 128;

/// The most connections taken in before those that are there are looked at again.
const AT_ONCE: usize = 64;

/// Connections that the system keeps until they are looked at: all ranks of a large run may call at once, and whoever finds
/// no room calls again only a second later.
const BACKLOG: i32 = 4096;

/// Pause of a listener between two looks that found nothing.
pub(super) const POLL: Duration = Duration::from_millis(1);

/// Somebody who knows the secret.
pub(super) struct Guest {
    /// In blocking mode, with no byte read ahead.
    pub(super) stream: TcpStream,
    pub(super) greeting: Greeting,
    /// The payload of its first word; its beginning is the greeting.
    pub(super) first_word: Vec<u8>,
}

/// What a look at the gate showed.
#[derive(Default)]
pub(super) struct Look {
    pub(super) guests: Vec<Guest>,
    /// As which ranks somebody came who does not know the secret.
    pub(super) strangers: Vec<Rank>,
    /// Something happened: looking again at once is worth while.
    pub(super) busy: bool,
    /// Why nobody can be taken in although no caller is left to be hung up on: what the process lacks is not the gate's.
    pub(super) shortage: Option<io::Error>,
}

/// A listener, and who stands before it.
pub(super) struct Gate<'a> {
    listener: &'a TcpListener,
    purpose: Purpose,
    secret: Option<&'a Secret>,
    run: u128,
    callers: VecDeque<Caller>,
    /// The most callers: fewer where the system does not let the process have as many files open.
    room: usize,
}

impl<'a> Gate<'a> {
    /// A gate at a listener, which must not block.
    pub(super) fn new(listener: &'a TcpListener, purpose: Purpose, secret: Option<&'a Secret>, run: u128) -> Self {
        // A listener that the system does not let grow does with what it has.
        let _ = rustix::net::listen(listener, BACKLOG);
        Self { listener, purpose, secret, run, callers: VecDeque::new(), room: MAX_CALLERS }
    }

    /// Whether somebody waits to be taken in.
    fn is_called(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(self.listener, PollFlags::IN)], Some(&at_once)).is_ok_and(|n_ready| n_ready > 0)
    }

    /// Hangs up on the oldest half of the callers, and takes in no more than the other half from now on: whoever proves itself
    /// will need files too.
    fn make_room(&mut self) {
        let n_gone = self.callers.len().div_ceil(2);
        self.callers.drain(..n_gone);
        self.room = self.callers.len().max(1);
    }

    /// Hears everybody who has something to say, without waiting for anybody.
    pub(super) fn look(&mut self) -> Look {
        let mut look = Look::default();
        for _ in 0..AT_ONCE {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                // The system says so also when nobody calls.
                Err(error) if is_shortage(&error) && self.is_called() => {
                    if self.callers.is_empty() {
                        look.shortage = Some(error);
                    } else {
                        self.make_room();
                        look.busy = true;
                    }
                    break;
                }
                // Whatever is wrong with a connection that cannot be taken, the next look is another attempt.
                Err(_) => break,
            };
            look.busy = true;
            if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_err() {
                continue;
            }
            if self.callers.len() >= self.room {
                self.callers.pop_front();
            }
            self.callers.push_back(Caller {
                stream,
                since: Instant::now(),
                heard: Vec::new(),
                stage: Stage::FirstWord,
            });
        }
        for mut caller in std::mem::take(&mut self.callers) {
            match caller.hear(self.purpose, self.secret, self.run) {
                Ok(Heard::Proof { greeting, first_word }) => {
                    look.busy = true;
                    look.guests.extend(Guest { stream: caller.stream, greeting, first_word }.admit());
                }
                Ok(Heard::WrongProof(rank)) => {
                    look.busy = true;
                    look.strangers.push(rank);
                }
                Ok(Heard::Something) => {
                    look.busy = true;
                    self.callers.push_back(caller);
                }
                Ok(Heard::Nothing) if caller.since.elapsed() < PATIENCE => self.callers.push_back(caller),
                Ok(Heard::Nothing) | Err(_) => {}
            }
        }
        look
    }
}

/// Whether the system refused something because this process, or all of them, have too many open files.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    let known = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| known.contains(&number))
}

impl Guest {
    /// Makes its connection one that waits; none if that fails.
    fn admit(self) -> Option<Self> {
        self.stream.set_nonblocking(false).is_ok().then_some(self)
    }
}

/// A connection that may turn out to be anybody's.
struct Caller {
    stream: TcpStream,
    since: Instant,
    /// What came of the word that is expected.
    heard: Vec<u8>,
    stage: Stage,
}

/// Which word is expected.
enum Stage {
    FirstWord,
    Proof { greeting: Greeting, first_word: Vec<u8>, challenge: Vec<u8> },
}

/// What a caller said.
enum Heard {
    Nothing,
    Something,
    Proof { greeting: Greeting, first_word: Vec<u8> },
    WrongProof(Rank),
}

impl Caller {
    /// Takes in what has come; an error means that it is to be hung up on.
    fn hear(&mut self, purpose: Purpose, secret: Option<&Secret>, run: u128) -> io::Result<Heard> {
        let mut bytes = [0; MAX_STRANGER_BYTES];
        let room = MAX_STRANGER_BYTES - self.heard.len();
        match self.stream.read(&mut bytes[..room]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n_bytes) => self.heard.extend(&bytes[..n_bytes]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(Heard::Nothing);
            }
            Err(error) => return Err(error),
        }
        let expected = match self.stage {
            Stage::FirstWord => purpose.first_word(),
            Stage::Proof { .. } => Kind::Proof,
        };
        let Some(frame) = parse_frame(&self.heard, &[expected])? else { return Ok(Heard::Something) };
        self.heard.clear();
        match std::mem::replace(&mut self.stage, Stage::FirstWord) {
            Stage::FirstWord => self.challenge(frame.payload, secret, run).map(|()| Heard::Something),
            Stage::Proof { greeting, first_word, challenge } => {
                let said = Said { purpose, first_word: &first_word, challenge: &challenge };
                if said.is_proof(secret, Role::Caller, &frame.payload) {
                    self.say(Kind::Proven, &said.prove(secret, Role::Called))?;
                    return Ok(Heard::Proof { greeting, first_word });
                }
                let rank = Rank(greeting.rank);
                let refusal = Refusal::Secret { rank, theirs: greeting.has_secret, ours: secret.is_some() };
                self.say(Kind::Refused, &refusal.encode())?;
                Ok(Heard::WrongProof(rank))
            }
        }
    }

    /// Answers a first word.
    fn challenge(&mut self, first_word: Vec<u8>, secret: Option<&Secret>, run: u128) -> io::Result<()> {
        let greeting = Greeting::decode(&mut Fields(&first_word)).or_else(|error| {
            // Before version 2 there was no challenge: such a rank can be told what is wrong, and no more.
            let mut fields = Fields(&first_word);
            let (version, _, rank) = (fields.u32()?, fields.u32()?, Rank(fields.u32()?));
            if version != VERSION {
                let refusal = Refusal::Version { rank, theirs: version, ours: VERSION };
                self.say(Kind::Refused, &refusal.encode())?;
            }
            Err(error)
        })?;
        let challenge = Challenge { version: VERSION, has_secret: secret.is_some(), nonce: nonce()?, run }.encode();
        self.say(Kind::Challenge, &challenge)?;
        self.stage = Stage::Proof { greeting, first_word, challenge };
        Ok(())
    }

    /// Says a word that is far smaller than what any connection takes without waiting.
    fn say(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&encode_frame(kind, 0, 0, payload))
    }
}
