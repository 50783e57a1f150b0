//! Channels between processes: one TCP connection per channel, so that a channel nobody reads from never holds up
//! another, and one thread per end, so that transfers go on while the rank computes.
//!
//! A receiving thread reads a frame only once its receive is posted: what is in flight stays bounded by what the program
//! posts, and the sender feels it. A send is complete when its frame was handed to the system.

use std::collections::VecDeque;
use std::io::{self, BufWriter, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use pp_schedule::{Channel, Rank, Role};

use super::{Pipe, check_arrival};
use crate::alarm::Alarm;
use crate::board::Board;
use crate::deadline::Deadline;
use crate::error::{CommError, role_name};
use crate::message::{Boundary, Buffer, HEADER_LEN, Label, decode, encode};

/// Frames smaller than this leave in one write.
const WRITE_BUFFER: usize = 64 * 1024;

/// What the link threads report.
#[derive(Debug)]
struct SocketState {
    links: Vec<LinkState>,
    alarm: Alarm,
}

/// The state, as the threads share it.
type SocketBoard = Arc<Board<SocketState>>;

impl SocketState {
    /// Why nothing more will complete on a link, if that is so. A lost rank that the host names comes before a peer
    /// that may only have left because of it; a fault of the message itself comes before both.
    fn fault(&self, link: usize) -> Option<CommError> {
        match (&self.links[link].fault, self.alarm.loss()) {
            (None | Some(CommError::PeerLost { .. }), Some(loss)) => Some(loss.into()),
            (fault, _) => fault.clone(),
        }
    }
}

#[derive(Debug, Default)]
struct LinkState {
    /// Sends completed.
    n_sent: u64,
    /// Messages from number `first` on that arrived and were not taken.
    arrived: VecDeque<Option<Buffer>>,
    first: u64,
    /// Why the link's thread ended.
    fault: Option<CommError>,
}

impl LinkState {
    fn take(&mut self, number: u64) -> Option<Buffer> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let taken = self.arrived.get_mut(index)?.take();
        while let Some(None) = self.arrived.front() {
            self.arrived.pop_front();
            self.first += 1;
        }
        taken
    }
}

/// One rank's ends of its channels.
#[derive(Debug)]
pub(crate) struct SocketTransport {
    board: SocketBoard,
    links: Vec<Link>,
}

impl SocketTransport {
    /// Takes over pipes, one per channel of the rank. Its waits end when the alarm rings.
    pub(crate) fn new(rank: Rank, links: Vec<(Channel, Pipe)>, alarm: &Alarm) -> Result<Self, CommError> {
        let states = std::iter::repeat_with(LinkState::default).take(links.len()).collect();
        let board = Arc::new(Board::new(SocketState { links: states, alarm: alarm.clone() }));
        let waked = Arc::downgrade(&board);
        alarm.on_ring(move || {
            if let Some(board) = waked.upgrade() {
                board.wake();
            }
        });
        let links = links.into_iter().enumerate();
        let links = links.map(|(index, (channel, Pipe::Tcp(stream)))| Link::new(rank, index, channel, stream, &board));
        Ok(Self { links: links.collect::<Result<_, _>>()?, board })
    }

    pub(super) fn post_send(&mut self, link: usize, label: Label, buffer: Buffer) -> Result<u64, CommError> {
        self.post(link, Job::Send(label, buffer))
    }

    pub(super) fn post_recv(&mut self, link: usize, label: Label, boundary: &Boundary) -> Result<u64, CommError> {
        self.post(link, Job::Receive(label, boundary.clone()))
    }

    fn post(&mut self, index: usize, job: Job) -> Result<u64, CommError> {
        let link = &mut self.links[index];
        let number = link.n_posted;
        link.n_posted += 1;
        let posted = link.jobs.as_ref().map(|jobs| jobs.send(job));
        if let Some(Ok(())) = posted {
            return Ok(number);
        }
        // A thread leaves its reason before it goes.
        let fault = self.board.read(|state| state.fault(index));
        Err(fault.unwrap_or(CommError::System { what: "post".to_owned(), reason: "the link has ended".to_owned() }))
    }

    /// `None` when the deadline passes first.
    pub(super) fn wait_send(&self, link: usize, number: u64, limit: Duration) -> Result<Option<()>, CommError> {
        self.wait(link, limit, |state| (number < state.n_sent).then_some(()))
    }

