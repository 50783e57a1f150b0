//! The trainer under other launchers than ours: the same weights, and a clear word where something is wrong.
//!
//! `mpirun` is the real one, where there is one. torchrun's variables are set as it sets them, by a script in its place: the
//! tests need no Python.
#![cfg(target_os = "linux")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use workspace_tests::job::TINY;
use workspace_tests::stand_in::script;
use workspace_tests::{Finished, Job, Scratch, binaries};

/// Generous: the machine may be busy with other tests.
const LONG: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(20);

const WORLD: [&str; 4] = ["--pp=2", "--vp=2", "--train-iters=5", "--timeout=30"];
const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What torchrun tells a worker, by name and value.
type Told = Vec<(&'static str, String)>;

/// As torchrun of torch 2.13 does on one host.
fn told_by_torchrun(rank: usize, n_ranks: usize, agents_port: u16) -> Told {
    let (rank, n_ranks) = (rank.to_string(), n_ranks.to_string());
    vec![
        ("RANK", rank.clone()),
        ("GROUP_RANK", "0".into()),
        ("ROLE_RANK", rank.clone()),
        ("ROLE_NAME", "default".into()),
        ("LOCAL_WORLD_SIZE", n_ranks.clone()),
        ("WORLD_SIZE", n_ranks.clone()),
        ("GROUP_WORLD_SIZE", "1".into()),
        ("ROLE_WORLD_SIZE", n_ranks),
        ("MASTER_ADDR", "localhost".into()),
        ("MASTER_PORT", agents_port.to_string()),
        ("TORCHELASTIC_RESTART_COUNT", "0".into()),
        ("TORCHELASTIC_MAX_RESTARTS", "0".into()),
        ("TORCHELASTIC_RUN_ID", "b6a3397c-097a-4f6c-9ea6-7f1b743e2cf9".into()),
        ("TORCHELASTIC_USE_AGENT_STORE", "True".into()),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1".into()),
        ("LOCAL_RANK", rank),
        ("OMP_NUM_THREADS", "1".into()),
    ]
}

/// The same where each rank is on a host of its own, all of which are this one.
fn told_on_two_hosts(rank: usize, agents_port: u16) -> Told {
    let mut told = told_by_torchrun(rank, 2, agents_port);
    for (name, value) in [
        ("GROUP_RANK", rank.to_string()),
        ("LOCAL_WORLD_SIZE", "1".to_owned()),
        ("GROUP_WORLD_SIZE", "2".to_owned()),
        ("LOCAL_RANK", "0".to_owned()),
        ("MASTER_ADDR", "127.0.0.1".to_owned()),
    ] {
        told.push((name, value));
    }
    told
}

fn rank(temp: &Scratch, told: Told, flags: &[&str]) -> Job {
    let mut command = Command::new(&binaries().trainer);
    command.args([&TINY[..], &WORLD, flags].concat()).envs(told).env("TMPDIR", temp.path());
    Job::start(command)
}

/// The weights that all ranks together came to.
fn weights(finished: &Finished) -> &str {
    let lines = finished.stdout.iter().filter_map(|line| line.split_once("weights fingerprint "));
    let fingerprints: Vec<&str> = lines.map(|(_, fingerprint)| fingerprint).collect();
    assert_eq!(fingerprints.len(), 1, "{finished}");
    fingerprints[0]
}

fn says(finished: &Finished, text: &str) {
    assert!(finished.stdout.iter().any(|line| line.contains(text)), "no `{text}`\n{finished}");
}

/// The weights by our own launcher.
fn expected() -> String {
    let finished = Job::launch(&[&TINY[..], &WORLD].concat()).wait(LONG).expect_success();
    says(&finished, "flags: --rank 0, --world-size 2, local rank 0 of 2");
    says(&finished, "with a secret");
    weights(&finished).to_owned()
}

/// Nothing is left of a meeting in the temporary directory.
fn nothing_is_left(temp: &Scratch) {
    let left: Vec<_> =
        std::fs::read_dir(temp.path()).expect("it is there").flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn workers_of_torchrun_train_to_the_same_weights() {
    let temp = Scratch::new();
    let mut jobs = [1, 0].map(|number| rank(&temp, told_by_torchrun(number, 2, 29_400), &[]));
    let [_, first] = jobs.each_mut().map(|job| job.wait(LONG).expect_success());
    assert_eq!(weights(&first), expected());
    says(&first, "place          torchrun: RANK=0, WORLD_SIZE=2, local rank 0 of 2");
    says(&first, "rank 0 listens on 127.0.0.1, on a port that the system chooses; with a secret");
    nothing_is_left(&temp);
}

#[test]
fn workers_on_two_hosts_meet_beside_the_agents_port() {
    let temp = Scratch::new();
    // The agent's store is where torchrun says it is.
    let (agent, port) =
        std::iter::repeat_with(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are ports"))
            .map(|agent| (agent.local_addr().expect("it has an address").port(), agent))
            .find_map(|(port, agent)| {
                let above = TcpListener::bind((Ipv4Addr::LOCALHOST, port.checked_add(1)?));
                above.is_ok().then_some((agent, port))
            })
            .expect("an endless search");
    let mut jobs = [1, 0].map(|number| rank(&temp, told_on_two_hosts(number, port), &[]));
    let [_, first] = jobs.each_mut().map(|job| job.wait(LONG).expect_success());
    assert_eq!(weights(&first), expected());
    says(&first, &format!("at 127.0.0.1:{} (port one above MASTER_PORT={port}, which is the agent's own)", port + 1));
    // Somebody else has it.
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port + 1)).expect("free again at once");
    let finished = rank(&temp, told_on_two_hosts(0, port), &[]).wait(SOON);
    assert_eq!(finished.code, Some(2), "{finished}");
    for text in [format!("127.0.0.1:{}", port + 1), "another process has it".into(), "--rendezvous-port".into()] {
        assert!(finished.last_word().contains(&text), "{finished}");
    }
    drop(agent);
}

#[test]
fn an_attempt_that_was_killed_does_not_hinder_the_next() {
    let temp = Scratch::new();
    let killed = rank(&temp, told_by_torchrun(0, 2, 29_401), &[]);
    killed.wait_for_line("place", SOON);
    let meets = || std::fs::read_dir(temp.path()).is_ok_and(|mut entries| entries.next().is_some());
    assert!(workspace_tests::job::within(SOON, meets), "it waits for the other");
    std::thread::sleep(Duration::from_millis(300));
    killed.signal(Signal::KILL);
    // The same again, by the same words: what is left is old.
    let mut jobs = [1, 0].map(|number| rank(&temp, told_by_torchrun(number, 2, 29_401), &[]));
    for job in &mut jobs {
        job.wait(LONG).expect_success();
    }
    nothing_is_left(&temp);
}

#[test]
fn a_rank_that_is_ended_while_it_waits_leaves_nothing_in_the_temporary_directory() {
    for (signal, code) in [(Signal::TERM, Some(143)), (Signal::INT, Some(130)), (Signal::HUP, None)] {
        let temp = Scratch::new();
        let mut waiting = rank(&temp, told_by_torchrun(0, 2, 29_402), &[]);
        let has_address = || {
            let mut entries = std::fs::read_dir(temp.path()).expect("it is there").flatten();
            entries.any(|entry| entry.path().join("address").exists())
        };
        assert!(workspace_tests::job::within(SOON, has_address), "it waits for the other");
        waiting.signal(signal);
        let finished = waiting.wait(SOON);
        // What only the hangup does not change: it is by the signal that the process ends.
        assert_eq!(finished.code, code, "{finished}");
        nothing_is_left(&temp);
    }
}

#[test]
fn a_directory_that_others_can_get_into_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let temp = Scratch::new();
    let first = rank(&temp, told_by_torchrun(0, 2, 29_402), &[]);
    let made = || std::fs::read_dir(temp.path()).ok()?.flatten().map(|entry| entry.path()).next();
    assert!(workspace_tests::job::within(SOON, || made().is_some()));
    let directory = made().expect("it was there");
    assert_eq!(std::fs::metadata(&directory).expect("it is there").permissions().mode() & 0o777, 0o700);
    drop(first);
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).expect("it is ours");
    for number in [0, 1] {
        let finished = rank(&temp, told_by_torchrun(number, 2, 29_402), &[]).wait(SOON);
        assert_ne!(finished.code, Some(0), "{finished}");
        assert!(finished.last_word().contains("others can get into it (mode 777)"), "{finished}");
    }
}

