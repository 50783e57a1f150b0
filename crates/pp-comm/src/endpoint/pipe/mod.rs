//! What the bytes of a channel go through between two processes: a connection, or a ring in shared memory beside it.
//!
//! Bytes go from the source to the destination. The other way goes a number only: how many receives the destination has posted
//! since the beginning. Nothing here waits; who has to wait does so on the pipe's [`Parker`].

mod negotiate;
mod parker;
mod rough;
mod transports;

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::sleep;

use pp_schedule::{Channel, Role};
use pp_shm::{Consumer, Producer};
use rustix::net::{RecvFlags, recv};

use crate::alarm::Watch;
use crate::wire::invalid;
pub(super) use parker::{Interest, Parker};
use rough::Rough;
pub use rough::RoughLinks;
pub use transports::Transports;

/// Bytes that a ring holds: enough that neither side waits for the other at every piece, small enough to stay in a processor's
/// cache. Its pages are taken only when they are first used.
const RING_BYTES: usize = 1 << 21;

/// Bytes that a connection surely takes although its other end does not read: far less than systems give a socket.
const CONNECTION_SLACK: u64 = 16 * 1024;

/// What goes back over a connection for each receive posted.
const GRANT: u8 = 0x47;

/// Grants written or read at once.
const GRANTS_AT_ONCE: usize = 64;

/// One end of a channel's bytes.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Beside a ring it carries nothing; its end is the end of the pipe.
    connection: Arc<TcpStream>,
    way: Way,
    rough: Option<Rough>,
    /// The other end of a ring is gone.
    ended: bool,
}

#[derive(Debug)]
enum Way {
    /// With the receives posted so far, as far as this end knows or has told.
    Connection {
        granted: u64,
    },
    Producer(Producer),
    Consumer(Consumer),
}

impl Pipe {
    /// Agrees with the peer, over a connection that both know to be theirs, on what the channel's bytes go through. Both
    /// ends call it; `role` tells them apart.
    pub(crate) fn negotiate(
        mut connection: TcpStream,
        role: Role,
        transports: Transports,
        deadline: Watch<'_>,
    ) -> io::Result<Self> {
        let way = match role {
            Role::Send => negotiate::offer(&mut connection, transports, RING_BYTES, deadline)?.map(Way::Producer),
            Role::Receive => negotiate::accept(&mut connection, transports, deadline)?.map(Way::Consumer),
        };
        connection.set_nonblocking(true)?;
        let way = way.unwrap_or(Way::Connection { granted: 0 });
        Ok(Self { connection: Arc::new(connection), way, rough: None, ended: false })
    }

    /// Makes this end of a channel rough.
    pub(super) fn roughen(&mut self, links: RoughLinks, channel: Channel, role: Role) {
        self.rough = Some(Rough::new(links, (channel, role)));
    }

    /// Bytes that the next read or write may move; stalls where the pipe is rough.
    fn limit(&mut self) -> usize {
        let Some(rough) = &mut self.rough else { return usize::MAX };
        let (stall, limit) = rough.draw();
        stall.into_iter().for_each(sleep);
        limit
    }

