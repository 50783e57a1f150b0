//! The file through which ranks learn where the host is, left-over ones included.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::common::{HEARTBEAT, PATIENCE, each};
use pp_comm::{
    Host, HostAddress, HostSpec, JoinSpec, RendezvousError, Transports, await_address, clear_address, join,
    peek_address, publish_address, withdraw_address,
};
use pp_schedule::Rank;

/// A path of this test's own, with nothing there at the start and the end.
struct Path(PathBuf);

impl Path {
    fn new(name: &str) -> Self {
        let path = Self(std::env::temp_dir().join(format!("pp-comm-{name}-{}", std::process::id())));
        path.clear();
        path
    }

    fn clear(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.clear();
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn an_address_is_passed_on_through_a_file() {
    let path = Path::new("passed-on");
    // A file that was made for the purpose holds nothing yet.
    for made in [false, true] {
        if made {
            std::fs::write(&path.0, "").expect("writable");
        }
        let missing = await_address(&path.0, Duration::from_millis(20)).expect_err("not written yet");
        assert!(matches!(missing, RendezvousError::NoAddress { .. }), "{missing}");
        assert!(missing.to_string().contains(&path.0.display().to_string()), "{missing}");
    }
    let found = each(vec![true, false], |writes| {
        if writes {
            publish_address(&path.0, address(1234)).map(|()| address(1234))
        } else {
            await_address(&path.0, PATIENCE)
        }
    });
    assert!(found.into_iter().all(|found| found.expect("written") == address(1234)));
}

#[test]
fn what_is_no_address_is_said_briefly_and_left_alone() {
    let path = Path::new("nonsense");
    let nonsense = "to be or not to be\n".repeat(10_000);
    std::fs::write(&path.0, &nonsense).expect("writable");
    for error in [
        await_address(&path.0, PATIENCE).expect_err("no address"),
        clear_address(&path.0).expect_err("no address"),
        withdraw_address(&path.0, address(1)).expect_err("no address"),
    ] {
        let source = std::error::Error::source(&error).expect("what the file holds").to_string();
        assert!(source.contains("to be or not") && source.len() < 100, "{source}");
    }
    assert_eq!(std::fs::read_to_string(&path.0).expect("still there"), nonsense);
    let folder = peek_address(&std::env::temp_dir()).expect_err("a directory");
    assert!(matches!(folder, RendezvousError::System { .. }), "{folder}");
}

#[test]
fn an_address_is_taken_back_by_whose_it_is() {
    let path = Path::new("taken-back");
    withdraw_address(&path.0, address(1)).expect("nothing there");
    clear_address(&path.0).expect("nothing there");
    publish_address(&path.0, address(1)).expect("writable");
    withdraw_address(&path.0, address(2)).expect("another's");
    assert_eq!(peek_address(&path.0).expect("an address"), Some(address(1)));
    withdraw_address(&path.0, address(1)).expect("its own");
    assert!(!path.0.exists());
    publish_address(&path.0, address(1)).expect("writable");
    clear_address(&path.0).expect("removable");
    assert!(!path.0.exists());
}

/// What an earlier run left names nobody, or somebody who is no host; the rank is there before the new host is.
#[test]
fn a_rank_finds_a_host_behind_an_address_left_over() {
    for somebody in [false, true] {
        let path = Path::new(&format!("left-over-{somebody}"));
        let old = listener();
        let old_address = old.local_addr().expect("bound");
        publish_address(&path.0, old_address).expect("writable");
        let spec = JoinSpec {
            host: HostAddress::InFile(path.0.clone()),
            rank: Rank(0),
            n_ranks: 1,
            fingerprints: Vec::new(),
            channels: Vec::new(),
            deadline: PATIENCE,
            heartbeat: HEARTBEAT,
            transports: Transports::Socket,
            rough: None,
            terms: 0,
            secret: None,
            run_name: String::new(),
        };
        thread::scope(|scope| {
            if !somebody {
                drop(old);
            } else {
                scope.spawn(move || {
                    let caller = old.accept();
                    thread::sleep(Duration::from_millis(200));
                    drop(caller);
                });
            }
            let rank = scope.spawn(|| join(&spec).map(|joined| joined.member.close()));
            thread::sleep(Duration::from_millis(100));
            let host_spec = HostSpec {
                n_ranks: 1,
                certificates: Vec::new(),
                deadline: PATIENCE,
                heartbeat: HEARTBEAT,
                secret: None,
                run_name: String::new(),
            };
            let host = Host::spawn(listener(), host_spec).expect("a host");
            publish_address(&path.0, host.address()).expect("writable");
            rank.join().expect("no panic").expect("joined");
            host.wait(PATIENCE).expect("all have left");
        });
    }
}

/// Somebody listens at the old address, who takes connections and never says anything.
#[test]
fn a_rank_waits_for_nobody_silent_once_the_file_names_another() {
    let path = Path::new("silent");
    let old = listener();
    publish_address(&path.0, old.local_addr().expect("bound")).expect("writable");
    let spec = JoinSpec {
        host: HostAddress::InFile(path.0.clone()),
        rank: Rank(0),
        n_ranks: 1,
        fingerprints: Vec::new(),
        channels: Vec::new(),
        deadline: Duration::from_secs(9),
        heartbeat: HEARTBEAT,
        transports: Transports::Socket,
        rough: None,
        terms: 0,
        secret: None,
        run_name: String::new(),
    };
    thread::scope(|scope| {
        let rank = scope.spawn(|| join(&spec).map(|joined| joined.member.close()));
        let caller = old.accept().expect("the rank calls");
        let (n_ranks, certificates, run_name) = (1, Vec::new(), String::new());
        let host_spec =
            HostSpec { n_ranks, certificates, deadline: PATIENCE, heartbeat: HEARTBEAT, secret: None, run_name };
        let host = Host::spawn(listener(), host_spec).expect("a host");
        publish_address(&path.0, host.address()).expect("writable");
        rank.join().expect("no panic").expect("joined");
        host.wait(PATIENCE).expect("all have left");
        drop(caller);
    });
}

#[test]
fn a_file_that_never_comes_is_an_error_in_time() {
    let path = Path::new("never");
    let spec = JoinSpec {
        host: HostAddress::InFile(path.0.clone()),
        rank: Rank(1),
        n_ranks: 2,
        fingerprints: Vec::new(),
        channels: Vec::new(),
        deadline: Duration::from_millis(50),
        heartbeat: HEARTBEAT,
        transports: Transports::Socket,
        rough: None,
        terms: 0,
        secret: None,
        run_name: String::new(),
    };
    let error = join(&spec).expect_err("no file");
    assert!(matches!(error, RendezvousError::NoAddress { .. }), "{error}");
}