    /// `None` when the deadline passes first.
    pub(super) fn wait_recv(&self, link: usize, number: u64, limit: Duration) -> Result<Option<Buffer>, CommError> {
        self.wait(link, limit, |state| state.take(number))
    }

    fn wait<R>(
        &self,
        link: usize,
        limit: Duration,
        mut look: impl FnMut(&mut LinkState) -> Option<R>,
    ) -> Result<Option<R>, CommError> {
        let found = self.board.wait(Deadline::after(limit), |state| {
            // What is complete stays complete, whoever is gone by now.
            look(&mut state.links[link]).map(Ok).or_else(|| state.fault(link).map(Err))
        });
        found.transpose()
    }
}

/// What a link's thread is to do next.
#[derive(Debug)]
enum Job {
    Send(Label, Buffer),
    Receive(Label, Boundary),
}

/// One end of one channel: its connection and its thread.
#[derive(Debug)]
struct Link {
    stream: TcpStream,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    n_posted: u64,
}

impl Link {
    fn new(
        rank: Rank,
        index: usize,
        channel: Channel,
        stream: TcpStream,
        board: &SocketBoard,
    ) -> Result<Self, CommError> {
        let role = if channel.source == rank { Role::Send } else { Role::Receive };
        let what = format!("{} {}>{} {}", role_name(role), channel.source, channel.destination, channel.queue);
        let refused = |error: io::Error| CommError::System {
            what: format!("start the thread for the {channel}"),
            reason: error.to_string(),
        };
        let (jobs, queue) = mpsc::channel();
        let threads_stream = stream.try_clone().map_err(refused)?;
        let board = Arc::clone(board);
        let run = move || serve(channel, index, threads_stream, &queue, &board);
        let thread = std::thread::Builder::new().name(what).spawn(run).map_err(refused)?;
        Ok(Self { stream, jobs: Some(jobs), thread: Some(thread), n_posted: 0 })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The connection first: it wakes a thread in the middle of a read or write, so that joining never hangs. What
        // was completely written before is still delivered. An error means that the connection is gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

/// The life of a link's thread: one job after the other, until the endpoint or the connection ends.
fn serve(channel: Channel, index: usize, stream: TcpStream, queue: &mpsc::Receiver<Job>, board: &SocketBoard) {
    let mut stream = BufWriter::with_capacity(WRITE_BUFFER, stream);
    for job in queue {
        let done = match job {
            Job::Send(label, buffer) => write_frame(&mut stream, label, &buffer)
                .map(|()| None)
                .map_err(|error| lost(channel.destination, &error)),
            Job::Receive(label, boundary) => read_frame(stream.get_mut(), channel, label, &boundary).map(Some),
        };
        let ended = board.update(|state| {
            let link = &mut state.links[index];
            match done {
                Ok(None) => link.n_sent += 1,
                Ok(received) => link.arrived.push_back(received),
                Err(fault) => link.fault = Some(fault),
            }
            link.fault.is_some()
        });
        if ended {
            return;
        }
    }
}

fn write_frame(stream: &mut impl Write, label: Label, buffer: &Buffer) -> io::Result<()> {
    stream.write_all(&encode(label, buffer.boundary()))?;
    stream.write_all(buffer.as_bytes())?;
    stream.flush()
}

/// Reads the next frame, which must be the one expected: its payload gets memory only once the header said so.
fn read_frame(
    stream: &mut impl Read,
    channel: Channel,
    expected: Label,
    agreed: &Boundary,
) -> Result<Buffer, CommError> {
    let peer_lost = |error: io::Error| lost(channel.source, &error);
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).map_err(peer_lost)?;
    let (found, sent) = decode(&header).map_err(|fault| CommError::Malformed { channel, fault })?;
    check_arrival(channel, (expected, agreed), (found, &sent))?;
    let mut buffer = Buffer::zeroed(agreed)?;
    stream.read_exact(buffer.as_bytes_mut()).map_err(peer_lost)?;
    Ok(buffer)
}

fn lost(rank: Rank, error: &io::Error) -> CommError {
    let reason = match error.kind() {
        io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => format!("the connection failed: {error}"),
    };
    CommError::PeerLost { rank, reason }
}
