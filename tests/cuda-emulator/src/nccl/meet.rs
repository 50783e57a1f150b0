//! How the ranks of a communicator meet: at a socket that the id names, where all say who they are, and then in pairs.
//!
//! All sockets are Unix sockets in the abstract namespace: no files, and gone with their processes.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of an id (`NCCL_UNIQUE_ID_BYTES`).
pub(crate) const ID_LEN: usize = 128;

const PREFIX: &str = "cuda-emulator-";
/// How often waits look around.
const TICK: Duration = Duration::from_millis(2);
/// How long one side's few bytes may take once it is there.
const TALK: Duration = Duration::from_secs(10);
/// How long ranks may come late to a meeting.
const MEETING: Duration = Duration::from_secs(300);
/// The most ranks of a communicator: more is a broken call.
pub(crate) const MOST_RANKS: usize = 1024;

/// Who a rank is, as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its process.
    pub(crate) pid: u32,
    pub(crate) device: u32,
    /// Where its peers find it.
    door: String,
}

/// A socket with a name nobody else has.
fn open_door() -> io::Result<(String, UnixListener)> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let name = random.iter().fold(PREFIX.to_string(), |name, byte| format!("{name}{byte:02x}"));
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok((name, listener))
}

/// A meeting that its process holds until all ranks came, or this value is dropped.
#[derive(Debug)]
pub(crate) struct Meeting {
    name: String,
    over: Arc<AtomicBool>,
}

impl Meeting {
    /// Opens it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open() -> io::Result<Self> {
        let (name, listener) = open_door()?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        std::thread::Builder::new().name("emulator: meeting".into()).spawn(move || hold(&listener, &seen))?;
        Ok(Self { name, over })
    }

    /// The id that leads there.
    pub(crate) fn id(&self) -> [u8; ID_LEN] {
        let mut id = [0; ID_LEN];
        id[..self.name.len()].copy_from_slice(self.name.as_bytes());
        id
    }

    /// Holds it for as long as the process lives, or until all ranks came.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Lets ranks in until all are there, and tells each who the others are; or tells all why it cannot be.
fn hold(listener: &UnixListener, over: &AtomicBool) {
    let end = Instant::now() + MEETING;
    let mut seats: Vec<Option<(UnixStream, Member)>> = Vec::new();
    while !over.load(Ordering::Relaxed) && Instant::now() < end {
        let guest = match listener.accept() {
            Ok((guest, _)) => guest,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(TICK);
                continue;
            }
            Err(_) => return,
        };
        // A guest that says nothing sensible is no rank.
        let Ok((n_ranks, rank, member)) = hear(&guest) else { continue };
        if seats.is_empty() {
            seats.resize_with(n_ranks, || None);
        }
        let wrong = if n_ranks != seats.len() {
            Some(format!("rank {rank} joins {n_ranks} ranks, but another rank joins {}", seats.len()))
        } else if seats[rank].is_some() {
            Some(format!("two ranks say that they are rank {rank}"))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            tell(&guest, &Err(wrong.clone()));
            seats.iter().flatten().for_each(|(seated, _)| tell(seated, &Err(wrong.clone())));
            return;
        }
        seats[rank] = Some((guest, member));
        if seats.iter().all(Option::is_some) {
            let members: Vec<Member> = seats.iter().flatten().map(|(_, member)| member.clone()).collect();
            let answer = Ok(members);
            seats.iter().flatten().for_each(|(seated, _)| tell(seated, &answer));
            return;
        }
    }
}

fn hear(guest: &UnixStream) -> io::Result<(usize, usize, Member)> {
    guest.set_nonblocking(false)?;
    guest.set_read_timeout(Some(TALK))?;
    let n_ranks = read_u32(guest)? as usize;
    let rank = read_u32(guest)? as usize;
    let member = read_member(guest)?;
    if rank >= n_ranks || n_ranks > MOST_RANKS {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no such rank"));
    }
    Ok((n_ranks, rank, member))
}

