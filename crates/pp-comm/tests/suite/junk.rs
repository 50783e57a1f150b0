//! Strangers at the listeners of a run, ten thousand of them: the run's results are the same.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{FORTH, HEARTBEAT, PATIENCE, channel};
use crate::speaker::{BARRIER, Claim, HELLO, Speaker, frame};
use pp_comm::{Host, HostSpec, JoinSpec, Secret, Transports, join};
use pp_schedule::{Channel, Direction, Rank};

fn secret() -> Option<Secret> {
    Some(Secret::new([5; 32]))
}

fn host(n_ranks: u32) -> Host {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (certificates, run_name) = (Vec::new(), String::new());
    let spec = HostSpec { n_ranks, certificates, deadline: PATIENCE, heartbeat: HEARTBEAT, secret: secret(), run_name };
    Host::spawn(listener, spec).expect("a host")
}

fn spec(host: SocketAddr, rank: u32, n_ranks: u32, channels: &[Channel]) -> JoinSpec {
    JoinSpec {
        host: host.into(),
        rank: Rank(rank),
        n_ranks,
        fingerprints: Vec::new(),
        channels: channels.to_vec(),
        deadline: PATIENCE,
        heartbeat: HEARTBEAT,
        transports: Transports::Auto,
        rough: None,
        terms: 0,
        secret: secret(),
        run_name: String::new(),
    }
}

/// One stranger, of the kind that its number says; a connection that it leaves open is given back.
fn stranger(address: SocketAddr, number: u64) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    let hello = frame(HELLO, &Claim::new(2, 1, secret()).hello());
    // Whoever is hung up on half-way cannot write any more; that is as it should be.
    let _ = match number % 6 {
        // Bytes of any kind.
        0 => stream.write_all(&(0..200).map(|at| (number.wrapping_mul(at * at + 7) >> 3) as u8).collect::<Vec<u8>>()),
        // Half a hello, and the other half never.
        1 => stream.write_all(&hello[..hello.len() / 2]),
        // A hello that was overheard.
        2 => stream.write_all(&hello),
        // More than may be said at first.
        3 => stream.write_all(&[hello.as_slice(), &[0; 6000]].concat()),
        // The word of a rank that is in already.
        4 => stream.write_all(&frame(BARRIER, &[])),
        _ => Ok(()),
    };
    // Some hang up at once, some wait.
    (number % 5 < 2).then_some(stream)
}

/// Strangers one after the other, until there were enough or it is time to stop; gives how many got a connection.
fn storm(address: SocketAddr, n_strangers: u64, stop: &AtomicBool) -> u64 {
    let mut open = std::collections::VecDeque::new();
    let mut n_connected = 0;
    for number in 0..n_strangers {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(stream) = stranger(address, number) {
            open.push_back(stream);
        }
        n_connected += 1;
        // As many as a process may have open.
        if open.len() > 300 {
            open.pop_front();
        }
    }
    n_connected
}

#[test]
fn ten_thousand_strangers_before_and_during_a_run_change_nothing() {
    let host = host(2);
    let address = host.address();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let live = |rank: u8| {
            let mut member = join(&spec(address, rank.into(), 2, &[FORTH])).expect("strangers do not count").member;
            let parts: Vec<_> =
                (0..20).map(|round| member.control.all_gather(&[rank, round]).expect("both give")).collect();
            member.close();
            parts
        };
        // All of them before the second rank comes, with the first one waiting; and more while they run.
        let first = scope.spawn(move || live(0));
        assert_eq!(storm(address, 10_000, &AtomicBool::new(false)), 10_000);
        scope.spawn(|| storm(address, u64::MAX, &stop));
        let second = scope.spawn(move || live(1));
        let expected: Vec<_> = (0..20).map(|round| vec![vec![0, round], vec![1, round]]).collect();
        for rank in [first, second] {
            assert_eq!(rank.join().expect("no panic"), expected);
        }
        stop.store(true, Ordering::Relaxed);
        host.wait(PATIENCE).expect("all have left");
    });
    TcpListener::bind(address).expect("the port is free at once");
}

/// The ranks' own listeners are there from their hello to their last link; the third rank makes its link late.
#[test]
fn strangers_at_a_ranks_listener_change_nothing() {
    let late = channel(2, 0, Direction::Forward);
    let channels = [FORTH, late];
    let host = host(3);
    let address = host.address();
    thread::scope(|scope| {
        let ranks: Vec<_> = [0, 1]
            .map(|rank| scope.spawn(move || join(&spec(address, rank, 3, &channels)).expect("joined").member.close()))
            .into();
        let claim = Claim::new(3, 2, secret());
        let (mut speaker, run, addresses) = claim.join(address).expect("a welcome");
        // The others make their links once they have heard its channels.
        speaker.start_with(&[late]).expect("it listens");
        assert_eq!(storm(addresses[0], 2_000, &AtomicBool::new(false)), 2_000);
        // A link that was proved, but for another run: no rank of this one.
        drop(claim.link(addresses[0], run ^ 1, late));
        let link = claim.link(addresses[0], run, late).expect("the link that is awaited");
        for rank in ranks {
            rank.join().expect("no panic");
        }
        drop((speaker, link));
        assert!(TcpStream::connect(addresses[0]).is_err(), "closed once all links are there");
    });
}

#[test]
fn the_oldest_silent_caller_makes_room_and_none_stays_for_long() {
    let host = host(1);
    let call = || Speaker::call(host.address()).expect("it listens");
    let mut callers: Vec<Speaker> = (0..200).map(|_| call()).collect();
    let (old, new) = callers.split_at_mut(60);
    for caller in old {
        assert!(caller.is_hung_up_within(PATIENCE), "there is room for 128");
    }
    let newest = new.last_mut().expect("140");
    assert!(!newest.is_hung_up_within(Duration::from_millis(100)), "it has a few seconds");
    join(&spec(host.address(), 0, 1, &[])).expect("nobody is held up").member.close();
    assert!(newest.is_hung_up_within(PATIENCE));
    host.wait(PATIENCE).expect("all have left");
}

#[test]
fn a_silent_caller_is_hung_up_on_after_a_few_seconds() {
    let host = host(1);
    let mut caller = Speaker::call(host.address()).expect("it listens");
    assert!(caller.is_hung_up_within(Duration::from_secs(20)));
    drop(host);
}
