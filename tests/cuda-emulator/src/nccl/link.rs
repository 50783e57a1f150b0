//! A connection to one peer: frames out, whole or not at all. What comes in is read by a thread of its own.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::frame::Frame;

/// How often a write that does not get on asks whether to go on.
const TICK: Duration = Duration::from_millis(50);

/// The way out to a peer.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    /// Held while a frame is written.
    writing: Mutex<()>,
}

impl Link {
    /// Over that stream; gives a second handle to read from.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(stream: UnixStream) -> io::Result<(Self, UnixStream)> {
        stream.set_write_timeout(Some(TICK))?;
        stream.set_read_timeout(None)?;
        let reading = stream.try_clone()?;
        Ok((Self { stream, writing: Mutex::new(()) }, reading))
    }

    /// Sends a frame; gives up as soon as `given_up` says so, and is useless then.
    ///
    /// # Errors
    /// What the system says: the peer is gone.
    pub(crate) fn send(&self, frame: &Frame, given_up: &dyn Fn() -> bool) -> io::Result<()> {
        let bytes = frame.encode();
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match (&self.stream).write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n_bytes) => rest = &rest[n_bytes..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if given_up() {
                        self.close();
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends it both ways; whoever reads from it comes to the end.
    pub(crate) fn close(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
