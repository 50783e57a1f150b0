//! Making the links: one connection per channel, all before step 0, in one global order.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use pp_schedule::{Channel, Rank, Role};

use super::RendezvousError;
use super::host::FIRST_WORD;
use super::protocol::{LinkHello, MAX_HELLO_BYTES};
use crate::alarm::Alarm;
use crate::deadline::Deadline;
use crate::endpoint::{Pipe, Transports};
use crate::wire::{Kind, invalid, read_frame, write_frame};

/// Pause between two looks for a new connection.
const POLL: Duration = Duration::from_millis(1);

/// What a rank needs to make its links.
pub(super) struct Linking<'a> {
    pub(super) rank: Rank,
    /// Tells this run's links from those of any other.
    pub(super) run: u128,
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

impl Linking<'_> {
    /// Makes the links of `channels`, which are this rank's in the global order.
    ///
    /// The source of a channel dials, its destination accepts. Every rank goes through its channels in the same order,
    /// so the first link that is not made yet has both its ranks at work on it: no circle of waiting ranks can form.
    pub(super) fn make(&self, channels: &[Channel]) -> Result<Vec<(Channel, Pipe)>, RendezvousError> {
        let mut early = BTreeMap::new();
        let mut links = Vec::with_capacity(channels.len());
        for &channel in channels {
            let stream = if channel.source == self.rank {
                self.dial(channel).map_err(|error| self.error(channel, &error))?
            } else {
                self.accept(channel, channels, &mut early)?
            };
            let role = if channel.source == self.rank { Role::Send } else { Role::Receive };
            let pipe = Pipe::negotiate(stream, role, self.transports, self.deadline);
            links.push((channel, pipe.map_err(|error| self.error(channel, &error))?));
        }
        Ok(links)
    }

    fn dial(&self, channel: Channel) -> io::Result<TcpStream> {
        let address = self.addresses.get(channel.destination.idx()).ok_or(io::ErrorKind::NotFound)?;
        let left = self.deadline.remaining().ok_or(io::ErrorKind::TimedOut)?;
        let mut stream = TcpStream::connect_timeout(address, left)?;
        stream.set_nodelay(true)?;
        write_frame(&mut stream, Kind::Link, self.rank.0, 0, &LinkHello { run: self.run, channel }.encode())?;
        Ok(stream)
    }

    /// Accepts connections until the one for `channel` is there. Others of this rank's channels may come early.
    fn accept(
        &self,
        channel: Channel,
        channels: &[Channel],
        early: &mut BTreeMap<Channel, TcpStream>,
    ) -> Result<TcpStream, RendezvousError> {
        loop {
            if let Some(stream) = early.remove(&channel) {
                return Ok(stream);
            }
            if let Some(loss) = self.alarm.loss() {
                return Err(RendezvousError::Comm(loss.into()));
            }
            let Some(left) = self.deadline.remaining() else {
                let reason = format!("rank {} did not dial within {:?}", channel.source, self.deadline.limit());
                return Err(RendezvousError::Link { rank: self.rank, channel, reason });
            };
            let Ok((stream, _)) = self.listener.accept() else {
                thread::sleep(POLL.min(left));
                continue;
            };
            // Whoever does not belong to this run is a stranger, not a rank that fails.
            let Ok((found, stream)) = self.first_word(stream, left) else { continue };
            if found.destination != self.rank || !channels.contains(&found) || early.contains_key(&found) {
                let reason = format!("a connection for the {found} came instead, which has no place here");
                return Err(RendezvousError::Link { rank: self.rank, channel, reason });
            }
            early.insert(found, stream);
        }
    }

    fn first_word(&self, mut stream: TcpStream, left: Duration) -> io::Result<(Channel, TcpStream)> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(left.min(FIRST_WORD)))?;
        let frame = read_frame(&mut stream, MAX_HELLO_BYTES)?;
        let hello = LinkHello::decode(&frame.payload)?;
        if frame.kind != Kind::Link || hello.run != self.run {
            return Err(invalid("a link of another run".to_owned()));
        }
        stream.set_read_timeout(None)?;
        Ok((hello.channel, stream))
    }

    fn error(&self, channel: Channel, error: &io::Error) -> RendezvousError {
        // A rank that is known to be lost is the better reason.
        match self.alarm.loss() {
            Some(loss) => RendezvousError::Comm(loss.into()),
            None => RendezvousError::Link { rank: self.rank, channel, reason: error.to_string() },
        }
    }
}
