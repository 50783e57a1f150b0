//! Where a process stands by its flags and variables, and where its ranks are to meet.

use pp_train::args::Args;
use pp_train::{Environment, Source, TrainConfig};

use crate::harness::TINY;

const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Of torchrun on two hosts.
const TORCHRUN: &[(&str, &str)] = &[
    ("RANK", "3"),
    ("WORLD_SIZE", "4"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "2"),
    ("GROUP_RANK", "1"),
    ("GROUP_WORLD_SIZE", "2"),
    ("MASTER_ADDR", "node0"),
    ("MASTER_PORT", "29400"),
    ("TORCHELASTIC_RUN_ID", "none"),
    ("TORCHELASTIC_RESTART_COUNT", "0"),
    ("TORCHELASTIC_USE_AGENT_STORE", "True"),
];
/// Of `srun -N 2 -n 4`.
const SRUN: &[(&str, &str)] = &[
    ("SLURM_JOB_ID", "4711"),
    ("SLURM_STEP_ID", "1"),
    ("SLURM_PROCID", "2"),
    ("SLURM_NTASKS", "4"),
    ("SLURM_STEP_NUM_TASKS", "4"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_NODEID", "1"),
    ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
    ("SLURM_STEP_NODELIST", "gpu[07,11]"),
];
/// Of `mpirun` on two hosts.
const MPIRUN: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "2"),
    ("OMPI_COMM_WORLD_SIZE", "4"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ("PMIX_RANK", "2"),
    ("PMIX_NAMESPACE", "250806273"),
];
const SECRET: &[(&str, &str)] = &[("PP_SECRET", HEX)];

fn within(line: &str, variables: &[&[(&str, &str)]]) -> Result<TrainConfig, String> {
    let env: Environment = variables.concat().into_iter().collect();
    let words = TINY.split_whitespace().filter(|word| *word != "--dry-run").chain(line.split_whitespace());
    TrainConfig::within(&Args::from_words(words).unwrap(), &env).map_err(|error| error.to_string())
}

fn refused(line: &str, variables: &[&[(&str, &str)]], parts: &[&str]) {
    let error = within(line, variables).expect_err(line);
    for part in parts {
        assert!(error.contains(part), "{line}: {error}");
    }
    assert!(!error.contains('\n') && !error.contains(HEX), "{error}");
}

#[test]
fn every_source_gives_a_place() {
    for (variables, source, rank, local) in [
        (TORCHRUN, Source::Torchrun, 3, Some(1)),
        (SRUN, Source::Slurm, 2, Some(0)),
        (MPIRUN, Source::OpenMpi, 2, Some(0)),
    ] {
        let config = within("--pp 4 --rendezvous node0:1", &[variables, SECRET]).unwrap();
        let place = config.place();
        assert_eq!((place.source(), place.rank(), place.world_size()), (source, rank, 4));
        assert_eq!((place.local_rank(), place.is_alone()), (local, false));
        // Two ranks share the cores of this machine.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(config.threads(), (cores / 2).max(1));
    }
    assert_eq!(within("", &[]).unwrap().place().source(), Source::Single);
    let one = [("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1")];
    let place = within("", &[&one]).unwrap();
    assert!(place.place().is_alone() && place.place().source() == Source::Torchrun);
}

#[test]
fn a_world_of_another_size_than_the_plan_is_refused() {
    refused("--pp 2", &[TORCHRUN, SECRET], &["world size 4 (torchrun's WORLD_SIZE=4)", "--pp 2", "as 2 processes"]);
    refused("--pp 8", &[SRUN, SECRET], &["world size 4 (slurm's SLURM_STEP_NUM_TASKS=4)", "--pp 8"]);
    // A script of Slurm, in which `srun` was forgotten.
    let script = [("SLURM_JOB_ID", "4711"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")];
    refused("--pp 4", &[&script], &["world size 1", "SLURM_JOB_ID=4711", "`srun`"]);
    assert!(within("--pp 1", &[&script]).is_ok());
}

#[test]
fn several_hosts_meet_by_a_rule_and_with_a_secret() {
    for (variables, address) in [(TORCHRUN, "node0:29401"), (SRUN, "gpu07:24712")] {
        refused("--pp 4", &[variables], &[address, "no secret", "openssl rand -hex 32", "PP_SECRET"]);
        assert!(within("--pp 4", &[variables, SECRET]).is_ok());
        // Another port, another host, or loopback, which needs no secret.
        let port = address.rsplit_once(':').unwrap().0.to_owned() + ":999";
        refused("--pp 4 --rendezvous-port 999", &[variables], &[&port]);
        refused("--pp 4 --rendezvous other:7", &[variables], &["at other:7"]);
        assert!(within("--pp 4 --rendezvous 127.0.0.1:7", &[variables]).is_ok());
        refused("--pp 4 --rendezvous 127.0.0.1:7 --bind 10.1.1.1", &[variables], &["10.1.1.1", "no secret"]);
    }
    let unsaid = ["OMPI_COMM_WORLD_SIZE=4", "not where rank 0 is", "--rendezvous HOST:PORT"];
    refused("--pp 4", &[MPIRUN, SECRET], &unsaid);
    assert!(within("--pp 4 --rendezvous node0:29400", &[MPIRUN, SECRET]).is_ok());
}

#[test]
fn ranks_of_one_host_need_nothing_else() {
    for (variables, changes) in [
        (TORCHRUN, &[("LOCAL_WORLD_SIZE", "4"), ("LOCAL_RANK", "3"), ("GROUP_WORLD_SIZE", "1")][..]),
        (SRUN, &[("SLURM_STEP_NODELIST", "gpu07"), ("SLURM_STEP_TASKS_PER_NODE", "4"), ("SLURM_LOCALID", "2")]),
        (MPIRUN, &[("OMPI_COMM_WORLD_LOCAL_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_RANK", "2")]),
    ] {
        let config = within("--pp 4", &[variables, changes]).unwrap();
        assert!(!config.place().is_alone());
        refused("--pp 4 --bind 0.0.0.0", &[variables, changes], &["--bind 0.0.0.0", "--rendezvous HOST:PORT"]);
        refused("--pp 4 --bind 10.1.1.1", &[variables, changes], &["10.1.1.1", "no secret"]);
    }
}

#[test]
fn wrong_secrets_are_refused_without_being_shown() {
    for wrong in [&HEX[1..], "secret"] {
        refused("--pp 4", &[TORCHRUN, &[("PP_SECRET", wrong)]], &["PP_SECRET", "64 hexadecimal digits"]);
    }
    refused("--pp 4 --secret-file x", &[TORCHRUN, SECRET], &["PP_SECRET and --secret-file x", "leave one of them out"]);
}
