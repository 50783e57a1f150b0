//! The host's part in the collectives of a run: it collects what the ranks give, hands all parts to all of them, and
//! tells everybody when a rank is gone.
//!
//! Every rank's connection has two threads here, one that listens and one that writes: a rank that does not read holds up
//! nobody but itself.

use std::io::{self, BufReader, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pp_schedule::Rank;

use super::blame::Inquest;
use super::ear::{Ear, ending, interval};
use super::heard::{MAX_ROWS, Reports};
use super::outbox::{Letter, deliver};
use crate::collective::Collective;
use crate::deadline::Deadline;
use crate::error::Loss;
use crate::round::Round;
use crate::wire::{Fields, Frame, Kind, Payload, encode_frame, invalid, read_frame};

/// How long the server sleeps when no collective is in progress.
const IDLE: Duration = Duration::from_secs(3600);

/// How long what is left to say to a rank that is gone may take.
const LINGER: Duration = Duration::from_secs(1);

/// What ranks say.
const FROM_RANK: [Kind; 5] = [Kind::Barrier, Kind::AllGather, Kind::Beat, Kind::Abort, Kind::Goodbye];

/// A rank's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// How long the rank bears silence.
    pub(crate) heartbeat: Duration,
}

enum Event {
    Frame(Frame),
    /// The connection ended: in good order, or how.
    Gone(Result<(), String>),
}

/// A rank's connection as its two threads and the server have it.
struct Line {
    ear: Ear,
    mouth: TcpStream,
    /// For the reader to hang up with.
    stream: TcpStream,
    interval: Duration,
}

/// Serves the ranks, one connection each in rank order, until all are gone; whoever is silent for `heartbeat` is lost.
pub(crate) fn serve(connections: Vec<Connection>, limit: Duration, heartbeat: Duration) -> io::Result<()> {
    let open = |Connection { stream, heartbeat: theirs }| {
        let (ear, mouth) = (Ear::new(stream.try_clone()?, heartbeat)?, stream.try_clone()?);
        let seat = stream.try_clone()?;
        Ok((Line { ear, mouth, stream, interval: interval(heartbeat, theirs) }, seat))
    };
    let lines: Vec<(Line, TcpStream)> = connections.into_iter().map(open).collect::<io::Result<_>>()?;
    let reports = Reports::new(lines.len());
    let (sender, events) = mpsc::channel();
    thread::scope(|scope| {
        let mut seats = Vec::with_capacity(lines.len());
        let mut started = Ok(());
        for (rank, (line, stream)) in (0..).map(Rank).zip(lines) {
            let (outbox, letters) = mpsc::channel();
            let (sender, reports) = (sender.clone(), reports.clone());
            seats.push(Some(Seat { outbox, stream }));
            if started.is_ok() {
                started = start(scope, rank, line, letters, sender, reports);
            }
        }
        drop(sender);
        if started.is_err() {
            for Seat { stream, .. } in seats.into_iter().flatten() {
                // It wakes the threads that have started; an error means that the connection is gone already.
                let _ = stream.shutdown(Shutdown::Both);
            }
            return started;
        }
        Server::new(seats, limit, reports).run(&events);
        Ok(())
    })
}

/// Starts a rank's two threads.
fn start<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    rank: Rank,
    line: Line,
    letters: mpsc::Receiver<Letter>,
    sender: mpsc::Sender<(Rank, Event)>,
    reports: Reports,
) -> io::Result<()> {
    let Line { ear, mouth, stream, interval } = line;
    // Nothing is ever sent on it: it ends with the writer.
    let (writing, written) = mpsc::channel::<()>();
    let (to_tell, mut first) = (reports.clone(), 0);
    let news = move || {
        let (payload, next) = to_tell.news(first);
        first = next;
        encode_frame(Kind::News, 0, 0, &payload)
    };
    let write = move || {
        let _writing = writing;
        deliver(mouth, &letters, interval, news);
    };
    let listen = move || {
        read(rank, &mut BufReader::new(ear), &reports, &sender);
        drop(sender);
        let _ = written.recv_timeout(LINGER);
        // It wakes a writer whom the rank does not hear; an error means that the connection is gone already.
        let _ = stream.shutdown(Shutdown::Both);
    };
    thread::Builder::new().name(format!("to-{rank}")).spawn_scoped(scope, write)?;
    thread::Builder::new().name(format!("from-{rank}")).spawn_scoped(scope, listen)?;
    Ok(())
}

