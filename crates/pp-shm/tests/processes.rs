//! Rings between two processes. It has a main of its own, because it starts itself as the other process.

use std::env::{args, current_exe};
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::mem::MaybeUninit;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pp_shm::{ADDRESS_BYTES, Bell, Consumer, Mailbox, Producer, ShmError, deliver};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes streamed through a ring: far more than it holds.
const STREAM: usize = 48 << 20;

const RING: usize = 1 << 16;

fn main() -> Outcome {
    let arguments: Vec<String> = args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["consumer"] => consumer(),
        ["producer", address] => producer(address),
        // Cargo's own arguments choose tests by name, which these are too few for.
        _ => {
            for (name, test) in TESTS {
                println!("test {name} ...");
                test()?;
            }
            Ok(())
        }
    }
}

type Test = fn() -> Outcome;

const TESTS: [(&str, Test); 3] = [
    ("a stream between processes arrives as it was sent", stream_arrives),
    ("a stream between threads arrives as it was sent", stream_between_threads),
    ("processes that are killed leave nothing behind", nothing_is_left),
];

/// The byte at a place of the stream.
fn byte(place: usize) -> u8 {
    (place % 251) as u8
}

/// Looks again and again, asleep in between, until there is something.
fn until<T>(bell: &Bell, mut look: impl FnMut() -> Result<Option<T>, ShmError>) -> Result<T, Box<dyn Error>> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let armed = bell.arm();
        if let Some(found) = look()? {
            return Ok(found);
        }
        // The other side calls: only a call that got lost would let this sleep to its end.
        let asleep = Instant::now();
        bell.park(armed, PATIENCE);
        assert!(asleep.elapsed() < PATIENCE, "nobody called");
    }
    Err("it took too long".into())
}

fn send_stream(producer: &mut Producer) -> Outcome {
    let bell = producer.bell();
    let piece: Vec<u8> = (0..251 * 400).map(byte).collect();
    let mut sent = 0;
    while sent < STREAM {
        // Pieces of very different sizes, each a part of the pattern.
        let len = (1 << (sent % 17)).min(STREAM - sent);
        let from = sent % 251;
        let mut part = &piece[from..][..len];
        while !part.is_empty() {
            let n = until(&bell, || producer.write(part).map(|n| (n > 0).then_some(n)))?;
            part = &part[n..];
        }
        sent += len;
    }
    until(&bell, || Ok((producer.grants() == 7).then_some(())))
}

fn receive_stream(consumer: &mut Consumer) -> Outcome {
    let bell = consumer.bell();
    let (mut room, mut received) = (vec![MaybeUninit::uninit(); 100_000], 0);
    while received < STREAM {
        let n = until(&bell, || {
            let read = consumer.read(&mut room)?;
            let wrong = read.iter().enumerate().position(|(index, &found)| found != byte(received + index));
            assert_eq!(wrong, None, "after {received} bytes");
            Ok((!read.is_empty()).then_some(read.len()))
        })?;
        received += n;
    }
    consumer.grant(7);
    Ok(())
}

fn stream_between_threads() -> Outcome {
    let (mut producer, memory) = Producer::new(RING)?;
    let mut consumer = Consumer::open(&memory)?;
    let other = thread::spawn(move || receive_stream(&mut consumer).map_err(|error| error.to_string()));
    send_stream(&mut producer)?;
    Ok(other.join().expect("it does not panic")?)
}

fn stream_arrives() -> Outcome {
    let (mut other, address) = start_consumer()?;
    let (mut producer, memory) = Producer::new(RING)?;
    deliver(&address, &memory)?;
    other.say("collect")?;
    assert_eq!(other.hear()?, "collected");
    send_stream(&mut producer)?;
    assert_eq!(other.hear()?, "received");
    Ok(())
}

/// Both ends are killed while the ring is in use.
fn nothing_is_left() -> Outcome {
    let (mut consumer, address) = start_consumer()?;
    let name = hex(&address[..ADDRESS_BYTES / 2]);
    let mut producer = Other::start(&["producer", &hex(&address)])?;
    assert_eq!(producer.hear()?, "delivered");
    consumer.say("collect")?;
    assert_eq!(consumer.hear()?, "collected");
    assert!(sockets()?.contains(&name), "an open mailbox is seen");
    // Killed with SIGKILL, and waited for, when dropped.
    drop((producer, consumer));
    assert!(!sockets()?.contains(&name), "its name is gone with its process");
    Ok(())
}

/// The names of all sockets of this network namespace, as hexadecimal digits: the system shows abstract names as they are.
fn sockets() -> Result<String, Box<dyn Error>> {
    Ok(hex(&fs::read("/proc/net/unix")?
        .into_iter()
        .map(|byte| if byte == b'@' { 0 } else { byte })
        .collect::<Vec<_>>()))
}

fn start_consumer() -> Result<(Other, [u8; ADDRESS_BYTES]), Box<dyn Error>> {
    let mut other = Other::start(&["consumer"])?;
    let address = from_hex(&other.hear()?)?;
    Ok((other, address))
}

/// The consumer's process.
fn consumer() -> Outcome {
    let mailbox = Mailbox::open()?;
    println!("{}", hex(&mailbox.address()));
    std::io::stdin().read_exact(&mut [0; 8])?;
    let mut consumer = Consumer::open(&mailbox.collect()?)?;
    println!("collected");
    receive_stream(&mut consumer)?;
    println!("received");
    Ok(())
}

/// The producer's process, where it is not the test itself.
fn producer(address: &str) -> Outcome {
    let (mut producer, memory) = Producer::new(RING)?;
    deliver(&from_hex(address)?, &memory)?;
    println!("delivered");
    loop {
        producer.write(&[0])?;
        thread::sleep(Duration::from_millis(1));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &str) -> Result<[u8; ADDRESS_BYTES], Box<dyn Error>> {
    let mut bytes = [0; ADDRESS_BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2).ok_or("too few digits")?, 16)?;
    }
    Ok(bytes)
}

/// Another process of this program, killed when it is dropped.
struct Other {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Other {
    fn start(arguments: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(current_exe()?);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("it is piped")?);
        Ok(Self { child, output })
    }

    fn say(&mut self, word: &str) -> Outcome {
        let input = self.child.stdin.as_mut().ok_or("it is piped")?;
        Ok(writeln!(input, "{word}")?)
    }

    fn hear(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
