//! How the two ends of a link agree on what its bytes go through.
//!
//! Each first says over the connection, which is theirs already, what it may use; the destination also in which boot of which
//! machine it runs, and the address of a mailbox. The source tries to deliver one end of a ring there and says whether it could;
//! the destination says whether it could open it. No name of a file, a process or a namespace is compared: what counts is
//! whether the memory arrives. Only another machine is refused at once, for a better message.

use std::fs;
use std::io::{self, Read};
use std::net::TcpStream;

use pp_shm::{ADDRESS_BYTES, Consumer, Mailbox, Producer, deliver};

use super::transports::Transports;
use crate::alarm::Watch;
use crate::wire::{Fields, Kind, Payload, invalid, read_frame, write_frame};

/// The most bytes of a reason that are passed on.
const MAX_REASON_BYTES: usize = 512;

/// A step that went well, or why it did not: what the other end is told too.
type Step<T> = Result<T, String>;

/// The source's side: a ring whose other end the peer has, or none where the connection is used.
pub(super) fn offer(
    connection: &mut TcpStream,
    ours: Transports,
    ring_bytes: usize,
    deadline: Watch<'_>,
) -> io::Result<Option<Producer>> {
    say(connection, Payload::default().u32(code_of(ours)), deadline)?;
    let word = hear(connection, deadline)?;
    let mut fields = Fields(&word);
    let theirs = transports_of(fields.u32()?)?;
    if !wanted(ours, theirs)? {
        return Ok(None);
    }
    let (boot, address) = (fields.bytes()?, fields.bytes()?);
    let made = fields.step()?.and_then(|()| deliver_ring(boot, address, ring_bytes));
    say(connection, Payload::default().step(&made), deadline)?;
    let opened = Fields(&hear(connection, deadline)?).step()?;
    settle(made.and_then(|producer| opened.map(|()| producer)), ours, theirs)
}

/// The destination's side.
pub(super) fn accept(
    connection: &mut TcpStream,
    ours: Transports,
    deadline: Watch<'_>,
) -> io::Result<Option<Consumer>> {
    let mailbox = Mailbox::open().map_err(|error| error.to_string());
    let address = mailbox.as_ref().map(Mailbox::address).unwrap_or([0; ADDRESS_BYTES]);
    let word = Payload::default().u32(code_of(ours)).bytes(&boot_id()).bytes(&address).step(&mailbox);
    say(connection, word, deadline)?;
    let theirs = transports_of(Fields(&hear(connection, deadline)?).u32()?)?;
    if !wanted(ours, theirs)? {
        return Ok(None);
    }
    let delivered = Fields(&hear(connection, deadline)?).step()?;
    let opened = delivered.and(mailbox).and_then(|mailbox| {
        let opened = mailbox.collect().and_then(|memory| Consumer::open(&memory));
        opened.map_err(|error| error.to_string())
    });
    say(connection, Payload::default().step(&opened), deadline)?;
    settle(opened, ours, theirs)
}

/// Whether shared memory is to be tried.
fn wanted(ours: Transports, theirs: Transports) -> io::Result<bool> {
    match (ours, theirs) {
        (Transports::SharedMemory, Transports::Socket) => Err(unsupported("the peer was started to use sockets only")),
        (Transports::Socket, Transports::SharedMemory) => Err(unsupported(
            "this rank was started to use sockets only, but the peer to use shared memory only; start both alike",
        )),
        (Transports::Socket, _) | (_, Transports::Socket) => Ok(false),
        _ => Ok(true),
    }
}

/// What it comes to: without a ring the connection is used, unless one end may not.
fn settle<T>(made: Step<T>, ours: Transports, theirs: Transports) -> io::Result<Option<T>> {
    match made {
        Ok(end) => Ok(Some(end)),
        Err(_) if (ours, theirs) == (Transports::Auto, Transports::Auto) => Ok(None),
        Err(reason) => Err(unsupported(&reason)),
    }
}