    /// What it is, for reports.
    pub(super) const fn name(&self) -> &'static str {
        match self.way {
            Way::Connection { .. } => "tcp",
            Way::Producer(_) | Way::Consumer(_) => "shared memory",
        }
    }

    /// What to wait on.
    pub(super) fn parker(&self) -> Parker {
        let bell = match &self.way {
            Way::Connection { .. } => None,
            Way::Producer(producer) => Some(producer.bell()),
            Way::Consumer(consumer) => Some(consumer.bell()),
        };
        Parker::new(Arc::clone(&self.connection), bell)
    }

    /// Bytes that the other end can write in full although nobody reads.
    pub(super) fn slack(&self) -> u64 {
        match &self.way {
            Way::Connection { .. } => CONNECTION_SLACK,
            Way::Producer(producer) => producer.capacity() as u64,
            Way::Consumer(consumer) => consumer.capacity() as u64,
        }
    }

    /// Writes what there is room for of two pieces, one after the other; says how many bytes, 0 where there is no room.
    pub(super) fn write(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let limit = self.limit();
        let first = &first[..first.len().min(limit)];
        let second = &second[..second.len().min(limit - first.len())];
        match &mut self.way {
            Way::Connection { .. } => {
                let pieces = [IoSlice::new(first), IoSlice::new(second)];
                or_none((&*self.connection).write_vectored(&pieces).and_then(|n| if n == 0 { ended() } else { Ok(n) }))
            }
            Way::Producer(producer) => {
                let n = producer.write(first)?;
                let n = if n == first.len() { n + producer.write(second)? } else { n };
                if n == 0 && self.ended { ended() } else { Ok(n) }
            }
            Way::Consumer(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Reads what is there and fits; nothing where nothing is there.
    pub(super) fn read<'a>(&mut self, room: &'a mut [MaybeUninit<u8>]) -> io::Result<&'a mut [u8]> {
        let limit = room.len().min(self.limit());
        let room = &mut room[..limit];
        match &mut self.way {
            Way::Connection { .. } => match recv(&*self.connection, room, RecvFlags::DONTWAIT) {
                Ok(((read, _), _)) => {
                    if read.is_empty() {
                        ended()
                    } else {
                        Ok(read)
                    }
                }
                Err(error) => or_none(Err(error.into())),
            },
            Way::Consumer(consumer) => {
                let read = consumer.read(room)?;
                if read.is_empty() && self.ended { ended() } else { Ok(read) }
            }
            Way::Producer(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Tells the source how many receives were posted so far. Whether that is done; if not, ask again when there is room. A
    /// source that is gone need not be told: what it sent before is still there to be read, and after that its end.
    pub(super) fn grant(&mut self, n_posted: u64) -> bool {
        match &mut self.way {
            Way::Connection { granted } => {
                while *granted < n_posted {
                    let n = (n_posted - *granted).min(GRANTS_AT_ONCE as u64) as usize;
                    match or_none((&*self.connection).write(&[GRANT; GRANTS_AT_ONCE][..n])) {
                        Ok(0) => return false,
                        Ok(n) => *granted += n as u64,
                        Err(_) => *granted = n_posted,
                    }
                }
            }
            Way::Consumer(consumer) => consumer.grant(n_posted),
            Way::Producer(_) => {}
        }
        true
    }

    /// How many receives the destination has posted so far, looked at anew until they are `wanted`; `known` of them were seen
    /// before. That there will never be more, because the destination is gone, is an error.
    pub(super) fn granted(&mut self, known: u64, wanted: u64) -> io::Result<u64> {
        match &mut self.way {
            Way::Connection { granted } => {
                while *granted < wanted {
                    let mut room = [MaybeUninit::uninit(); GRANTS_AT_ONCE];
                    match recv(&*self.connection, &mut room, RecvFlags::DONTWAIT) {
                        // The next call finds the end again.
                        Ok((([], _), _)) if *granted > known => break,
                        Ok((([], _), _)) => return ended(),
                        Ok(((read, _), n)) if read.iter().all(|&byte| byte == GRANT) => *granted += n as u64,
                        Ok(_) => return Err(invalid("bytes came where only grants may".to_owned())),
                        Err(_) if *granted > known => break,
                        Err(error) => return or_none::<usize>(Err(error.into())).map(|_| *granted),
                    }
                }
                Ok(*granted)
            }
            Way::Producer(producer) => {
                let granted = producer.grants();
                if granted <= known && granted < wanted && self.ended { ended() } else { Ok(granted) }
            }
            Way::Consumer(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether something that was written is still on its way over a connection; says that nothing more will follow. What lies
    /// in a ring is there already.
    pub(super) fn still_sending(&mut self) -> bool {
        if !matches!(self.way, Way::Connection { .. }) || self.connection.shutdown(Shutdown::Write).is_err() {
            return false;
        }
        // Grants that are not read would have the connection torn down instead of closed; an end or error means that nobody
        // is there to read.
        let mut room = [MaybeUninit::uninit(); GRANTS_AT_ONCE];
        let heard = recv(&*self.connection, &mut room, RecvFlags::DONTWAIT).map(|((read, _), _)| read.is_empty());
        let gone = heard.or_else(|error| or_none::<bool>(Err(error.into()))).unwrap_or(true);
        !gone && pp_shm::unacknowledged(&*self.connection).is_ok_and(|n_bytes| n_bytes > 0)
    }

    /// Whether the other end is gone and nothing of it is still to be read from the connection; what lies in a ring may be.
    #[cfg(feature = "nccl")]
    pub(super) fn is_left(&self) -> bool {
        let mut room = [MaybeUninit::uninit(); 1];
        match recv(&*self.connection, &mut room, RecvFlags::DONTWAIT | RecvFlags::PEEK) {
            Ok(((read, _), _)) => read.is_empty(),
            Err(error) => or_none::<bool>(Err(error.into())).is_err(),
        }
    }

    /// Looks whether the other end of a ring is gone, which the ring itself does not show. What it wrote before can be read.
    pub(super) fn look_for_end(&mut self) -> io::Result<()> {
        if matches!(self.way, Way::Connection { .. }) {
            return Ok(());
        }
        let mut room = [MaybeUninit::uninit(); 1];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        self.ended |= match recv(&*self.connection, &mut room, flags) {
            Ok((([], _), _)) => true,
            Ok(_) => return Err(invalid("bytes came over the connection beside a ring".to_owned())),
            Err(error) => or_none::<bool>(Err(error.into()))?,
        };
        Ok(())
    }
}

/// What a call that does not wait gives: the default where it would have to.
fn or_none<T: Default>(done: io::Result<T>) -> io::Result<T> {
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(T::default())
        }
        done => done,
    }
}

fn ended<T>() -> io::Result<T> {
    Err(io::ErrorKind::UnexpectedEof.into())
}
