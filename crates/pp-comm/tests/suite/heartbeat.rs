//! Ranks that freeze, end or fail: all others learn which one and why, whatever they are doing.

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ALL, AT_ONCE, FORTH, Kind, PATIENCE, each, envelope, floats_of, meeting, run};
use crate::speaker::{
    ALL_GATHER, BARRIER, CALLED, CHALLENGE, CONTROL, Claim, HELLO, LOST, PART, PROOF, PROVEN, Speaker, WELCOME, prove,
};
use pp_comm::{CommError, Host, HostSpec, JoinSpec, Member, Transports, join};
use pp_schedule::Rank;

/// Short, so that the tests are; long enough for a thread to get a core on a loaded machine.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How much later than the heartbeat a frozen rank may be noticed.
const NOTICED: Duration = Duration::from_secs(2);

fn host(n_ranks: u32) -> Host {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (certificates, run_name) = (Vec::new(), String::new());
    let spec = HostSpec { n_ranks, certificates, deadline: PATIENCE, heartbeat: HEARTBEAT, secret: None, run_name };
    Host::spawn(listener, spec).expect("a host")
}

fn member(address: SocketAddr, rank: u32, n_ranks: u32) -> Member {
    let spec = JoinSpec {
        host: address.into(),
        rank: Rank(rank),
        n_ranks,
        fingerprints: Vec::new(),
        channels: Vec::new(),
        deadline: PATIENCE,
        heartbeat: HEARTBEAT,
        transports: Transports::Auto,
        rough: None,
        terms: 0,
        secret: None,
        run_name: String::new(),
    };
    join(&spec).expect("all ranks join").member
}

/// What a rank heard of a loss while it computed, and when.
fn next_loss(member: &Member) -> mpsc::Receiver<(Rank, String, Instant)> {
    let (sender, losses) = mpsc::channel();
    let tell = move |rank, reason: &str| drop(sender.send((rank, reason.to_owned(), Instant::now())));
    member.on_loss(tell).expect("a thread");
    losses
}

/// Runs two true ranks and one that is spoken by hand; gives what each of the true ones heard of the loss that followed.
fn with_a_fake(live: impl FnOnce(Speaker) -> Instant + Send) -> Vec<(Rank, String, Duration)> {
    let host = host(3);
    let address = host.address();
    thread::scope(|scope| {
        let fake = scope.spawn(move || {
            let (mut speaker, _, _) = Claim::new(3, 2, None).join(address).expect("welcome");
            speaker.start_with(&[]).expect("it listens");
            live(speaker)
        });
        let told: Vec<_> = [0, 1]
            .map(|rank| {
                scope.spawn(move || {
                    let mut member = member(address, rank, 3);
                    let losses = next_loss(&member);
                    // One waits for all others; one computes.
                    if rank == 0 {
                        let error = member.control.barrier().expect_err("one is lost");
                        assert!(matches!(error, CommError::PeerLost { rank: Rank(2), .. }), "{error}");
                    }
                    let told = losses.recv_timeout(PATIENCE).expect("one is lost");
                    let heard = member.control.last_heard();
                    assert!(heard.iter().any(|heard| heard.rank == Rank(2) && heard.text == "sang"), "{heard:?}");
                    assert_eq!(heard.len(), 3, "{heard:?}");
                    assert_eq!(losses.recv(), Err(mpsc::RecvError), "once");
                    member.close();
                    told
                })
            })
            .into_iter()
            .map(|told| told.join().expect("no panic"))
            .collect();
        let last = fake.join().expect("no panic");
        told.into_iter().map(|(rank, reason, at)| (rank, reason, at.saturating_duration_since(last))).collect()
    })
}

#[test]
fn a_rank_that_falls_silent_is_frozen_and_everybody_learns_it_in_time() {
    let told = with_a_fake(|mut speaker| {
        let start = Instant::now();
        // As long as it beats it is not.
        while start.elapsed() < HEARTBEAT * 3 / 2 {
            speaker.beat("sang").expect("it listens");
            thread::sleep(HEARTBEAT / 8);
        }
        speaker.beat("sang").expect("it listens");
        let last = Instant::now();
        // It is told as well, for when it wakes.
        let reason = speaker.hear_until(LOST).expect("the verdict");
        assert!(String::from_utf8_lossy(&reason).contains("no heartbeat"));
        last
    });
    for (rank, reason, after) in told {
        assert_eq!(rank, Rank(2));
        assert!(reason.contains("no heartbeat for 2.0s") && !reason.contains("closed"), "{reason}");
        assert!((HEARTBEAT..HEARTBEAT + NOTICED).contains(&after), "{after:?}");
    }
}

#[test]
fn a_rank_that_ends_has_closed_its_connection_and_everybody_learns_it_at_once() {
    let told = with_a_fake(|mut speaker| {
        speaker.beat("sang").expect("it listens");
        // Until the other ranks are past their start.
        thread::sleep(HEARTBEAT / 2);
        Instant::now()
    });
    for (rank, reason, after) in told {
        assert_eq!(rank, Rank(2));
        assert!(reason.contains("closed its connection") && !reason.contains("heartbeat"), "{reason}");
        assert!(after < AT_ONCE, "{after:?}");
    }
}