/// The life of one rank's reading thread.
fn read(rank: Rank, stream: &mut impl Read, reports: &Reports, events: &mpsc::Sender<(Rank, Event)>) {
    loop {
        let event = match read_frame(stream, &FROM_RANK) {
            Ok(frame) if frame.kind == Kind::Goodbye => Event::Gone(Ok(())),
            Ok(frame) if frame.kind == Kind::Beat => match reports.take_beat(rank, &frame.payload) {
                Ok(()) => continue,
                Err(error) => Event::Gone(Err(format!("it broke the protocol: {error}"))),
            },
            Ok(frame) => Event::Frame(frame),
            Err(error) => Event::Gone(Err(ending(&error, "to the host"))),
        };
        let last = matches!(event, Event::Gone(_));
        // The server outlives the readers; were it gone, nobody would need the event.
        if events.send((rank, event)).is_err() || last {
            return;
        }
    }
}

/// Where a rank is reached.
struct Seat {
    outbox: mpsc::Sender<Letter>,
    stream: TcpStream,
}

struct Server {
    /// By rank; none once the rank is gone.
    seats: Vec<Option<Seat>>,
    /// By rank: it has said that it fails, so its end is no news.
    aborted: Vec<bool>,
    limit: Duration,
    round: Round,
    /// When the collective in progress is given up.
    deadline: Option<Deadline>,
    inquest: Inquest,
    /// A rank is lost and everybody knows: what follows, follows from that.
    lost: bool,
    reports: Reports,
}

impl Server {
    fn new(seats: Vec<Option<Seat>>, limit: Duration, reports: Reports) -> Self {
        let (n_ranks, inquest) = (seats.len(), Inquest::default());
        let (aborted, round) = (vec![false; n_ranks], Round::new(0, n_ranks));
        Self { seats, aborted, limit, round, deadline: None, inquest, lost: false, reports }
    }