/// An address of this machine that is not loopback, if it has one.
fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent.
    socket.connect((Ipv4Addr::new(192, 0, 2, 99), 9)).ok()?;
    match socket.local_addr().ok()? {
        SocketAddr::V4(address) if !address.ip().is_loopback() => Some(*address.ip()),
        _ => None,
    }
}

#[test]
fn beyond_loopback_a_secret_is_needed_and_enough() {
    let Some(ip) = own_address() else {
        eprintln!("this machine has no address but loopback");
        return;
    };
    let temp = Scratch::new();
    let free = TcpListener::bind((ip, 0)).expect("it is ours").local_addr().expect("it has one").port();
    let at = format!("{ip}:{free}");
    let place = |number: usize| {
        vec![("PP_RANK", number.to_string()), ("PP_WORLD_SIZE", "2".to_owned()), ("PP_RENDEZVOUS", at.clone())]
    };
    let finished = rank(&temp, place(0), &[]).wait(SOON);
    assert_eq!(finished.code, Some(2), "{finished}");
    for text in [at.as_str(), "no secret", "openssl rand -hex 32", "PP_SECRET"] {
        assert!(finished.last_word().contains(text), "{finished}");
    }
    let with_secret = |number| [place(number), vec![("PP_SECRET", HEX.to_owned())]].concat();
    let mut jobs = [1, 0].map(|number| rank(&temp, with_secret(number), &[]));
    let [_, first] = jobs.each_mut().map(|job| job.wait(LONG).expect_success());
    assert_eq!(weights(&first), expected());
    says(&first, &format!("at {at} (--rendezvous); with a secret"));
}

