//! The host's part in the collectives of a run: it collects what the ranks give, hands all parts to all of them, and
//! tells everybody when a rank is gone.

use std::io::{self, BufReader};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pp_schedule::Rank;

use super::MAX_COLLECTIVE_BYTES;
use crate::deadline::Deadline;
use crate::error::Collective;
use crate::round::Round;
use crate::wire::{Frame, Kind, Payload, invalid, read_frame, write_frame};

/// How long the server sleeps when no collective is in progress.
const IDLE: Duration = Duration::from_secs(3600);

/// A rank's connection, with two handles: one is read, one is written.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) reader: TcpStream,
    pub(crate) writer: TcpStream,
}

enum Event {
    Frame(Frame),
    /// The connection ended: in good order, or how.
    Gone(Result<(), String>),
}

/// Serves the ranks, one connection each in rank order, until all are gone.
pub(crate) fn serve(connections: Vec<Connection>, limit: Duration) {
    let (sender, events) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for (rank, Connection { reader, writer }) in (0..).map(Rank).zip(connections) {
            let sender = sender.clone();
            scope.spawn(move || read(rank, BufReader::new(reader), &sender));
            writers.push(Some(writer));
        }
        drop(sender);
        Server::new(writers, limit).run(&events);
    });
}

/// The life of one rank's reading thread.
fn read(rank: Rank, mut stream: BufReader<TcpStream>, events: &mpsc::Sender<(Rank, Event)>) {
    loop {
        let frame = read_frame(&mut stream, MAX_COLLECTIVE_BYTES);
        let event = match frame {
            Ok(frame) if frame.kind == Kind::Goodbye => Event::Gone(Ok(())),
            Ok(frame) => Event::Frame(frame),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Event::Gone(Err("it closed its connection to the host before it was done".to_owned()))
            }
            Err(error) => Event::Gone(Err(format!("its connection to the host failed: {error}"))),
        };
        let last = matches!(event, Event::Gone(_));
        // The server outlives the readers; were it gone, nobody would need the event.
        if events.send((rank, event)).is_err() || last {
            return;
        }
    }
}

struct Server {
    /// By rank; none once the rank is gone.
    writers: Vec<Option<TcpStream>>,
    limit: Duration,
    round: Round,
    /// When the collective in progress is given up.
    deadline: Option<Deadline>,
}

impl Server {
    fn new(writers: Vec<Option<TcpStream>>, limit: Duration) -> Self {
        let round = Round::new(0, writers.len());
        Self { writers, limit, round, deadline: None }
    }

    fn run(&mut self, events: &mpsc::Receiver<(Rank, Event)>) {
        loop {
            let patience = self.deadline.map_or(Some(IDLE), Deadline::remaining);
            match events.recv_timeout(patience.unwrap_or(Duration::ZERO)) {
                Ok((rank, Event::Frame(frame))) => self.take(rank, frame),
                Ok((rank, Event::Gone(how))) => self.leave(rank, how),
                Err(RecvTimeoutError::Timeout) => self.expire(),
                // Every reader has ended.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, rank: Rank, frame: Frame) {
        if let Err(error) = self.try_take(rank, frame) {
            self.leave(rank, Err(format!("it broke the protocol: {error}")));
        }
    }

    fn try_take(&mut self, rank: Rank, frame: Frame) -> io::Result<()> {
        let Frame { kind, round, payload, .. } = frame;
        let collective = match kind {
            Kind::Barrier => Collective::Barrier,
            Kind::AllGather => Collective::AllGather,
            kind => return Err(invalid(format!("a frame of kind {kind:?}"))),
        };
        if round != self.round.number() || !self.round.missing().contains(&rank) {
            return Err(invalid(format!("collective {round} while {} is in progress", self.round.number())));
        }
        if let Err(ours) = self.round.give(rank, collective, payload) {
            let payload = Payload::default().u32(code_of(collective)).u32(code_of(ours)).0;
            send_to_all(&self.writers, Kind::Mismatch, rank.0, round, &payload);
            return Ok(());
        }
        self.deadline.get_or_insert(Deadline::after(self.limit));
        if let Some(parts) = self.round.complete() {
            for (part, owner) in parts.into_iter().zip(0..) {
                send_to_all(&self.writers, Kind::Part, owner, round, part);
            }
            self.round = Round::new(round + 1, self.writers.len());
            self.deadline = None;
        } else {
            self.give_up_on_departed();
        }
        Ok(())
    }

    /// Notes that a rank is gone, and tells the others unless it left in good order.
    fn leave(&mut self, rank: Rank, how: Result<(), String>) {
        let Some(writer) = self.writers[rank.idx()].take() else { return };
        if let Err(reason) = how {
            send_to_all(&self.writers, Kind::Lost, rank.0, 0, reason.as_bytes());
        }
        // It wakes the rank's reader here, if that still listens; an error means that the connection is gone already.
        let _ = writer.shutdown(Shutdown::Both);
        self.give_up_on_departed();
    }

    /// A collective that waits for a rank that has left will never complete.
    fn give_up_on_departed(&self) {
        if self.round.collective().is_none() {
            return;
        }
        let departed = self.round.missing().into_iter().find(|rank| self.writers[rank.idx()].is_none());
        if let Some(rank) = departed {
            let reason = format!("it has left, but collective {} needs it", self.round.number());
            send_to_all(&self.writers, Kind::Lost, rank.0, 0, reason.as_bytes());
        }
    }

    /// Gives up on the collective in progress, and says who was missing.
    fn expire(&mut self) {
        self.deadline = None;
        let Some(collective) = self.round.collective() else { return };
        let (missing, millis) = (self.round.missing(), u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX));
        let payload = Payload::default().u32(code_of(collective)).u64(millis).u32(missing.len() as u32);
        let payload = missing.iter().fold(payload, |payload, rank| payload.u32(rank.0));
        send_to_all(&self.writers, Kind::Expired, 0, self.round.number(), &payload.0);
    }
}

const fn code_of(collective: Collective) -> u32 {
    match collective {
        Collective::AllGather => Kind::AllGather as u32,
        // The control plane has no other.
        _ => Kind::Barrier as u32,
    }
}

/// A rank that cannot be told is on its way out; its reader will say so.
fn send_to_all(writers: &[Option<TcpStream>], kind: Kind, rank: u32, round: u64, payload: &[u8]) {
    for mut writer in writers.iter().flatten() {
        let _ = write_frame(&mut writer, kind, rank, round, payload);
    }
}