/// A host by hand, that welcomes one rank, takes its first barrier, and falls silent.
#[test]
fn a_rank_notices_by_itself_that_the_host_is_frozen() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (done, until_done) = mpsc::channel::<()>();
    let frozen = thread::spawn(move || {
        let mut speaker = Speaker(listener.accept().expect("a rank calls").0);
        let hello = speaker.hear_until(HELLO).expect("a hello");
        let mut challenge = [0; 56];
        challenge[0] = 3;
        speaker.say(CHALLENGE, &challenge).expect("it listens");
        speaker.hear_until(PROOF).expect("a proof");
        speaker.say(PROVEN, &prove(None, [CONTROL, CALLED], &hello, &challenge)).expect("it listens");
        let mut welcome = 10_000u64.to_le_bytes().to_vec();
        welcome.extend(1u32.to_le_bytes());
        welcome.extend(11u64.to_le_bytes());
        welcome.extend(b"127.0.0.1:9\0\0\0\0");
        speaker.say(WELCOME, &welcome).expect("it listens");
        let list = speaker.hear_until(ALL_GATHER).expect("its channels");
        speaker.say_in(0, PART, &list).expect("it listens");
        speaker.hear_until(BARRIER).expect("a barrier");
        speaker.say_in(1, PART, &[]).expect("it listens");
        let last = Instant::now();
        let _ = until_done.recv();
        last
    });
    let mut member = member(address, 0, 1);
    let losses = next_loss(&member);
    let error = member.control.barrier().expect_err("nobody answers");
    let CommError::PeerLost { rank: Rank(0), reason } = &error else { panic!("{error}") };
    assert!(reason.contains("no heartbeat"), "{error}");
    let (_, _, at) = losses.recv_timeout(PATIENCE).expect("lost");
    drop(done);
    let after = at.saturating_duration_since(frozen.join().expect("no panic"));
    assert!((HEARTBEAT..HEARTBEAT + NOTICED).contains(&after), "{after:?}");
}

/// Ranks that neither compute nor talk for several heartbeats live all the same: their control threads do.
#[test]
fn idle_ranks_are_not_lost() {
    let host = host(2);
    let address = host.address();
    each(vec![0, 1], |rank| {
        let mut member = member(address, rank, 2);
        let losses = next_loss(&member);
        assert_eq!(losses.recv_timeout(HEARTBEAT * 2), Err(mpsc::RecvTimeoutError::Timeout));
        member.control.barrier().expect("all are here");
        member.close();
    });
    host.wait(PATIENCE).expect("all have left");
}

#[test]
fn a_reason_reaches_ranks_that_wait_receive_or_compute() {
    const REASON: &str = "the loss is NaN";
    for kind in ALL {
        let told = meeting(4);
        run(kind, 4, &[FORTH], |mut member| {
            let lost = |error: CommError| {
                let CommError::PeerLost { rank: Rank(2), reason } = error else { panic!("{kind:?}: {error}") };
                assert_eq!(reason, REASON, "{kind:?}");
            };
            match member.control.rank().0 {
                0 => lost(member.control.barrier().expect_err("rank 2 fails")),
                1 => {
                    let ticket = member.endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(1));
                    lost(member.endpoint.wait_recv(ticket.expect("posted")).expect_err("rank 2 fails"));
                }
                2 => member.control.abort(REASON),
                _ => {
                    let (rank, reason, _) = next_loss(&member).recv_timeout(PATIENCE).expect("rank 2 fails");
                    assert_eq!((rank, reason.as_str()), (Rank(2), REASON), "{kind:?}");
                }
            }
            told.wait();
        });
    }
}

#[test]
fn the_first_cause_stays_whatever_fails_after_it() {
    for kind in ALL {
        let told = meeting(3);
        run(kind, 3, &[], |mut member| {
            let losses = next_loss(&member);
            if member.control.rank() == Rank(1) {
                member.control.abort("first");
            }
            let (rank, reason, _) = losses.recv_timeout(PATIENCE).expect("rank 1 fails");
            assert_eq!((rank, reason.as_str()), (Rank(1), "first"), "{kind:?}");
            member.control.abort("second");
            // One alone: a collective that all take part in completes, whoever has failed.
            if member.control.rank() == Rank(0) {
                let error = member.control.barrier().expect_err("rank 1 has failed");
                assert!(
                    matches!(&error, CommError::PeerLost { rank: Rank(1), reason } if reason == "first"),
                    "{error}"
                );
            }
            told.wait();
        });
    }
}

/// Rank 0 sees rank 1 go, which saw rank 2 go, which the host sees a moment later.
#[test]
fn ranks_that_only_follow_are_not_blamed() {
    let seen = |rank: u32| CommError::PeerLost { rank: Rank(rank), reason: "it closed the connection".to_owned() };
    for ends in [false, true] {
        let told = meeting(3);
        run(Kind::Socket, 3, &[], |mut member| {
            let losses = next_loss(&member);
            match member.control.rank().0 {
                2 => {
                    if ends {
                        thread::sleep(Duration::from_millis(50));
                        member.control.abort("out of memory");
                    }
                }
                rank => {
                    let CommError::PeerLost { rank: lost, reason } = member.control.fail(&seen(rank + 1)) else {
                        panic!("not agreed")
                    };
                    assert_eq!(lost, Rank(2));
                    let expected = if ends { "out of memory" } else { "rank 1 says: it closed the connection" };
                    assert_eq!(reason, expected);
                }
            }
            assert_eq!(losses.recv_timeout(PATIENCE).expect("rank 2 fails").0, Rank(2));
            told.wait();
        });
    }
}

#[test]
fn a_rank_that_fails_by_itself_is_told_its_own_error() {
    for kind in ALL {
        let told = meeting(2);
        run(kind, 2, &[], |mut member| {
            let own = CommError::System { what: "write the checkpoint".to_owned(), reason: "no space".to_owned() };
            if member.control.rank() == Rank(0) {
                assert_eq!(member.control.fail(&own), own, "{kind:?}");
            } else {
                let error = member.control.barrier().expect_err("rank 0 fails");
                let CommError::PeerLost { rank: Rank(0), reason } = &error else { panic!("{kind:?}: {error}") };
                assert!(reason.contains("no space"), "{error}");
            }
            told.wait();
        });
    }
}