#[test]
fn sources_that_contradict_each_other_start_nothing() {
    let temp = Scratch::new();
    let slurm = |rank: &str| {
        let variables = [("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_PROCID", rank)];
        variables.map(|(name, value)| (name, value.to_owned())).to_vec()
    };
    let both = || [told_by_torchrun(1, 2, 29_403), slurm("0")].concat();
    let finished = rank(&temp, both(), &[]).wait(SOON);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert_eq!(finished.stderr.len(), 1, "{finished}");
    for text in ["torchrun says RANK=1 and WORLD_SIZE=2", "slurm says SLURM_PROCID=0 and SLURM_NTASKS=2", "--launcher"]
    {
        assert!(finished.last_word().contains(text), "{finished}");
    }
    let settled = rank(&temp, both(), &["--launcher=torchrun", "--dry-run"]).wait(SOON).expect_success();
    says(&settled, "torchrun: RANK=1, WORLD_SIZE=2, local rank 1 of 2");
    let more = rank(&temp, told_by_torchrun(0, 3, 29_403), &[]).wait(SOON);
    assert_eq!(more.code, Some(2), "{more}");
    assert!(more.last_word().contains("world size 3 (torchrun's WORLD_SIZE=3) disagrees with --pp 2"), "{more}");
    // Our own launcher is believed wherever it is started.
    let mut command = Command::new(&binaries().xtask);
    command.args(["launch", "--binary"]).arg(&binaries().trainer).args([&TINY[..], &WORLD].concat()).envs(both());
    Job::start(command).wait(LONG).expect_success();
}

fn mpirun_is_there() -> bool {
    let there = Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("there is no mpirun; on Debian, apt install openmpi-bin");
    }
    there
}

/// As many processes as asked for, by whatever user, on however many cores.
fn mpirun(command: &mut Command) -> &mut Command {
    command.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ])
}

fn start_by_mpirun(flags: &[&str]) -> Job {
    let mut command = Command::new("mpirun");
    command.args(["-n", "2"]).arg(&binaries().trainer).args([&TINY[..], &["--pp=2", "--vp=2"], flags].concat());
    mpirun(&mut command);
    Job::start(command)
}

