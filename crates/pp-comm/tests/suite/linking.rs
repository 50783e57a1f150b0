//! Ranks that freeze while links are made: the others learn it as soon as the host does, whatever they wait for.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, channel};
use crate::speaker::Claim;
use pp_comm::{CommError, Host, HostSpec, JoinSpec, RendezvousError, Transports, join};
use pp_schedule::{Direction, Rank};

/// Short, so that the tests are; long enough for a thread to get a core on a loaded machine.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How much later than the heartbeat a frozen rank may be noticed; far less than a handshake or the deadline.
const NOTICED: Duration = Duration::from_secs(3);

/// At what a rank freezes after it has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freezes {
    /// It does not dial.
    BeforeItDials,
    /// It has dialed and proved itself, and does not say what the link is to go through.
    AfterItsProof,
    /// It takes connections, as the system does for it, and does not answer.
    WhenDialed,
}

#[test]
fn a_rank_that_freezes_while_links_are_made_is_noticed_by_its_heartbeat() {
    thread::scope(|scope| {
        for freezes in [Freezes::BeforeItDials, Freezes::AfterItsProof, Freezes::WhenDialed] {
            scope.spawn(move || meet_one_that(freezes));
        }
    });
}

fn meet_one_that(freezes: Freezes) {
    let bind = || TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (certificates, run_name) = (Vec::new(), String::new());
    let spec = HostSpec { n_ranks: 2, certificates, deadline: PATIENCE, heartbeat: HEARTBEAT, secret: None, run_name };
    let host = Host::spawn(bind(), spec).expect("a host");
    let link = match freezes {
        Freezes::WhenDialed => channel(0, 1, Direction::Forward),
        Freezes::BeforeItDials | Freezes::AfterItsProof => channel(1, 0, Direction::Backward),
    };
    let spec = JoinSpec {
        host: host.address().into(),
        rank: Rank(0),
        n_ranks: 2,
        fingerprints: Vec::new(),
        channels: vec![link],
        deadline: PATIENCE,
        heartbeat: HEARTBEAT,
        transports: Transports::Auto,
        rough: None,
        terms: 0,
        secret: None,
        run_name: String::new(),
    };
    thread::scope(|scope| {
        let rank = scope.spawn(|| {
            let start = Instant::now();
            (join(&spec).expect_err("the other one is frozen"), start.elapsed())
        });
        let listener = bind();
        let mut claim = Claim::new(2, 1, None);
        claim.address = listener.local_addr().expect("bound").to_string();
        let (mut control, run, addresses) = claim.join(host.address()).expect("a welcome");
        control.start_with(&[link]).expect("it listens");
        let _link = (freezes == Freezes::AfterItsProof)
            .then(|| claim.proved_link(addresses[0], run, link).expect("the link that is awaited"));
        let (error, after) = rank.join().expect("no panic");
        let RendezvousError::Comm(CommError::PeerLost { rank: Rank(1), reason }) = &error else {
            panic!("{freezes:?}: {error}");
        };
        assert!(reason.contains("no heartbeat"), "{freezes:?}: {reason}");
        assert!((HEARTBEAT..HEARTBEAT + NOTICED).contains(&after), "{freezes:?}: {after:?}");
    });
}
