//! How ranks meet over sockets, and what they are told when they cannot.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::{AT_ONCE, BACK, FORTH, HEARTBEAT, PATIENCE, channel, each};
use pp_comm::{
    CommError, Host, HostSpec, JoinSpec, Joined, MemorySpec, Refusal, RendezvousError, Transports, join, memory_fabric,
};
use pp_schedule::{
    Certificate, Channel, Direction, Fingerprint, Rank, RankProgram, ScheduleConfig, ScheduleSpec, lower::lanes, verify,
};

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

fn host(n_ranks: u32, certificates: Vec<Certificate>, deadline: Duration) -> Host {
    Host::spawn(
        listener(),
        HostSpec { n_ranks, certificates, deadline, heartbeat: HEARTBEAT, secret: None, run_name: String::new() },
    )
    .expect("a host")
}

fn spec(host: SocketAddr, rank: u32, n_ranks: u32) -> JoinSpec {
    let (fingerprints, channels) = (Vec::new(), Vec::new());
    JoinSpec {
        host: host.into(),
        rank: Rank(rank),
        n_ranks,
        fingerprints,
        channels,
        deadline: PATIENCE,
        heartbeat: HEARTBEAT,
        transports: Transports::Socket,
        rough: None,
        terms: 0,
        secret: None,
        run_name: String::new(),
    }
}

fn refusal<T: std::fmt::Debug>(joined: Result<T, RendezvousError>) -> Refusal {
    match joined.expect_err("refused") {
        RendezvousError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

/// A rank's own programs, training and validation, as it builds them alone.
fn own_programs(rank: Rank, microbatches: u32) -> Vec<(RankProgram, Vec<Channel>)> {
    let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, microbatches)).expect("a valid schedule");
    [config, config.to_forward_only()].map(|config| lanes::lower_rank(&config, rank)).into()
}

fn certificates(microbatches: u32) -> Vec<Certificate> {
    let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, microbatches)).expect("a valid schedule");
    let verified = [config, config.to_forward_only()].map(|config| verify(lanes::lower(&config)).expect("verified"));
    verified.map(|verified| verified.certificate()).into()
}

fn spec_of(address: SocketAddr, rank: Rank, programs: &[(RankProgram, Vec<Channel>)]) -> JoinSpec {
    let fingerprints = programs.iter().map(|(program, channels)| Fingerprint::of(program, channels)).collect();
    let channels = programs.iter().flat_map(|(_, channels)| channels).copied().collect();
    JoinSpec { fingerprints, channels, ..spec(address, rank.0, 4) }
}

/// Interleaved over four ranks: the case whose lazily made links hang elsewhere.
#[test]
fn ranks_that_built_their_own_programs_meet_and_get_them_certified() {
    let host = host(4, certificates(8), PATIENCE);
    let address = host.address();
    each((0..4).map(Rank).collect(), |rank| {
        let programs = own_programs(rank, 8);
        let Joined { mut member, certificates } = join(&spec_of(address, rank, &programs)).expect("all fit");
        assert_eq!(certificates.len(), 2);
        // Forwards and backwards go round the ring: one channel each way to either neighbour.
        assert_eq!(member.endpoint.channels().len(), 4);
        for ((program, channels), certificate) in programs.into_iter().zip(certificates) {
            certificate.certify(program, channels).expect("the program that was verified");
        }
        member.control.barrier().expect("all are here");
        member.close();
    });
    host.wait(PATIENCE).expect("all have left");
    TcpListener::bind(address).expect("the port is free at once");
}