    fn run(&mut self, events: &mpsc::Receiver<(Rank, Event)>) {
        loop {
            let due = |deadline: Option<Deadline>| deadline.map_or(IDLE, |due| due.remaining().unwrap_or_default());
            let patience = due(self.deadline).min(due(self.inquest.deadline()));
            match events.recv_timeout(patience) {
                Ok((rank, Event::Frame(frame))) => self.take(rank, frame),
                Ok((rank, Event::Gone(how))) => self.leave(rank, how),
                Err(RecvTimeoutError::Timeout) => self.look_at_the_clock(),
                // Every reader has ended.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look_at_the_clock(&mut self) {
        if self.deadline.is_some_and(|deadline| deadline.remaining().is_none()) {
            self.expire();
        }
        if self.inquest.deadline().is_some_and(|deadline| deadline.remaining().is_none())
            && let Some(loss) = self.inquest.verdict()
        {
            self.announce(&loss);
        }
    }

    fn take(&mut self, rank: Rank, frame: Frame) {
        let taken = match frame.kind {
            Kind::Abort => self.hear_abort(rank, &frame.payload),
            _ => self.take_part(rank, frame),
        };
        if let Err(error) = taken {
            self.leave(rank, Err(format!("it broke the protocol: {error}")));
        }
    }

    fn take_part(&mut self, rank: Rank, frame: Frame) -> io::Result<()> {
        let Frame { kind, round, payload, .. } = frame;
        let collective = match kind {
            Kind::Barrier => Collective::Barrier,
            _ => Collective::AllGather,
        };
        if round != self.round.number() || !self.round.missing().contains(&rank) {
            return Err(invalid(format!("collective {round} while {} is in progress", self.round.number())));
        }
        if let Err(ours) = self.round.give(rank, collective, payload) {
            let payload = Payload::default().u32(code_of(collective)).u32(code_of(ours)).0;
            self.tell_all(Kind::Mismatch, rank.0, round, &payload);
            return Ok(());
        }
        self.deadline.get_or_insert(Deadline::after(self.limit));
        if let Some(parts) = self.round.complete() {
            for (part, owner) in parts.into_iter().zip(0..) {
                self.tell_all(Kind::Part, owner, round, part);
            }
            self.round = Round::new(round + 1, self.seats.len());
            self.deadline = None;
        } else {
            self.give_up_on_departed();
        }
        Ok(())
    }

    /// A rank says that it fails: by its own fault, or because of another's end, or without a reason.
    fn hear_abort(&mut self, rank: Rank, payload: &[u8]) -> io::Result<()> {
        let Abort { accused, certain, reason } = Abort::decode(payload)?;
        if accused.idx() >= self.seats.len() {
            return Err(invalid(format!("it blames rank {accused}, which is none")));
        }
        self.aborted[rank.idx()] = true;
        if certain && accused == rank {
            self.announce(&Loss { rank, reason });
        } else if !self.lost {
            self.inquest.hear(rank, accused, reason);
        }
        Ok(())
    }

    /// Notes that a rank is gone, and tells the others unless it left in good order.
    fn leave(&mut self, rank: Rank, how: Result<(), String>) {
        if let Err(reason) = how
            && !self.aborted[rank.idx()]
            && self.seats[rank.idx()].is_some()
        {
            self.announce(&Loss { rank, reason });
        }
        let Some(Seat { stream, outbox: _ }) = self.seats[rank.idx()].take() else { return };
        // It wakes the rank's reader here, if that still listens, who hangs up once the last letter is written; an error
        // means that the connection is gone already.
        let _ = stream.shutdown(Shutdown::Read);
        self.give_up_on_departed();
    }

    /// A collective that waits for a rank that has left will never complete.
    fn give_up_on_departed(&mut self) {
        if self.round.collective().is_none() {
            return;
        }
        let gone = |rank: &Rank| self.seats[rank.idx()].is_none() && !self.aborted[rank.idx()];
        if let Some(rank) = self.round.missing().into_iter().find(gone) {
            let reason = format!("it has left, but collective {} needs it", self.round.number());
            self.announce(&Loss { rank, reason });
        }
    }

    /// Tells everybody, the rank itself included if it still hears, of the first loss there is, and what all did last.
    fn announce(&mut self, loss: &Loss) {
        if std::mem::replace(&mut self.lost, true) {
            return;
        }
        self.inquest = Inquest::default();
        for first in (0..self.seats.len()).step_by(MAX_ROWS) {
            let (news, _) = self.reports.news(first);
            self.tell_all(Kind::News, 0, 0, &news);
        }
        self.tell_all(Kind::Lost, loss.rank.0, 0, clip(&loss.reason).as_bytes());
    }

    /// Gives up on the collective in progress, and says who was missing.
    fn expire(&mut self) {
        self.deadline = None;
        let Some(collective) = self.round.collective() else { return };
        let (missing, millis) = (self.round.missing(), u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX));
        let listed = &missing[..missing.len().min(MAX_LISTED)];
        let payload = Payload::default().u32(code_of(collective)).u64(millis).u32(listed.len() as u32);
        let payload = listed.iter().fold(payload, |payload, rank| payload.u32(rank.0));
        self.tell_all(Kind::Expired, 0, self.round.number(), &payload.0);
    }

    /// A rank that cannot be told is on its way out; its reader will say so.
    fn tell_all(&self, kind: Kind, rank: u32, round: u64, payload: &[u8]) {
        let letter: Letter = Arc::new(encode_frame(kind, rank, round, payload));
        for seat in self.seats.iter().flatten() {
            let _ = seat.outbox.send(Arc::clone(&letter));
        }
    }
}

/// The most ranks that are listed as missing.
const MAX_LISTED: usize = 1000;

/// The most bytes of a reason.
const MAX_REASON: usize = 2000;

/// As much of a reason as is passed on.
fn clip(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON)]
}

/// What a rank says when it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Abort {
    /// Whose fault it is.
    pub(super) accused: Rank,
    /// Whether it knows, rather than only saw the other go or gives no reason.
    pub(super) certain: bool,
    pub(super) reason: String,
}

impl Abort {
    pub(super) fn encode(&self) -> Vec<u8> {
        let payload = Payload::default().u32(self.accused.0).u32(self.certain.into());
        payload.bytes(clip(&self.reason).as_bytes()).0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let (accused, certain) = (Rank(fields.u32()?), fields.u32()? != 0);
        Ok(Self { accused, certain, reason: clip(&String::from_utf8_lossy(fields.bytes()?)).to_owned() })
    }
}

const fn code_of(collective: Collective) -> u32 {
    match collective {
        Collective::AllGather => Kind::AllGather as u32,
        // The control plane has no other.
        _ => Kind::Barrier as u32,
    }
}
