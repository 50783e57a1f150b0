//! A host in a process of its own, stopped and killed: this binary once more, as the one test below that is a part of others.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{AT_ONCE, PATIENCE, channel, each, meeting};
use pp_comm::{CommError, Host, HostSpec, JoinSpec, Member, RendezvousError, Transports, join};
use pp_schedule::{Channel, Direction, Rank};
use rustix::process::{Pid, Signal, kill_process};

const N_RANKS: u32 = 2;
/// What the host bears; the ranks bear far more.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Stands before the address in what the host's process prints.
const ADDRESS: &str = "the host is at ";
/// Tells that process that it was started by a test.
const MARK: &str = "PP_COMM_TEST_HOST";

#[test]
#[ignore = "a part of other tests: the process that they stop and kill"]
fn hosts_for_another_test() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (n_ranks, certificates, run_name) = (N_RANKS, Vec::new(), String::new());
    let spec = HostSpec { n_ranks, certificates, deadline: PATIENCE, heartbeat: HEARTBEAT, secret: None, run_name };
    let host = Host::spawn(listener, spec).expect("a host");
    println!("{ADDRESS}{}", host.address());
    host.wait(PATIENCE).expect("all have left");
}

/// More links each way than [`FEW_FILES`] are enough for.
const N_LINKS: u32 = 30;
const FEW_FILES: u32 = 24;
/// Stands before what a rank that cannot join prints.
const CANNOT: &str = "it cannot join: ";

/// What joins over many links of one direction.
fn many_links(address: SocketAddr, rank: u32, source: u32) -> JoinSpec {
    let link = channel(source, 1 - source, Direction::Forward);
    let channels = (0..N_LINKS).map(|queue| Channel { queue, ..link }).collect();
    JoinSpec { channels, ..spec(address, rank) }
}

#[test]
#[ignore = "a part of another test: a rank that may not have enough files open"]
fn joins_for_another_test() {
    let Ok(words) = std::env::var(MARK) else { return };
    let (address, source) = words.split_once(' ').expect("an address and a rank");
    let (address, source) = (address.parse().expect("an address"), source.parse().expect("a rank"));
    let error = join(&many_links(address, 1, source)).map(drop).expect_err("there are not enough files");
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(&error) {
        text += &format!(": {source}");
    }
    println!("{CANNOT}{text}");
}

/// Whether it dials or takes the links: it says at once what the system said, and the other rank is told.
#[test]
fn a_rank_without_enough_files_says_so_and_the_other_is_told() {
    for source in [0, 1] {
        let (certificates, run_name) = (Vec::new(), String::new());
        let host_spec = HostSpec {
            n_ranks: N_RANKS,
            certificates,
            deadline: PATIENCE,
            heartbeat: PATIENCE,
            secret: None,
            run_name,
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let host = Host::spawn(listener, host_spec).expect("a host");
        let address = host.address();
        let start = Instant::now();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {FEW_FILES} && exec \"$0\" \"$@\"")]);
        shell.arg(std::env::current_exe().expect("this binary"));
        shell.args(["--exact", "process::joins_for_another_test", "--ignored", "--nocapture"]);
        let mut poor =
            Process(shell.env(MARK, format!("{address} {source}")).stdout(Stdio::piped()).spawn().expect("started"));
        let told = join(&many_links(address, 0, source)).map(drop).expect_err("the other one cannot");
        let RendezvousError::Comm(CommError::PeerLost { rank: Rank(1), reason }) = &told else { panic!("{told}") };
        assert!(reason.contains("Too many open files"), "{reason}");
        let lines = BufReader::new(poor.0.stdout.take().expect("piped")).lines();
        let own = lines.map_while(Result::ok).find_map(|line| Some(line.split_once(CANNOT)?.1.to_owned()));
        let own = own.expect("it says why");
        assert!(own.contains("Too many open files"), "{own}");
        assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    }
}

/// A process that does not outlive the test.
struct Process(Child);

impl Process {
    fn start() -> (Self, SocketAddr) {
        Self::start_by(Command::new(std::env::current_exe().expect("this binary")))
    }

    /// A host that may not have more files open than this.
    fn start_with_files(n_files: u32) -> (Self, SocketAddr) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {n_files} && exec \"$0\" \"$@\"")]);
        shell.arg(std::env::current_exe().expect("this binary"));
        Self::start_by(shell)
    }

    fn start_by(mut command: Command) -> (Self, SocketAddr) {
        command.args(["--exact", "process::hosts_for_another_test", "--ignored", "--nocapture"]);
        let mut process = Self(command.env(MARK, "1").stdout(Stdio::piped()).spawn().expect("started"));
        let lines = BufReader::new(process.0.stdout.take().expect("piped")).lines();
        let mut address = lines.filter_map(|line| Some(line.ok()?.split_once(ADDRESS)?.1.parse().expect("an address")));
        let address = address.next().expect("it says where it is");
        (process, address)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn member(address: SocketAddr, rank: u32) -> Member {
    join(&spec(address, rank)).expect("all ranks join").member
}

fn spec(address: SocketAddr, rank: u32) -> JoinSpec {
    JoinSpec {
        host: address.into(),
        rank: Rank(rank),
        n_ranks: N_RANKS,
        fingerprints: Vec::new(),
        channels: Vec::new(),
        deadline: PATIENCE,
        heartbeat: PATIENCE,
        transports: Transports::Auto,
        rough: None,
        terms: 0,
        secret: None,
        run_name: String::new(),
    }
}

/// What it slept through does not count against the others: it first takes in what they sent meanwhile.
#[test]
fn a_host_that_was_stopped_holds_nobodys_silence_against_them() {
    let (process, address) = Process::start();
    each(vec![0, 1], |rank| {
        let mut member = member(address, rank);
        if rank == 0 {
            process.signal(Signal::STOP);
            thread::sleep(HEARTBEAT * 3);
            process.signal(Signal::CONT);
        }
        for _ in 0..3 {
            member.control.barrier().expect("nobody is lost");
            thread::sleep(HEARTBEAT / 2);
        }
        member.close();
    });
}

/// They are hung up on as soon as there is no room for more, not only after the seconds that a silent caller has.
#[test]
fn strangers_do_not_use_up_the_files_that_a_host_may_have_open() {
    let (_process, address) = Process::start_with_files(40);
    let strangers: Vec<_> = (0..100).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let start = Instant::now();
    each(vec![0, 1], |rank| {
        let mut member = member(address, rank);
        member.control.barrier().expect("nobody is lost");
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        member.close();
    });
    drop(strangers);
}

#[test]
fn a_host_that_was_killed_is_lost_at_once_and_its_port_is_free() {
    let (process, address) = Process::start();
    let joined = meeting(2);
    each(vec![0, 1], |rank| {
        let mut member = member(address, rank);
        joined.wait();
        if rank == 0 {
            process.signal(Signal::KILL);
        }
        let start = Instant::now();
        let error = member.control.barrier().expect_err("the host is gone");
        let CommError::PeerLost { rank: Rank(0), reason } = &error else { panic!("{error}") };
        assert!(reason.contains("closed its connection") && start.elapsed() < AT_ONCE, "{error}");
    });
    drop(process);
    TcpListener::bind(address).expect("the port is free at once");
}