#[test]
fn a_rank_with_another_program_is_refused_with_both_fingerprints_and_everybody_is_told() {
    let host = host(4, certificates(8), PATIENCE);
    let address = host.address();
    let refusals = each((0..4).map(Rank).collect(), |rank| {
        let programs = own_programs(rank, if rank == Rank(2) { 12 } else { 8 });
        // Whoever comes after the verdict is told as well.
        refusal(join(&spec_of(address, rank, &programs)))
    });
    drop(host);
    let (program, channels) = own_programs(Rank(2), 12).remove(0);
    let built = Fingerprint::of(&program, &channels);
    let verified = certificates(8)[0].fingerprints()[2];
    let expected = Refusal::Program { rank: Rank(2), program: 0, built, verified };
    assert_eq!(refusals, vec![expected.clone(); 4]);
    let text = expected.to_string();
    assert!(text.contains(&built.to_string()) && text.contains(&verified.to_string()), "{text}");
}

#[test]
fn a_rank_that_does_not_fit_is_refused_with_both_numbers() {
    let one = vec![certificates(8).remove(0)];
    let meet = |n_ranks, certificates, spec: fn(SocketAddr) -> JoinSpec| {
        let host = host(n_ranks, certificates, PATIENCE);
        let told = refusal(join(&spec(host.address())));
        let RendezvousError::Refused(known) = host.wait(PATIENCE).expect_err("refused") else { panic!("{told}") };
        assert_eq!(told, known);
        told
    };
    let world = meet(4, vec![], |address| spec(address, 1, 3));
    assert_eq!(world, Refusal::World { rank: Rank(1), theirs: 3, ours: 4 });
    let outside = meet(2, vec![], |address| spec(address, 2, 2));
    assert_eq!(outside, Refusal::NoSuchRank { rank: Rank(2), n_ranks: 2 });
    assert_eq!(outside.to_string(), "rank 2 arrived, but the ranks are 0 to 1");
    let programs = meet(4, one, |address| spec(address, 0, 4));
    assert_eq!(programs, Refusal::Programs { rank: Rank(0), theirs: 0, ours: 1 });

    let host = host(3, vec![], PATIENCE);
    let address = host.address();
    let duplicates = each(vec![1, 1], |rank| refusal(join(&spec(address, rank, 3))));
    assert_eq!(duplicates, [Refusal::Duplicate { rank: Rank(1) }, Refusal::Duplicate { rank: Rank(1) }]);
}

#[test]
fn whoever_is_missing_is_named() {
    let limit = Duration::from_millis(500);
    let host = host(4, vec![], limit);
    let address = host.address();
    let expected = Refusal::Missing { missing: vec![Rank(2), Rank(3)], strangers: vec![], n_ranks: 4, limit };
    let told = each(vec![0, 1], |rank| refusal(join(&JoinSpec { deadline: limit, ..spec(address, rank, 4) })));
    assert_eq!(told, [expected.clone(), expected]);
    assert_eq!(told[0].to_string(), "ranks 2, 3 of 4 did not arrive within 500ms");
    assert!(matches!(host.wait(PATIENCE), Err(RendezvousError::Refused(_))));
}

#[test]
fn whoever_comes_late_is_told_who_was_missing() {
    let limit = Duration::from_millis(100);
    let host = host(2, vec![], limit);
    let known = refusal(host.wait(PATIENCE));
    let start = Instant::now();
    assert_eq!(refusal(join(&spec(host.address(), 1, 2))), known);
    assert!(start.elapsed() < AT_ONCE);
    assert!(matches!(known, Refusal::Missing { ref missing, .. } if missing.len() == 2), "{known}");
}

#[test]
fn a_host_that_was_waited_for_too_briefly_serves_on() {
    let host = host(1, vec![], PATIENCE);
    let mut member = join(&spec(host.address(), 0, 1)).expect("alone").member;
    let limit = Duration::from_millis(10);
    let early = host.wait(limit).expect_err("the rank is there");
    assert!(matches!(early, RendezvousError::NotOver { limit: of } if of == limit), "{early}");
    member.control.barrier().expect("the host serves");
    member.close();
    host.wait(PATIENCE).expect("all have left");
    host.wait(PATIENCE).expect("and it says so again");
}

