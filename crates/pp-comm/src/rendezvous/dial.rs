//! Connecting to another rank, in a way that a loss ends: its machine may be gone, and then nobody answers at all.

use std::io;
use std::net::{SocketAddr, TcpStream};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect as begin, socket_with, sockopt::socket_error};

use crate::alarm::Watch;

/// A connection, in blocking mode. One attempt however long it takes: the system itself asks again where an answer is slow.
pub(super) fn connect(address: &SocketAddr, watch: Watch<'_>) -> io::Result<TcpStream> {
    watch.slice()?;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match begin(&socket, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => loop {
            let slice = watch.slice()?.try_into().map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&slice)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break socket_error(&socket)??,
                Err(error) => return Err(error.into()),
            }
        },
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::{Duration, Instant};

    use pp_schedule::Rank;

    use super::*;
    use crate::alarm::Alarm;
    use crate::deadline::Deadline;
    use crate::error::Loss;

    #[test]
    fn it_connects_or_says_why_not() {
        let (alarm, listener) = (Alarm::default(), TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let address = listener.local_addr().expect("bound");
        let watch = || Watch::new(Deadline::after(Duration::from_secs(20)), &alarm);
        let stream = connect(&address, watch()).expect("it listens");
        assert_eq!(stream.peer_addr().expect("connected"), address);
        drop((stream, listener));
        let error = connect(&address, watch()).expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
    }

    /// A listener whose queue is full answers nobody, as a machine that is gone does.
    #[test]
    fn a_loss_ends_an_attempt_that_nobody_answers() {
        let (alarm, listener) = (Alarm::default(), TcpListener::bind("127.0.0.1:0").expect("a free port"));
        rustix::net::listen(&listener, 0).expect("a short queue");
        let address = listener.local_addr().expect("bound");
        let start = Instant::now();
        let ring = alarm.clone();
        let ringer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            ring.ring(Loss { rank: Rank(1), reason: "it froze".to_owned() });
        });
        let watch = Watch::new(Deadline::after(Duration::from_secs(30)), &alarm);
        let mut waiting = Vec::new();
        let error = loop {
            match connect(&address, watch) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted, "{error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        ringer.join().expect("no panic");
    }
}