/// A guest that went away meanwhile needs no answer.
fn tell(mut guest: &UnixStream, answer: &Result<Vec<Member>, String>) {
    let mut out = Vec::new();
    match answer {
        Ok(members) => {
            out.push(1);
            members.iter().for_each(|member| put_member(&mut out, member));
        }
        Err(wrong) => {
            out.push(0);
            put_text(&mut out, wrong);
        }
    }
    let _ = guest.set_write_timeout(Some(TALK));
    let _ = guest.write_all(&out);
}

/// Why ranks did not meet.
#[derive(Debug)]
pub(crate) enum Unmet {
    /// The caller gave up.
    GivenUp,
    /// The ranks do not fit together.
    Refused(String),
    /// The system, or a peer that went away.
    System(String),
}

impl From<io::Error> for Unmet {
    fn from(error: io::Error) -> Self {
        Self::System(error.to_string())
    }
}

/// Who all ranks are, and a connection to each other rank.
pub(crate) struct Met {
    pub(crate) members: Vec<Member>,
    pub(crate) streams: Vec<Option<UnixStream>>,
}

/// A rank that comes to a meeting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest {
    pub(crate) n_ranks: usize,
    pub(crate) rank: usize,
    pub(crate) device: u32,
}

/// Meets the other ranks; gives up as soon as `given_up` says so.
///
/// # Errors
/// [`Unmet`].
pub(crate) fn meet(id: &[u8; ID_LEN], guest: Guest, given_up: &dyn Fn() -> bool) -> Result<Met, Unmet> {
    let name: Vec<u8> = id.iter().copied().take_while(|&byte| byte != 0).collect();
    if !name.starts_with(PREFIX.as_bytes()) {
        return Err(Unmet::Refused("the id was not drawn by ncclGetUniqueId of this library".into()));
    }
    let (door, listener) = open_door()?;
    let meeting = UnixStream::connect_addr(&SocketAddr::from_abstract_name(&name)?).map_err(|error| {
        Unmet::System(format!("the process that drew the id is gone, or the id was used before ({error})"))
    })?;
    let mut out = Vec::new();
    out.extend((guest.n_ranks as u32).to_le_bytes());
    out.extend((guest.rank as u32).to_le_bytes());
    let this = Member { pid: std::process::id(), device: guest.device, door };
    put_member(&mut out, &this);
    (&meeting).write_all(&out)?;
    let members = answer(&meeting, guest.n_ranks, given_up)?;
    let streams = pair_up(&members, guest.rank, &listener, given_up)?;
    Ok(Met { members, streams })
}

