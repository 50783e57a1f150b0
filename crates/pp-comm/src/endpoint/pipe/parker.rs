//! Waiting until a pipe may have moved.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pp_shm::{Armed, Bell};
use rustix::event::{PollFd, PollFlags, poll};

/// What is waited for. A ring needs no choice: whoever waits is called in either case.
#[derive(Clone, Copy, Debug)]
pub(in crate::endpoint) struct Interest {
    /// Something to read, or the end.
    pub(in crate::endpoint) read: bool,
    /// Room to write.
    pub(in crate::endpoint) write: bool,
}

/// Where threads of one end wait. Any number of them may, and none needs the pipe itself.
#[derive(Debug)]
pub(in crate::endpoint) struct Parker {
    connection: Arc<TcpStream>,
    bell: Option<Bell>,
}

impl Parker {
    pub(super) const fn new(connection: Arc<TcpStream>, bell: Option<Bell>) -> Self {
        Self { connection, bell }
    }

    /// Whether to look again and again before sleeping. Not for room in a connection: whoever fills every hole at once writes in
    /// crumbs, while the system wakes a sleeper for a good stretch of room, long before the other side runs dry.
    pub(in crate::endpoint) const fn is_worth_spinning(&self, interest: Interest) -> bool {
        self.bell.is_some() || !interest.write
    }

    /// Before the last look and the sleep: what happens after this ends the sleep.
    pub(in crate::endpoint) fn arm(&self) -> Option<Armed> {
        self.bell.as_ref().map(Bell::arm)
    }

    /// Sleeps until the pipe may have moved, or the time is up.
    pub(in crate::endpoint) fn park(&self, armed: Option<Armed>, interest: Interest, limit: Duration) {
        if let (Some(bell), Some(armed)) = (&self.bell, armed) {
            return bell.park(armed, limit);
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, interest.read);
        flags.set(PollFlags::OUT, interest.write);
        let Ok(limit) = limit.try_into() else { return };
        // Interrupted or out of memory: whoever waits looks again anyway.
        let _ = poll(&mut [PollFd::new(&*self.connection, flags)], Some(&limit));
    }

    /// Ends the sleep of everybody on this side, where that can be done; over a connection, sleeps are short instead.
    pub(in crate::endpoint) fn wake(&self) {
        self.bell.iter().for_each(Bell::ring);
    }

    /// Ends the pipe for the peer, and the sleep of everybody on this side. What was written before still arrives.
    pub(in crate::endpoint) fn end(&self) {
        // An error means that the connection is gone already.
        let _ = self.connection.shutdown(Shutdown::Both);
        self.wake();
    }
}
