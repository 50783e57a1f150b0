//! What is said on a control connection, from a thread of its own: nobody who has something to say waits for the one who
//! is to hear it, and signs of life are given whatever the others do.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A frame, shared by all who are to get it.
pub(super) type Letter = Arc<Vec<u8>>;

/// The life of a writing thread: writes letters in their order, and a beat at every interval between them; ends when
/// nobody can send any more letters, or the connection does.
pub(super) fn deliver(
    mut stream: TcpStream,
    letters: &mpsc::Receiver<Letter>,
    interval: Duration,
    mut beat: impl FnMut() -> Vec<u8>,
) {
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        let said = if now >= due {
            due = now + interval;
            stream.write_all(&beat())
        } else {
            match letters.recv_timeout(due - now) {
                Ok(letter) => stream.write_all(&letter),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        if said.is_err() {
            // Whoever listens on it finds out; an error means that it is gone already.
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}