#[test]
fn processes_of_mpirun_train_to_the_same_weights_and_stop_together() {
    if !mpirun_is_there() {
        return;
    }
    let first = start_by_mpirun(&["--train-iters=5"]).wait(LONG).expect_success();
    assert_eq!(weights(&first), expected());
    says(&first, "place          openmpi: OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=2, local rank 0 of 2");

    let metrics = std::env::temp_dir().join(format!("pp-mpirun-{}.jsonl", std::process::id()));
    let flag = format!("--metrics={}", metrics.display());
    let mut job = start_by_mpirun(&["--train-iters=1000000", &flag]);
    job.wait_for_line("iteration 3/", LONG);
    job.signal(Signal::TERM);
    let stopped = job.wait(SOON);
    assert_ne!(stopped.code, Some(0), "{stopped}");
    assert!(job.gone_within(SOON), "{:?}", job.processes());
    // Not all that processes write when they end is passed on by mpirun; what is, agrees.
    let said: Vec<&String> =
        stopped.stderr.iter().filter(|line| line.starts_with("stopped by SIGTERM after ")).collect();
    assert!(said.iter().all(|line| *line == said[0]), "{stopped}");
    let written = std::fs::read_to_string(&metrics).expect("rank 0 writes it");
    std::fs::remove_file(&metrics).expect("it is there");
    let last = written.lines().last().unwrap_or_default();
    assert!(last.contains("\"final\":true") && last.contains("\"stopped_by\":\"SIGTERM\""), "{last}");
}

#[test]
fn a_rank_of_mpirun_that_is_killed_ends_the_others() {
    if !mpirun_is_there() {
        return;
    }
    let mut job = start_by_mpirun(&["--train-iters=1000000"]);
    job.wait_for_line("iteration 3/", LONG);
    let trainer = binaries().trainer.clone();
    let is_rank = |pid: i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == trainer);
    let ranks: Vec<i32> = job.processes().iter().map(|process| process.pid).filter(|pid| is_rank(*pid)).collect();
    assert_eq!(ranks.len(), 2, "{:?}", job.processes());
    let pid = rustix::process::Pid::from_raw(ranks[1]).expect("process ids are positive");
    rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
    assert_ne!(job.wait(SOON).code, Some(0));
    assert!(job.gone_within(SOON), "{:?}", job.processes());
}

/// The commands on the page that need one host only are run as they stand; all come to the same weights.
#[test]
fn commands_on_the_page_train_to_the_same_weights() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let text = std::fs::read_to_string(page).expect("the page is there");
    let commands: Vec<&str> = text
        .split("<!-- tested: each of these trains to the same weights -->\n```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("a block ends").trim())
        .collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    let scratch = Scratch::new();
    let trainer = binaries().trainer.display();
    script(&scratch, "pp-train", &format!("exec {trainer} \"$@\""));
    // `cargo xtask launch`, with the trainer that is built.
    let launch = format!("shift 2; exec {} launch --binary {trainer} \"$@\"", binaries().xtask.display());
    script(&scratch, "cargo", &launch);
    script(&scratch, "torchrun", TORCHRUN);
    let path = std::env::var("PATH").unwrap_or_default();
    let fingerprints: Vec<String> = commands
        .iter()
        .filter(|command| !command.starts_with("mpirun") || mpirun_is_there())
        .map(|command| {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).env("PATH", format!("{}:{path}", scratch.path().display()));
            mpirun(&mut shell);
            let finished = Job::start(shell).wait(LONG).expect_success();
            weights(&finished).to_owned()
        })
        .collect();
    assert!(
        fingerprints.len() >= 2 && fingerprints.iter().all(|weights| *weights == fingerprints[0]),
        "{fingerprints:?}"
    );
}

/// Starts two workers as `torchrun --no-python --nproc-per-node 2` does.
const TORCHRUN: &str = r#"
[ "$1 $2 $3" = "--no-python --nproc-per-node 2" ] || exit 64
shift 3
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=1 ROLE_WORLD_SIZE=2 ROLE_NAME=default
export MASTER_ADDR=localhost MASTER_PORT=29404 TORCHELASTIC_RUN_ID=$$ TORCHELASTIC_RESTART_COUNT=0
export TORCHELASTIC_MAX_RESTARTS=0 TORCHELASTIC_USE_AGENT_STORE=True OMP_NUM_THREADS=1
RANK=1 ROLE_RANK=1 LOCAL_RANK=1 "$@" &
RANK=0 ROLE_RANK=0 LOCAL_RANK=0 "$@" && wait $!
"#;
