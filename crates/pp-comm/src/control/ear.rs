//! Listening to somebody who gives signs of life: how a frozen process is told from one that has ended.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How many signs of life are given per heartbeat.
const BEATS: u32 = 4;
/// How many looks are taken per heartbeat.
const LOOKS: u32 = 16;

/// No heartbeat is shorter: a thread may have to wait that long for a core.
const SHORTEST: Duration = Duration::from_millis(20);
/// The longest time between two signs of life: they say what a rank did last, which should be news.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);
/// The longest single look.
const LONGEST_LOOK: Duration = Duration::from_millis(250);

/// How often to give a sign of life to somebody who bears silence for `theirs`, oneself for `ours`.
pub(super) fn interval(ours: Duration, theirs: Duration) -> Duration {
    (ours.min(theirs).max(SHORTEST) / BEATS).min(LONGEST_INTERVAL)
}

/// A connection on which silence has an end. Any byte is a sign of life, also one of a frame that takes long.
///
/// Only such silence counts as this process was awake to hear: after it was stopped itself, it first takes in what came
/// meanwhile, and holds nobody's silence against them.
#[derive(Debug)]
pub(super) struct Ear {
    stream: TcpStream,
    heartbeat: Duration,
    look: Duration,
    silence: Duration,
}

impl Ear {
    /// Listens on a connection, whose read timeout it sets.
    pub(super) fn new(stream: TcpStream, heartbeat: Duration) -> io::Result<Self> {
        let heartbeat = heartbeat.max(SHORTEST);
        let look = (heartbeat / LOOKS).min(LONGEST_LOOK);
        stream.set_read_timeout(Some(look))?;
        Ok(Self { stream, heartbeat, look, silence: Duration::ZERO })
    }
}

impl Read for Ear {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let start = Instant::now();
            match self.stream.read(buffer) {
                Ok(n_bytes) => {
                    self.silence = Duration::ZERO;
                    return Ok(n_bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // A look that took far longer than it should was one that slept through.
            self.silence += start.elapsed().min(2 * self.look);
            if self.silence >= self.heartbeat {
                return Err(io::Error::new(io::ErrorKind::TimedOut, frozen(self.heartbeat)));
            }
        }
    }
}

fn frozen(heartbeat: Duration) -> String {
    let seconds = heartbeat.as_secs_f64();
    format!("no heartbeat for {seconds:.1}s: its process is frozen (stopped, swapping, or its machine does not answer)")
}

/// How a connection ended, of the process at its other end; `whose` says which connection it was.
pub(super) fn ending(error: &io::Error, whose: &str) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => format!("it closed its connection {whose} before it was done"),
        io::ErrorKind::TimedOut => error.to_string(),
        _ => format!("its connection {whose} failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (near, listener.accept().expect("it calls").0)
    }

    #[test]
    fn silence_ends_and_every_byte_breaks_it() {
        let heartbeat = Duration::from_millis(800);
        let (near, mut far) = pair();
        let mut ear = Ear::new(near, heartbeat).expect("a timeout");
        let speaker = thread::spawn(move || {
            for _ in 0..6 {
                far.write_all(&[7]).expect("it listens");
                thread::sleep(heartbeat / 4);
            }
            far
        });
        let mut bytes = [0; 6];
        ear.read_exact(&mut bytes).expect("never silent for long");
        let start = Instant::now();
        let error = ear.read_exact(&mut bytes).expect_err("silent from here on");
        assert!(start.elapsed() >= heartbeat, "{:?}", start.elapsed());
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let text = ending(&error, "to the host");
        assert!(text.contains("no heartbeat for 0.8s") && !text.contains("closed"), "{text}");
        drop(speaker.join().expect("no panic"));
        let error = ear.read_exact(&mut bytes).expect_err("it has ended");
        let text = ending(&error, "to the host");
        assert!(text.contains("closed its connection to the host") && !text.contains("heartbeat"), "{text}");
    }

    #[test]
    fn both_sides_get_several_beats_in_the_shorter_heartbeat() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(10));
        assert_eq!(interval(short, long), interval(long, short));
        assert_eq!(interval(long, long), LONGEST_INTERVAL);
        assert!(interval(Duration::ZERO, long) > Duration::ZERO);
    }
}
