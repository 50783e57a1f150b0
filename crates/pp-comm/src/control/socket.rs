//! Collectives between processes: a rank's connection to the host, and the threads that listen and write on it.
//!
//! One always listens, so that a rank that is computing or waiting for a message learns at once that another is lost; one
//! writes, so that the rank gives signs of life whatever it does.

use std::io::{self, BufReader};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pp_schedule::Rank;

use super::ear::{Ear, ending, interval};
use super::heard::{Reports, Watch, beat};
use super::outbox::{Letter, deliver};
use super::server::Abort;
use crate::alarm::Alarm;
use crate::board::Board;
use crate::collective::Collective;
use crate::deadline::Deadline;
use crate::error::{CommError, Loss};
use crate::flight::Recorder;
use crate::wire::{Fields, Frame, Kind, encode_frame, invalid, read_frame};

/// The host's verdict on a collective comes at its deadline; a rank gives it this long to arrive.
const VERDICT_GRACE: Duration = Duration::from_secs(1);

/// How long the last words of a rank may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// The rank beside which the host runs.
const HOST_RANK: Rank = Rank(0);

/// What the host says.
const FROM_HOST: [Kind; 5] = [Kind::Part, Kind::Lost, Kind::Expired, Kind::Mismatch, Kind::News];

/// What a rank and the host have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) n_ranks: u32,
    /// How long a write may take.
    pub(crate) limit: Duration,
    /// How long this rank bears silence.
    pub(crate) heartbeat: Duration,
    /// How long the host does.
    pub(crate) theirs: Duration,
}

/// One rank's connection to the host.
#[derive(Debug)]
pub(crate) struct SocketControl {
    rank: Rank,
    stream: TcpStream,
    /// None once the last word was said.
    outbox: Option<mpsc::Sender<Letter>>,
    /// Ends with the writing thread.
    written: mpsc::Receiver<()>,
    board: Arc<Board<Inbox>>,
    alarm: Alarm,
    watch: Watch,
    threads: Vec<JoinHandle<()>>,
    /// The others know, or need not be told, that this rank leaves.
    parted: bool,
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
    pub(crate) fn new(stream: TcpStream, line: Line, alarm: &Alarm, recorder: &Recorder) -> io::Result<Self> {
        let Line { n_ranks, limit, heartbeat, theirs } = line;
        stream.set_write_timeout(Some(limit.max(Duration::from_millis(1))))?;
        let board = Arc::new(Board::new(Inbox::default()));
        let reports = Reports::new(n_ranks as usize);
        let (outbox, letters) = mpsc::channel();
        // Nothing is ever sent on it: it ends with the writer.
        let (writing, written) = mpsc::channel();
        let mut control = Self {
            rank: recorder.rank(),
            outbox: Some(outbox),
            written,
            board: Arc::clone(&board),
            alarm: alarm.clone(),
            watch: Watch::new(recorder.clone(), reports.clone()),
            threads: Vec::new(),
            parted: false,
            stream,
        };
        let reader = BufReader::new(Ear::new(control.stream.try_clone()?, heartbeat)?);
        let (alarm, writer, recorder) = (alarm.clone(), control.stream.try_clone()?, recorder.clone());
        control.start("control", move || listen(reader, n_ranks, &board, &reports, &alarm))?;
        control.start("heartbeat", move || {
            let _writing: mpsc::Sender<()> = writing;
            deliver(writer, &letters, interval(heartbeat, theirs), || encode_frame(Kind::Beat, 0, 0, &beat(&recorder)));
        })?;
        Ok(control)
    }