fn answer(meeting: &UnixStream, n_ranks: usize, given_up: &dyn Fn() -> bool) -> Result<Vec<Member>, Unmet> {
    // The first byte may take as long as the slowest rank does.
    meeting.set_read_timeout(Some(TICK))?;
    let mut first = [0];
    loop {
        match (&mut &*meeting).read(&mut first) {
            Ok(0) => {
                return Err(Unmet::System("the process that drew the id is gone, or the meeting was closed".into()));
            }
            Ok(_) => break,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if given_up() {
                    return Err(Unmet::GivenUp);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    meeting.set_read_timeout(Some(TALK))?;
    if first == [0] {
        return Err(Unmet::Refused(read_text(meeting)?));
    }
    (0..n_ranks).map(|_| read_member(meeting).map_err(Unmet::from)).collect()
}

/// The higher rank knocks at the lower one's door.
fn pair_up(
    members: &[Member],
    rank: usize,
    listener: &UnixListener,
    given_up: &dyn Fn() -> bool,
) -> Result<Vec<Option<UnixStream>>, Unmet> {
    let mut streams: Vec<Option<UnixStream>> = members.iter().map(|_| None).collect();
    for (peer, member) in members.iter().enumerate().take(rank) {
        let address = SocketAddr::from_abstract_name(&member.door)?;
        let stream = UnixStream::connect_addr(&address)
            .map_err(|error| Unmet::System(format!("rank {peer} (process {}) is gone: {error}", member.pid)))?;
        (&stream).write_all(&(rank as u32).to_le_bytes())?;
        streams[peer] = Some(stream);
    }
    let mut n_missing = members.len() - rank - 1;
    while n_missing > 0 {
        if given_up() {
            return Err(Unmet::GivenUp);
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(TICK);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(TALK))?;
        let peer = read_u32(&stream)? as usize;
        if peer <= rank || peer >= members.len() || streams[peer].is_some() {
            return Err(Unmet::System(format!("a peer says that it is rank {peer}")));
        }
        stream.set_read_timeout(None)?;
        streams[peer] = Some(stream);
        n_missing -= 1;
    }
    Ok(streams)
}

fn put_member(out: &mut Vec<u8>, member: &Member) {
    out.extend(member.pid.to_le_bytes());
    out.extend(member.device.to_le_bytes());
    put_text(out, &member.door);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn read_member(from: &UnixStream) -> io::Result<Member> {
    Ok(Member { pid: read_u32(from)?, device: read_u32(from)?, door: read_text(from)? })
}

fn read_u32(mut from: &UnixStream) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn read_text(mut from: &UnixStream) -> io::Result<String> {
    let length = read_u32(from)? as usize;
    if length > 4096 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a text is too long"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(n_ranks: usize, rank: usize) -> Guest {
        Guest { n_ranks, rank, device: rank as u32 }
    }

    #[test]
    fn all_ranks_know_each_other_and_are_connected() {
        let meeting = Meeting::open().unwrap();
        let id = meeting.id();
        let ranks: Vec<_> =
            (0..4).map(|rank| std::thread::spawn(move || meet(&id, guest(4, rank), &|| false).unwrap())).collect();
        let met: Vec<Met> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
        for (rank, Met { members, streams }) in met.iter().enumerate() {
            assert_eq!(members, &met[0].members);
            assert_eq!(members[rank].device, rank as u32);
            for (peer, stream) in streams.iter().enumerate().filter(|(_, stream)| stream.is_some()) {
                stream.as_ref().unwrap().write_all(&[(10 * rank + peer) as u8]).unwrap();
            }
            assert_eq!(streams.iter().flatten().count(), 3);
        }
        for (rank, Met { streams, .. }) in met.iter().enumerate() {
            for (peer, stream) in streams.iter().enumerate().filter(|(_, stream)| stream.is_some()) {
                let mut byte = [0];
                stream.as_ref().unwrap().read_exact(&mut byte).unwrap();
                assert_eq!(usize::from(byte[0]), 10 * peer + rank);
            }
        }
        assert!(matches!(meet(&id, guest(4, 0), &|| false), Err(Unmet::System(_))), "an id serves once");
    }

    #[test]
    fn ranks_that_do_not_fit_together_are_refused() {
        for (other, says) in [(guest(2, 0), "say that they are rank 0"), (guest(3, 1), "joins 3 ranks")] {
            let meeting = Meeting::open().unwrap();
            let id = meeting.id();
            let first = std::thread::spawn(move || meet(&id, guest(2, 0), &|| false));
            // Whichever comes first, both hear of it.
            let second = meet(&id, other, &|| false);
            for refused in [first.join().unwrap(), second] {
                assert!(matches!(&refused, Err(Unmet::Refused(why)) if why.contains(says) || why.contains("joins 2")));
            }
        }
        assert!(matches!(meet(&[7; ID_LEN], guest(2, 0), &|| false), Err(Unmet::Refused(_))));
    }

    #[test]
    fn giving_up_ends_a_meeting() {
        let meeting = Meeting::open().unwrap();
        let begun = Instant::now();
        let given_up = || begun.elapsed() > Duration::from_millis(50);
        assert!(matches!(meet(&meeting.id(), guest(2, 0), &given_up), Err(Unmet::GivenUp)));
        let id = meeting.id();
        drop(meeting);
        std::thread::sleep(Duration::from_millis(50));
        assert!(matches!(meet(&id, guest(2, 0), &|| false), Err(Unmet::System(_))));
    }
}