fn unsupported(reason: &str) -> io::Error {
    let text = format!("shared memory cannot be used: {reason}; sockets work everywhere");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Makes a ring and puts its other end where the peer says.
fn deliver_ring(boot: &[u8], address: &[u8], ring_bytes: usize) -> Step<Producer> {
    if boot != boot_id() || boot.is_empty() {
        return Err("the two ranks run on different machines".to_owned());
    }
    let address = address.try_into().map_err(|_| format!("a mailbox address has {ADDRESS_BYTES} bytes"))?;
    let made = Producer::new(ring_bytes).and_then(|(producer, memory)| deliver(address, &memory).map(|()| producer));
    made.map_err(|error| format!("{error} (both ranks must see the same network, as processes of one container do)"))
}

/// Tells this machine, since it was last started, from every other; empty where the system does not say.
fn boot_id() -> Vec<u8> {
    fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

const CODES: [(u32, Transports); 3] = [(0, Transports::Auto), (1, Transports::Socket), (2, Transports::SharedMemory)];

fn code_of(transports: Transports) -> u32 {
    CODES.into_iter().find(|&(_, known)| known == transports).map_or(u32::MAX, |(code, _)| code)
}

fn transports_of(code: u32) -> io::Result<Transports> {
    let known = CODES.into_iter().find(|&(known, _)| known == code).map(|(_, transports)| transports);
    known.ok_or_else(|| invalid(format!("transports {code}, which are none")))
}

/// How a step went, as fields.
trait StepFields: Sized {
    fn step<T>(self, step: &Step<T>) -> Self;
}

impl StepFields for Payload {
    fn step<T>(self, step: &Step<T>) -> Self {
        match step {
            Ok(_) => self.u32(1).bytes(b""),
            Err(reason) => self.u32(0).bytes(&reason.as_bytes()[..reason.len().min(MAX_REASON_BYTES)]),
        }
    }
}

impl Fields<'_> {
    /// How a step went over there.
    fn step(&mut self) -> io::Result<Step<()>> {
        let (done, reason) = (self.u32()?, self.bytes()?);
        Ok(if done == 1 { Ok(()) } else { Err(String::from_utf8_lossy(reason).into_owned()) })
    }
}

fn say(connection: &mut TcpStream, word: Payload, deadline: Watch<'_>) -> io::Result<()> {
    connection.set_write_timeout(Some(deadline.left()?))?;
    write_frame(connection, Kind::Way, 0, 0, &word.0)
}

fn hear(connection: &mut TcpStream, deadline: Watch<'_>) -> io::Result<Vec<u8>> {
    Ok(read_frame(&mut Patient { connection, deadline }, &[Kind::Way])?.payload)
}

/// Reads until a deadline or a loss, however slowly the bytes drip in.
struct Patient<'a> {
    connection: &'a TcpStream,
    deadline: Watch<'a>,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const SILENT: &str = "the peer did not say what the link is to go through";
        let mut connection = self.connection;
        loop {
            let slice = self.deadline.slice().map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => io::Error::new(io::ErrorKind::TimedOut, SILENT),
                _ => error,
            })?;
            connection.set_read_timeout(Some(slice))?;
            match connection.read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::deadline::Deadline;

    const RING: usize = 4096;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let dialled = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (dialled, listener.accept().expect("it was dialled").0)
    }

    fn soon() -> Watch<'static> {
        Deadline::after(Duration::from_secs(20)).into()
    }

    /// What the source comes to when the destination says it is elsewhere, and then whatever it likes.
    fn offer_to(boot: Vec<u8>, address: Vec<u8>, ours: Transports) -> io::Result<Option<Producer>> {
        let (mut source, mut destination) = connected();
        let peer = thread::spawn(move || {
            let word = Payload::default().u32(0).bytes(&boot).bytes(&address).step(&Ok(()));
            say(&mut destination, word, soon()).expect("it is connected");
            hear(&mut destination, soon()).expect("what it may use");
            let delivered = Fields(&hear(&mut destination, soon()).expect("how it went")).step().expect("a step");
            say(&mut destination, Payload::default().step(&delivered), soon()).expect("it is connected");
        });
        let offered = offer(&mut source, ours, RING, soon());
        peer.join().expect("it is told everything");
        offered
    }

    #[test]
    fn what_is_out_of_reach_leaves_the_connection_or_is_an_error_that_says_why() {
        let far = (b"another boot".to_vec(), vec![1; ADDRESS_BYTES], "different machines");
        let closed_off = (boot_id(), vec![1; ADDRESS_BYTES], "mailbox");
        let senseless = (boot_id(), vec![1; 3], "32 bytes");
        for (boot, address, why) in [far, closed_off, senseless] {
            let auto = offer_to(boot.clone(), address.clone(), Transports::Auto);
            assert!(auto.expect("there is the connection").is_none(), "{why}");
            let error = offer_to(boot, address, Transports::SharedMemory).expect_err("it must be shared memory");
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.to_string().ends_with("sockets work everywhere"), "{error}");
        }
    }

    #[test]
    fn a_peer_that_promises_memory_and_sends_none_is_not_believed() {
        let (mut source, mut destination) = connected();
        let peer = thread::spawn(move || {
            say(&mut source, Payload::default().u32(0), soon()).expect("it is connected");
            say(&mut source, Payload::default().step(&Ok(())), soon()).expect("it is connected");
            hear(&mut source, soon()).expect("what it may use");
            Fields(&hear(&mut source, soon()).expect("how it went")).step().expect("a step")
        });
        assert!(accept(&mut destination, Transports::Auto, soon()).expect("there is the connection").is_none());
        let told = peer.join().expect("it is told").expect_err("nothing came");
        assert!(told.contains("mailbox"), "{told}");
    }

    #[test]
    fn silence_and_nonsense_end_in_time() {
        let (mut source, mut destination) = connected();
        let start = Instant::now();
        let short = || Deadline::after(Duration::from_millis(100)).into();
        let error = accept(&mut destination, Transports::Auto, short()).expect_err("nobody says anything");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(start.elapsed() < Duration::from_secs(10));
        // Bytes without end, which are no frame.
        thread::spawn(move || while source.write_all(b"P").is_ok() && start.elapsed() < Duration::from_secs(20) {});
        let error = accept(&mut destination, Transports::Auto, soon()).expect_err("that is no frame");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}
