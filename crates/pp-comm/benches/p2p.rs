//! Messages between two processes of one host: `cargo bench -p pp-comm --bench p2p`.
//!
//! Two processes, each pinned to a processor with all its threads, first send a message back and forth and then one way, per
//! size, over shared memory and over TCP on the loopback. Prints a line of JSON per size and run: half of a round trip (median
//! and minimum, microseconds) and the stream's rate (GB/s); as of a program that prints lines with the same keys.
//!
//! `--peer 'COMMAND'` runs such a program in turn with ours (A B A B ..), drops everybody's first run, and adds lines with the
//! ratios of ours to the peer's (medians over the runs; below 1 is better for times, above 1 for rates). `--rounds N` sets how
//! many runs count, `--over shm|tcp` leaves the other out.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pp_comm::{Buffer, Envelope, Host, HostSpec, JoinSpec, Member, Transports, join};
use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Stage};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

/// Sizes of a message in bytes.
const SIZES: [usize; 6] = [8, 128 << 10, 512 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Round trips that are not counted.
const WARMUP: usize = 3;

const DEADLINE: Duration = Duration::from_secs(60);

/// What is said of a size.
const KEYS: [&str; 3] = ["half_rtt_us_median", "half_rtt_us_min", "stream_gb_s"];

const fn channel(source: u32, destination: u32, direction: Direction) -> Channel {
    Channel { source: Rank(source), destination: Rank(destination), carries: Carries::Only(direction), queue: source }
}

const FORTH: Channel = channel(0, 1, Direction::Forward);
const BACK: Channel = channel(1, 0, Direction::Backward);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(place + 1).unwrap_or_else(|| panic!("{name} needs a value")).as_str())
    };
    if let Some(rank) = value("--rank") {
        let host = value("--host").expect("an address").parse().expect("an address");
        let transports = transports(value("--over").expect("a transport"));
        return run_rank(rank.parse().expect("a rank"), host, transports);
    }
    let rounds = value("--rounds").map_or(3, |rounds| rounds.parse().expect("--rounds N"));
    let over: Vec<&str> =
        ["shm", "tcp"].into_iter().filter(|name| value("--over").is_none_or(|o| o == *name)).collect();
    assert!(!over.is_empty(), "--over shm or --over tcp");
    compare(&over, value("--peer"), rounds);
}

fn transports(name: &str) -> Transports {
    match name {
        "shm" => Transports::SharedMemory,
        "tcp" => Transports::Socket,
        other => panic!("--over {other}: it is shm or tcp"),
    }
}

/// Runs everybody in turn, and prints what they say and how it compares.
fn compare(over: &[&str], peer: Option<&str>, rounds: usize) {
    let mut ours: Vec<Vec<Vec<Value>>> = vec![Vec::new(); over.len()];
    let mut theirs: Vec<Vec<Value>> = Vec::new();
    for round in 0..=rounds {
        // The first round warms up whatever there is to warm up.
        let counts = round > 0;
        for (runs, name) in ours.iter_mut().zip(over) {
            runs.extend(counts.then_some(run_pair(name)).into_iter().inspect(|lines| print(lines)));
        }
        if let Some(command) = peer {
            let lines = run_peer(command);
            theirs.extend(counts.then_some(lines).into_iter().inspect(|lines| print(lines)));
        }
    }
    for (runs, name) in ours.iter().zip(over).filter(|_| !theirs.is_empty()) {
        for (index, size) in SIZES.into_iter().enumerate() {
            let ratio = |key: &str| {
                let of =
                    |runs: &[Vec<Value>]| median(runs.iter().filter_map(|lines| number(lines, size, key)).collect());
                of(runs).zip(of(&theirs)).map(|(ours, theirs)| (1e4 * ours / theirs).round() / 1e4)
            };
            let [median, min, stream] = KEYS.map(ratio);
            let name = runs[0][index]["peer"].as_str().unwrap_or(name);
            println!(
                "{}",
                json!({"ratio_of": name, "bytes": size, KEYS[0]: median, KEYS[1]: min, KEYS[2]: stream, "runs": rounds})
            );
        }
    }
}

fn print(lines: &[Value]) {
    lines.iter().for_each(|line| println!("{line}"));
}

