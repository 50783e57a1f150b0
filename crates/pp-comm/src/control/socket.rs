//! Collectives between processes: a rank's connection to the host, and the thread that listens on it.
//!
//! The thread always listens, so that a rank that is computing or waiting for a message learns at once that another is
//! lost.

use std::io::{self, BufReader};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pp_schedule::Rank;

use super::MAX_COLLECTIVE_BYTES;
use crate::alarm::Alarm;
use crate::board::Board;
use crate::deadline::Deadline;
use crate::error::{Collective, CommError, Loss};
use crate::wire::{Fields, Frame, Kind, invalid, read_frame, write_frame};

/// The host's verdict on a collective comes at its deadline; a rank gives it this long to arrive.
const VERDICT_GRACE: Duration = Duration::from_secs(1);

/// The rank beside which the host runs.
const HOST_RANK: Rank = Rank(0);

/// One rank's connection to the host.
#[derive(Debug)]
pub(crate) struct SocketControl {
    stream: TcpStream,
    board: Arc<Board<Inbox>>,
    listener: Option<JoinHandle<()>>,
}

/// What the host sent.
#[derive(Debug, Default)]
struct Inbox {
    /// The parts of the collective in progress, from rank 0 on.
    parts: Vec<Vec<u8>>,
    /// The collective that is complete and was not taken.
    complete: Option<(u64, Vec<Vec<u8>>)>,
    fault: Option<CommError>,
    /// This side is leaving: the end of the connection is no loss.
    leaving: bool,
}

impl SocketControl {
    /// Takes over a connection on which the host has sent its welcome. Losses ring the alarm.
    pub(crate) fn new(stream: TcpStream, n_ranks: u32, limit: Duration, alarm: Alarm) -> io::Result<Self> {
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(Some(limit.max(Duration::from_millis(1))))?;
        let board = Arc::new(Board::new(Inbox::default()));
        let (reader, inbox) = (BufReader::new(stream.try_clone()?), Arc::clone(&board));
        let run = move || listen(reader, n_ranks, &inbox, &alarm);
        let listener = std::thread::Builder::new().name("control".to_owned()).spawn(run)?;
        Ok(Self { stream, board, listener: Some(listener) })
    }

    pub(super) fn collective(
        &mut self,
        round: u64,
        collective: Collective,
        part: &[u8],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        let kind = match collective {
            Collective::AllGather => Kind::AllGather,
            // The control plane has no other.
            _ => Kind::Barrier,
        };
        let given = write_frame(&mut self.stream, kind, 0, round, part);
        let parts = self.board.wait(Deadline::after(limit).with_grace(VERDICT_GRACE), |inbox| {
            let complete = inbox.complete.take_if(|(number, _)| *number == round).map(|(_, parts)| Ok(parts));
            // A failed write has its reason in what the host said before it hung up, if it said anything.
            let unsaid = || given.as_ref().err().map(|error| Err(host_lost(error).into()));
            complete.or_else(|| inbox.fault.clone().map(Err)).or_else(unsaid)
        });
        let missing = vec![HOST_RANK];
        parts.unwrap_or(Err(CommError::CollectiveDeadline { collective, round, missing, limit }))
    }

    pub(super) fn close(mut self) {
        self.board.update(|inbox| inbox.leaving = true);
        // If it cannot be said, the host will notice the end of the connection instead.
        let _ = write_frame(&mut self.stream, Kind::Goodbye, 0, 0, &[]);
    }
}

impl Drop for SocketControl {
    fn drop(&mut self) {
        // The connection first, which wakes the listener; an error means that it is gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(listener) = self.listener.take() {
            // A panic over there was reported by the thread itself.
            let _ = listener.join();
        }
    }
}

/// The life of the listening thread.
fn listen(mut stream: BufReader<TcpStream>, n_ranks: u32, board: &Board<Inbox>, alarm: &Alarm) {
    loop {
        let heard = read_frame(&mut stream, MAX_COLLECTIVE_BYTES).and_then(|frame| hear(frame, n_ranks, board));
        let (fault, ends) = match heard {
            Ok(None) => continue,
            Ok(Some(fault)) => (fault, false),
            Err(error) => (host_lost(&error).into(), true),
        };
        if board.read(|inbox| inbox.leaving) {
            return;
        }
        if let CommError::PeerLost { rank, reason } = &fault {
            let loss = Loss { rank: *rank, reason: reason.clone() };
            alarm.ring(loss);
        }
        board.update(|inbox| {
            inbox.fault.get_or_insert(fault);
        });
        if ends {
            return;
        }
    }
}

/// Takes in one frame; gives the fault that it reports, if it reports one.
fn hear(frame: Frame, n_ranks: u32, board: &Board<Inbox>) -> io::Result<Option<CommError>> {
    let Frame { kind, rank, round, payload } = frame;
    match kind {
        Kind::Part => board.update(|inbox| {
            if rank as usize != inbox.parts.len() || rank >= n_ranks {
                return Err(invalid(format!("rank {rank}'s part out of turn")));
            }
            inbox.parts.push(payload);
            if inbox.parts.len() == n_ranks as usize {
                inbox.complete = Some((round, std::mem::take(&mut inbox.parts)));
            }
            Ok(None)
        }),
        Kind::Lost => {
            let reason = String::from_utf8_lossy(&payload).into_owned();
            Ok(Some(CommError::PeerLost { rank: Rank(rank), reason }))
        }
        Kind::Expired => {
            let mut fields = Fields(&payload);
            let (collective, limit) = (collective_of(fields.u32()?)?, Duration::from_millis(fields.u64()?));
            let n_missing = fields.u32()?.min(n_ranks);
            let missing = (0..n_missing).map(|_| fields.u32().map(Rank)).collect::<io::Result<_>>()?;
            Ok(Some(CommError::CollectiveDeadline { collective, round, missing, limit }))
        }
        Kind::Mismatch => {
            let mut fields = Fields(&payload);
            let (theirs, ours) = (collective_of(fields.u32()?)?, collective_of(fields.u32()?)?);
            Ok(Some(CommError::CollectiveMismatch { round, rank: Rank(rank), theirs, ours }))
        }
        kind => Err(invalid(format!("a frame of kind {kind:?} from the host"))),
    }
}

/// The number of a collective on the wire is that of the frame that asks for it.
fn collective_of(code: u32) -> io::Result<Collective> {
    match code {
        code if code == Kind::Barrier as u32 => Ok(Collective::Barrier),
        code if code == Kind::AllGather as u32 => Ok(Collective::AllGather),
        code => Err(invalid(format!("collective {code}, which is none"))),
    }
}

fn host_lost(error: &io::Error) -> Loss {
    let how = match error.kind() {
        io::ErrorKind::UnexpectedEof => "closed the connection".to_owned(),
        _ => format!("does not answer: {error}"),
    };
    Loss { rank: HOST_RANK, reason: format!("the host beside it {how}") }
}