#[test]
fn channels_that_cannot_be_are_the_same_error_in_memory_and_between_processes() {
    // Nobody listens there, nor needs to.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let direction = Direction::Forward;
    for (wrong, expected) in [
        (channel(1, 1, direction), CommError::OneRank { channel: channel(1, 1, direction) }),
        (channel(0, 7, direction), CommError::NoSuchRank { channel: channel(0, 7, direction), n_ranks: 2 }),
        (channel(7, 0, direction), CommError::NoSuchRank { channel: channel(7, 0, direction), n_ranks: 2 }),
    ] {
        let channels = vec![FORTH, wrong];
        let memory = MemorySpec { n_ranks: 2, channels: channels.clone(), capacity: 0, deadline: PATIENCE };
        assert_eq!(memory_fabric(memory).expect_err("no such channel"), expected);
        let error = join(&JoinSpec { channels, ..spec(nowhere, 0, 2) }).expect_err("no such channel");
        assert!(matches!(&error, RendezvousError::Comm(found) if *found == expected), "{error}");
    }
}

#[test]
fn a_channel_that_one_end_alone_lists_is_named_at_once_to_everybody() {
    let host = host(3, vec![], PATIENCE);
    let address = host.address();
    let start = Instant::now();
    let errors = each(vec![0, 1, 2], |rank| {
        let channels = if rank == 1 { vec![FORTH] } else { vec![FORTH, BACK] };
        join(&JoinSpec { channels, ..spec(address, rank, 3) }).expect_err("rank 1 does not list all").to_string()
    });
    assert!(start.elapsed() < AT_ONCE);
    for error in &errors {
        assert!(
            error.contains("rank 0 lists the backward channel from rank 1") && error.contains("rank 1 does not"),
            "{error}"
        );
    }
    assert_eq!(errors, [errors[0].as_str(); 3]);
}

#[test]
fn nobody_at_the_address_is_an_error_in_time() {
    let address = listener().local_addr().expect("bound");
    let limit = Duration::from_millis(200);
    let error = join(&JoinSpec { deadline: limit, ..spec(address, 0, 1) }).expect_err("nobody listens");
    assert!(matches!(error, RendezvousError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn strangers_are_passed_over() {
    let host = host(1, vec![], PATIENCE);
    let mut stranger = TcpStream::connect(host.address()).expect("it listens");
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: somebody else\r\n\r\n").expect("written");
    let joined = join(&spec(host.address(), 0, 1)).expect("the stranger does not count");
    joined.member.close();
    host.wait(PATIENCE).expect("all have left");
    // It was hung up on; how that shows depends on what it had left unread.
    assert!(matches!(stranger.read(&mut [0; 16]), Ok(0) | Err(_)));
}

#[test]
fn the_end_of_the_host_shows_at_once() {
    let host = host(1, vec![], PATIENCE);
    let mut member = join(&spec(host.address(), 0, 1)).expect("alone").member;
    drop(host);
    let start = Instant::now();
    let error = member.control.barrier().expect_err("the host is gone");
    assert!(matches!(error, CommError::PeerLost { rank: Rank(0), .. }), "{error}");
    assert!(start.elapsed() < PATIENCE / 6);
}

#[test]
fn a_host_that_waits_can_be_dropped() {
    let start = Instant::now();
    let host = host(2, vec![], PATIENCE);
    let address = host.address();
    let connected = TcpStream::connect(address).expect("it listens");
    drop(host);
    assert!(start.elapsed() < PATIENCE / 6);
    drop(connected);
    TcpListener::bind(address).expect("the port is free at once");
}

#[test]
fn a_certificate_for_other_ranks_is_refused() {
    let spec = HostSpec {
        n_ranks: 2,
        certificates: certificates(8),
        deadline: PATIENCE,
        heartbeat: HEARTBEAT,
        secret: None,
        run_name: String::new(),
    };
    let error = Host::spawn(listener(), spec).expect_err("the certificates are for four ranks");
    assert!(matches!(error, RendezvousError::Coverage { covered: 4, n_ranks: 2 }), "{error}");
}
