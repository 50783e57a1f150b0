//! What a connection still holds.

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, ioctl};

/// `SIOCOUTQ` of Linux, which is `TIOCOUTQ`: bytes in a socket's send queue.
const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;

/// Bytes written to a TCP connection that the other host's system has not acknowledged yet. What it has acknowledged reaches
/// its reader even when this end is torn down.
///
/// # Errors
/// When the descriptor is no socket, or the system cannot say.
pub fn unacknowledged(connection: impl AsFd) -> io::Result<usize> {
    // SAFETY: this request writes one `int` for a socket, and fails for anything else that does not know it.
    let n_bytes = unsafe { ioctl(connection, Getter::<SIOCOUTQ, i32>::new()) }?;
    Ok(usize::try_from(n_bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn bytes_are_counted_until_the_other_side_has_room_for_them() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (mut receiver, _) = listener.accept().expect("it was dialled");
        sender.set_nonblocking(true).expect("a socket");
        let mut n_written = 0;
        while let Ok(n) = sender.write(&[0; 1 << 16]) {
            n_written += n;
        }
        assert!(unacknowledged(&sender).expect("a connection") > 0);
        let mut buffer = vec![0; n_written];
        receiver.read_exact(&mut buffer).expect("all of it");
        while unacknowledged(&sender).expect("a connection") > 0 {
            std::thread::yield_now();
        }
        let file = std::fs::File::open("/proc/self/exe").expect("this program");
        assert!(unacknowledged(&file).is_err());
    }
}