    fn start(&mut self, name: &str, live: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(live)?);
        Ok(())
    }

    pub(super) const fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(super) const fn alarm(&self) -> &Alarm {
        &self.alarm
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
        // A connection that has ended has its reason in what the host said before, if it said anything.
        self.say(kind, round, part);
        let parts = self.board.wait(Deadline::after(limit).with_grace(VERDICT_GRACE), |inbox| {
            let complete = inbox.complete.take_if(|(number, _)| *number == round).map(|(_, parts)| Ok(parts));
            complete.or_else(|| inbox.fault.clone().map(Err))
        });
        let missing = vec![HOST_RANK];
        parts.unwrap_or(Err(CommError::CollectiveDeadline { collective, round, missing, limit }))
    }

    /// Tells the host that this rank fails, once.
    pub(super) fn abort(&mut self, accused: Rank, certain: bool, reason: String) {
        if !std::mem::replace(&mut self.parted, true) {
            self.say(Kind::Abort, 0, &Abort { accused, certain, reason }.encode());
        }
    }

    /// Waits a little for the host to say which rank is lost.
    pub(super) fn verdict(&self) -> Option<Loss> {
        self.alarm.wait(Deadline::after(VERDICT_GRACE))
    }

    pub(super) fn close(mut self) {
        self.board.update(|inbox| inbox.leaving = true);
        if !std::mem::replace(&mut self.parted, true) {
            self.say(Kind::Goodbye, 0, &[]);
        }
    }

    fn say(&self, kind: Kind, round: u64, payload: &[u8]) {
        if let Some(outbox) = &self.outbox {
            // A writer that has ended has hung up before, which the listener reports.
            let _ = outbox.send(Arc::new(encode_frame(kind, self.rank.0, round, payload)));
        }
    }
}

impl Drop for SocketControl {
    fn drop(&mut self) {
        let (reason, certain) = match thread::panicking() {
            true => ("its thread panicked", true),
            false => ("it ended before it was done", false),
        };
        self.abort(self.rank, certain, reason.to_owned());
        self.board.update(|inbox| inbox.leaving = true);
        self.outbox = None;
        if self.threads.len() > 1 {
            let _ = self.written.recv_timeout(FAREWELL);
        }
        // It wakes the threads; an error means that the connection is gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            // A panic over there was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

/// The life of the listening thread.
fn listen(mut stream: BufReader<Ear>, n_ranks: u32, board: &Board<Inbox>, reports: &Reports, alarm: &Alarm) {
    loop {
        let heard = read_frame(&mut stream, &FROM_HOST).and_then(|frame| hear(frame, n_ranks, board, reports));
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
fn hear(frame: Frame, n_ranks: u32, board: &Board<Inbox>, reports: &Reports) -> io::Result<Option<CommError>> {
    let Frame { kind, rank, round, payload } = frame;
    match kind {
        Kind::News => reports.take_news(&payload).map(|()| None),
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
    Loss { rank: HOST_RANK, reason: format!("the host beside it: {}", ending(error, "to this rank")) }
}

/// Takes in any bytes as a verdict of the host, and as a rank's last word.
///
/// # Panics
/// When more ranks are listed as missing than there are, or a last word does not survive.
pub fn fuzz(bytes: &[u8]) {
    let (board, reports) = (Board::new(Inbox::default()), Reports::new(4));
    for kind in FROM_HOST {
        let frame = Frame { kind, rank: 0, round: 0, payload: bytes.to_vec() };
        if let Ok(Some(CommError::CollectiveDeadline { missing, .. })) = hear(frame, 4, &board, &reports) {
            assert!(missing.len() <= 4);
        }
    }
    if let Ok(abort) = Abort::decode(bytes) {
        assert_eq!(Abort::decode(&abort.encode()).ok(), Some(abort));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Payload;
    use crate::wire::random::Random;

    #[test]
    fn any_bytes_are_a_verdict_or_an_error() {
        let expired = Payload::default().u32(Kind::Barrier as u32).u64(500).u32(2).u32(1).u32(3).0;
        let mismatch = Payload::default().u32(Kind::Barrier as u32).u32(Kind::AllGather as u32).0;
        let abort = Abort { accused: Rank(1), certain: true, reason: "it met its end".to_owned() }.encode();
        let mut random = Random(0x5eed);
        for _ in 0..40_000 {
            fuzz(&random.mutate(&[expired.clone(), mismatch.clone(), abort.clone()]));
        }
    }
}
