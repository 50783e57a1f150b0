//! Who gets in: only ranks of the same run with the same secret; whoever else comes does not end what waits.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{AT_ONCE, HEARTBEAT, PATIENCE, each};
use crate::speaker::{Claim, HELLO, PROVEN, REFUSED, Speaker};
use pp_comm::{Host, HostSpec, JoinSpec, Joined, Refusal, RendezvousError, Secret, SecretError, Transports, join};
use pp_schedule::Rank;

fn secret(seed: u8) -> Option<Secret> {
    Some(Secret::new([seed; 32]))
}

fn host_at(address: impl Into<SocketAddr>, spec: HostSpec) -> Result<Host, RendezvousError> {
    Host::spawn(TcpListener::bind(address.into()).expect("a free port"), spec)
}

fn host_spec(n_ranks: u32, secret: Option<Secret>) -> HostSpec {
    let (certificates, run_name) = (Vec::new(), String::new());
    HostSpec { n_ranks, certificates, deadline: PATIENCE, heartbeat: HEARTBEAT, secret, run_name }
}

fn host(n_ranks: u32, secret: Option<Secret>) -> Host {
    host_at((Ipv4Addr::LOCALHOST, 0), host_spec(n_ranks, secret)).expect("a host")
}

fn spec(host: SocketAddr, rank: u32, n_ranks: u32, secret: Option<Secret>) -> JoinSpec {
    JoinSpec {
        host: host.into(),
        rank: Rank(rank),
        n_ranks,
        fingerprints: Vec::new(),
        channels: Vec::new(),
        deadline: PATIENCE,
        heartbeat: HEARTBEAT,
        transports: Transports::Auto,
        rough: None,
        terms: 0,
        secret,
        run_name: String::new(),
    }
}