/// What is said under a key of a size.
fn number(lines: &[Value], size: usize, key: &str) -> Option<f64> {
    lines.iter().find(|line| line["bytes"].as_u64() == Some(size as u64))?[key].as_f64()
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// A process that does not outlive this one's interest in it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of JSON that a process prints.
fn lines_of(child: &mut Killed) -> Vec<Value> {
    let output = BufReader::new(child.0.stdout.take().expect("it is piped"));
    let lines = output.lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect();
    assert!(child.0.wait().expect("it was started").success(), "a measured process failed");
    lines
}

/// One run of two processes of ours.
fn run_pair(over: &str) -> Vec<Value> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let certificates = Vec::new();
    let spec = HostSpec {
        n_ranks: 2,
        certificates,
        deadline: DEADLINE,
        heartbeat: Duration::from_secs(10),
        secret: None,
        run_name: String::new(),
    };
    let host = Host::spawn(listener, spec).expect("a host");
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--rank", &rank.to_string(), "--host", &host.address().to_string(), "--over", over]);
        Killed(command.stdout(Stdio::piped()).spawn().expect("it is this program"))
    };
    let (mut first, mut second) = (start(0), start(1));
    let lines = lines_of(&mut first);
    lines_of(&mut second);
    host.wait(DEADLINE).expect("both have left");
    lines
}

fn run_peer(command: &str) -> Vec<Value> {
    let mut shell = Command::new("sh");
    let child = shell.args(["-c", command]).stdout(Stdio::piped()).spawn().expect("there is a shell");
    lines_of(&mut Killed(child))
}

/// The life of one of the two processes.
fn run_rank(rank: u32, host: std::net::SocketAddr, transports: Transports) {
    let allowed = sched_getaffinity(None).expect("this thread");
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let mut mine = CpuSet::new();
    mine.set(processors[rank as usize % processors.len()]);
    // Before there is any other thread, so that all are pinned.
    sched_setaffinity(None, &mine).expect("a processor that this process may use");
    let spec = JoinSpec {
        host: host.into(),
        rank: Rank(rank),
        n_ranks: 2,
        fingerprints: Vec::new(),
        channels: vec![FORTH, BACK],
        deadline: DEADLINE,
        heartbeat: Duration::from_secs(10),
        transports,
        rough: None,
        terms: 0,
        secret: None,
        run_name: String::new(),
    };
    let mut member = join(&spec).expect("both join").member;
    for size in SIZES {
        let line = measure(&mut member, size);
        if rank == 0 {
            println!("{line}");
        }
    }
    member.close();
}

/// A message and the place where one is received, which take turns.
struct Traffic<'a> {
    member: &'a mut Member,
    outgoing: Option<Buffer>,
    incoming: Option<Buffer>,
    n_sent: u64,
}

impl Traffic<'_> {
    fn envelope(&self, channel: Channel) -> Envelope {
        let direction = if channel == FORTH { Direction::Forward } else { Direction::Backward };
        let message = Message { direction, stage: Stage(channel.destination.0), microbatch: Microbatch(0) };
        Envelope { step: self.n_sent, message }
    }

    /// Moves one message over a channel, at whichever end this process is.
    fn one(&mut self, channel: Channel) {
        self.n_sent += 1;
        let envelope = self.envelope(channel);
        let endpoint = &mut self.member.endpoint;
        if channel.source == endpoint.rank() {
            let buffer = self.outgoing.take().expect("it was given back");
            let ticket = endpoint.post_send(channel, envelope, buffer).expect("posted");
            self.outgoing = Some(endpoint.wait_send(ticket).expect("sent"));
        } else {
            let buffer = self.incoming.take().expect("it was given back");
            let ticket = endpoint.post_recv_into(channel, envelope, buffer).expect("posted");
            self.incoming = Some(endpoint.wait_recv(ticket).expect("received"));
        }
    }
}

fn measure(member: &mut Member, size: usize) -> Value {
    let repeats = if size < 1024 { 1000 } else { ((128 << 20) / size).clamp(16, 200) };
    let buffer = || Some(Buffer::f32(&[size / 4], vec![1.0; size / 4]).expect("as long as its shape"));
    let name = member.endpoint.transport_of(FORTH).expect("its channel");
    let mut traffic = Traffic { member, outgoing: buffer(), incoming: buffer(), n_sent: 0 };
    let mut times = Vec::with_capacity(repeats);
    for turn in 0..repeats + WARMUP {
        let start = Instant::now();
        traffic.one(FORTH);
        traffic.one(BACK);
        if turn >= WARMUP {
            times.push(start.elapsed().as_secs_f64() / 2.0 * 1e6);
        }
    }
    traffic.member.control.barrier().expect("both are here");
    let start = Instant::now();
    (0..repeats).for_each(|_| traffic.one(FORTH));
    traffic.member.control.barrier().expect("both are here");
    let stream = (size * repeats) as f64 / start.elapsed().as_secs_f64() / 1e9;
    times.sort_by(f64::total_cmp);
    let keep = |number: f64| (number * 1e4).round() / 1e4;
    json!({
        "peer": format!("pp-comm, {name}"), "bytes": size, KEYS[0]: keep(times[times.len() / 2]), KEYS[1]: keep(times[0]),
        KEYS[2]: keep(stream),
    })
}