fn refusal(joined: Result<Joined, RendezvousError>) -> Refusal {
    match joined.expect_err("refused") {
        RendezvousError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

/// All ranks of a host's run join and leave.
fn all_join(host: Host, n_ranks: u32, secret: &Option<Secret>) {
    let address = host.address();
    each((0..n_ranks).collect(), |rank| {
        let mut member = join(&spec(address, rank, n_ranks, secret.clone())).expect("all fit").member;
        member.control.barrier().expect("all are here");
        member.close();
    });
    host.wait(PATIENCE).expect("all have left");
    TcpListener::bind(address).expect("the port is free at once");
}

#[test]
fn a_wrong_secret_is_said_to_its_owner_at_once_and_the_run_goes_on_waiting() {
    for (ours, theirs) in [(secret(1), secret(2)), (secret(1), None), (None, secret(0)), (secret(0), None)] {
        let host = host(2, ours.clone());
        let start = Instant::now();
        let told = refusal(join(&spec(host.address(), 1, 2, theirs.clone())));
        let expected = Refusal::Secret { rank: Rank(1), theirs: theirs.is_some(), ours: ours.is_some() };
        assert_eq!(told, expected);
        assert!(told.to_string().contains("secret") && start.elapsed() < AT_ONCE, "{told}");
        all_join(host, 2, &ours);
    }
}

#[test]
fn a_host_that_never_sees_the_true_rank_says_that_a_stranger_came() {
    let limit = Duration::from_millis(500);
    let host = host_at((Ipv4Addr::LOCALHOST, 0), HostSpec { deadline: limit, ..host_spec(2, secret(1)) });
    let host = host.expect("a host");
    refusal(join(&spec(host.address(), 1, 2, secret(2))));
    let error = host.wait(PATIENCE).expect_err("nobody else came");
    let RendezvousError::Refused(Refusal::Missing { missing, strangers, .. }) = &error else { panic!("{error}") };
    assert_eq!((missing.as_slice(), strangers.as_slice()), ([Rank(0), Rank(1)].as_slice(), [Rank(1)].as_slice()));
    assert!(error.to_string().contains("somebody came as rank 1"), "{error}");
}

/// A host that knows no secret can take any proof for right; it cannot make its own.
#[test]
fn a_host_that_does_not_prove_itself_gets_no_rank() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let impostor = thread::spawn(move || {
        let mut speaker = Speaker(listener.accept().expect("a rank calls").0);
        let _ = speaker.hear().expect("a hello");
        let mut challenge = [0; 56];
        (challenge[0], challenge[4]) = (2, 1);
        speaker.say(12, &challenge).expect("it listens");
        let (_, proof) = speaker.hear().expect("a proof");
        // The rank's own proof, reflected.
        speaker.say(PROVEN, &proof).expect("it listens");
        speaker
    });
    let error = join(&spec(address, 0, 1, secret(1))).expect_err("no host of this run");
    assert!(matches!(error, RendezvousError::WrongSecret { rank: Rank(0), .. }), "{error}");
    drop(impostor.join().expect("no panic"));
}

#[test]
fn what_was_heard_of_a_true_rank_lets_nobody_in_again() {
    let host = host(2, secret(1));
    let claim = Claim::new(2, 1, secret(1));
    // A true rank half-way through; what it says is overheard.
    let mut overheard = Speaker::call(host.address()).expect("it listens");
    overheard.say(HELLO, &claim.hello()).expect("it listens");
    let (_, challenge) = overheard.hear().expect("a challenge");
    let proof = claim.proof(&challenge);
    let mut replayed = Speaker::call(host.address()).expect("it listens");
    replayed.say(HELLO, &claim.hello()).expect("it listens");
    let (_, other) = replayed.hear().expect("a challenge");
    assert_ne!(challenge, other, "never the same");
    replayed.say(13, &proof).expect("it listens");
    assert_eq!(replayed.hear().expect("an answer").0, REFUSED);
    drop((overheard, replayed));
    all_join(host, 2, &secret(1));
}

#[test]
fn nobody_without_the_secret_ends_a_run_by_what_it_claims() {
    let host = host(2, secret(1));
    for wrong in [
        Claim { version: 9, ..Claim::new(2, 1, secret(2)) },
        Claim::new(3, 1, secret(2)),
        Claim::new(2, u32::MAX, secret(2)),
        Claim { run_name: "another".to_owned(), ..Claim::new(2, 1, secret(2)) },
    ] {
        let (_, (kind, refusal)) = wrong.enter(host.address()).expect("an answer");
        assert_eq!((kind, refusal[0]), (REFUSED, 8), "wrong secret, and nothing else is said: {wrong:?}");
    }
    all_join(host, 2, &secret(1));
}

#[test]
fn the_same_claims_with_the_secret_end_it_for_everybody() {
    for (wrong, is_told) in [
        (Claim { version: 9, ..Claim::new(2, 1, secret(1)) }, "version 9"),
        (Claim::new(3, 1, secret(1)), "3 ranks"),
        (Claim::new(2, 2, secret(1)), "rank 2 arrived"),
    ] {
        let host = host(2, secret(1));
        let address = host.address();
        let waiting = thread::spawn(move || refusal(join(&spec(address, 0, 2, secret(1)))));
        let (mut speaker, (kind, _)) = wrong.enter(address).expect("an answer");
        assert_eq!(kind, PROVEN);
        assert_eq!(speaker.hear().expect("a refusal").0, REFUSED);
        let told = waiting.join().expect("no panic");
        assert!(told.to_string().contains(is_told), "{told}");
        let RendezvousError::Refused(known) = host.wait(PATIENCE).expect_err("refused") else { panic!("{told}") };
        assert_eq!(known, told);
    }
}

#[test]
fn a_rank_of_the_first_version_is_told_and_does_not_end_the_run() {
    let host = host(1, secret(1));
    let mut old = Speaker::call(host.address()).expect("it listens");
    let mut hello: Vec<u8> = [1u32, 1, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    hello.extend(11u64.to_le_bytes());
    hello.extend(b"127.0.0.1:9\0\0\0\0");
    old.say(HELLO, &hello).expect("it listens");
    let (kind, refusal) = old.hear().expect("an answer");
    assert_eq!(
        (kind, &refusal[..4], &refusal[8..16]),
        (REFUSED, [0; 4].as_slice(), [1, 0, 0, 0, 3, 0, 0, 0].as_slice())
    );
    all_join(host, 1, &secret(1));
}

#[test]
fn a_rank_of_another_attempt_is_turned_away_and_the_run_goes_on_waiting() {
    let host_spec = HostSpec { run_name: "job-7.2".to_owned(), ..host_spec(1, secret(1)) };
    let host = host_at((Ipv4Addr::LOCALHOST, 0), host_spec).expect("a host");
    let spec = spec(host.address(), 0, 1, secret(1));
    let told = refusal(join(&JoinSpec { run_name: "job-7.1".to_owned(), ..spec.clone() }));
    assert_eq!(told, Refusal::Run { rank: Rank(0), theirs: "job-7.1".to_owned(), ours: "job-7.2".to_owned() });
    let joined = join(&JoinSpec { run_name: "job-7.2".to_owned(), ..spec.clone() }).expect("of this run");
    joined.member.close();
    host.wait(PATIENCE).expect("all have left");
    let long = join(&JoinSpec { run_name: "x".repeat(5000), ..spec }).expect_err("too long");
    assert!(matches!(long, RendezvousError::TooLong { limit: 4096, .. }), "{long}");
}

#[test]
fn other_machines_need_a_secret() {
    for ip in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(10, 0, 0, 1)] {
        let address = SocketAddr::from((ip, 7));
        let error = join(&spec(address, 0, 1, None)).expect_err("no secret");
        assert!(matches!(error, RendezvousError::Open { address: of } if of == address), "{error}");
    }
    let error = host_at((Ipv4Addr::UNSPECIFIED, 0), host_spec(1, None)).expect_err("no secret");
    let RendezvousError::Open { address } = error else { panic!("{error}") };
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("127.0.0.1") && text.contains("secret"), "{text}");
    // With one, all interfaces will do; the ranks come by the one they can.
    let host = host_at((Ipv4Addr::UNSPECIFIED, 0), host_spec(2, secret(3))).expect("a secret");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, host.address().port()));
    each(vec![0, 1], |rank| {
        join(&spec(address, rank, 2, secret(3))).expect("both know the secret").member.close();
    });
    host.wait(PATIENCE).expect("all have left");
}

#[test]
fn a_secret_comes_from_a_file_that_is_its_owners_alone() {
    let path = std::env::temp_dir().join(format!("pp-comm-secret-{}", std::process::id()));
    let secret = Secret::generate().expect("randomness");
    let write = |text: &str, mode: u32| {
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its owner");
    };
    for mode in [0o600, 0o400] {
        write(&format!("{}\n", secret.to_hex()), mode);
        assert_eq!(Secret::from_file(&path).expect("its owner's alone"), secret);
    }
    for mode in [0o644, 0o640, 0o602] {
        write(&secret.to_hex(), mode);
        let error = Secret::from_file(&path).expect_err("others may read or write it");
        assert!(matches!(error, SecretError::Exposed { mode: found, .. } if found == mode), "{error}");
        assert!(error.to_string().contains(&format!("chmod 600 {}", path.display())), "{error}");
    }
    write(&"0".repeat(100_000), 0o600);
    let long = Secret::from_file(&path).expect_err("no secret");
    assert!(matches!(long, SecretError::Text { .. }), "{long}");
    std::fs::remove_file(&path).expect("there");
    for nothing in [path, std::env::temp_dir()] {
        assert!(matches!(Secret::from_file(&nothing), Err(SecretError::System { .. })));
    }
}
