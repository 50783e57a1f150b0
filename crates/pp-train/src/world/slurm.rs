//! Slurm's variables, as `srun` gives them to each of its tasks.
//!
//! A batch script and the shell of `salloc` have some of them too (`SLURM_PROCID=0`, `SLURM_NTASKS` as asked for), but are
//! not the tasks these count. What tells a task is its step: a script has no `SLURM_STEP_ID`, or one of those that Slurm
//! keeps for itself.

use super::claim::{Claim, Ground, Local, Source, missing};
use super::environment::{Environment, Number, leave_out};
use super::nodelist;
use crate::invalid::{Invalid, refuse};

/// Steps from this one on are Slurm's own: batch scripts, interactive shells and the like.
const FIRST_OWN_STEP: u64 = 0xffff_fff0;
/// Where ports begin that are made of a job's number, and how many there are. Linux gives out higher ones by itself.
const FIRST_PORT: u16 = 20_000;
const N_PORTS: u16 = 10_000;

/// What Slurm says; none where this process is no task of a step.
pub(super) fn claim(env: &Environment) -> Result<Option<Claim>, Invalid> {
    let Some(step) = step(env) else { return Ok(None) };
    let need = |number: Option<Number>, name: &str| {
        let there = || format!("SLURM_STEP_ID={step}");
        number.ok_or_else(|| Invalid(missing(Source::Slurm, &there(), name)))
    };
    let rank = need(env.number(&["SLURM_PROCID"])?, "SLURM_PROCID")?;
    let world = env.number(&["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"])?;
    let world = need(world, "SLURM_NTASKS")?;
    let (hosts_name, hosts) = hosts(env)?.unzip();
    let counted = match (hosts_name, &hosts) {
        (Some(name), Some(hosts)) => Some(Number { name, value: u32::try_from(hosts.len()).unwrap_or(u32::MAX) }),
        _ => env.number(&["SLURM_STEP_NUM_NODES", "SLURM_NNODES"])?,
    };
    let n_hosts = counted.map(|number| number.value);
    let local_rank = env.number(&["SLURM_LOCALID"])?;
    let tasks_here = tasks_here(env, world, counted)?;
    let size = if n_hosts == Some(1) { Some(world.value) } else { tasks_here };
    let local = local_rank.map(|rank| Local { rank: rank.value, size });
    let ground = match hosts.as_deref() {
        _ if n_hosts == Some(1) => Ground::OneHost,
        Some([first, ..]) => meeting(env, first)?,
        _ => Ground::Unsaid,
    };
    Claim { source: Source::Slurm, rank, world, local, agents: None, hosts: n_hosts, ground, run: identity(env) }
        .checked()
        .map(Some)
}

/// The step that this process is a task of.
fn step(env: &Environment) -> Option<&str> {
    let (_, step) = env.first(&["SLURM_STEP_ID", "SLURM_STEPID"])?;
    // One that is no number is a task's all the same, whatever it is.
    let is_own = step.parse::<i64>().is_ok_and(|id| id < 0 || id.unsigned_abs() >= FIRST_OWN_STEP);
    (!is_own).then_some(step)
}

/// What to say where somebody may have meant to use `srun`.
pub(super) fn hint(env: &Environment) -> Option<String> {
    let (name, job) = env.first(&["SLURM_JOB_ID", "SLURM_JOBID"])?;
    step(env).is_none().then(|| format!("in the Slurm job of {name}={job}, but not started by `srun`"))
}

/// The hosts, and which variable lists them.
fn hosts(env: &Environment) -> Result<Option<(&'static str, Vec<String>)>, Invalid> {
    let names = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
    let Some((name, list)) = env.first(&names) else { return Ok(None) };
    let shown: String = list.chars().take(80).collect();
    nodelist::expand(list).map(|hosts| Some((name, hosts))).map_err(|error| {
        Invalid(format!("{name}={shown} is no list of hosts: {error}; {}", leave_out("or give --rendezvous HOST:PORT")))
    })
}

/// How many tasks there are on this host: `4(x2),3` says it for all of them, and must fit what else is known of them.
fn tasks_here(env: &Environment, world: Number, hosts: Option<Number>) -> Result<Option<u32>, Invalid> {
    let Some((name, text)) = env.first(&["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"]) else { return Ok(None) };
    let shown: String = text.chars().take(80).collect();
    let entries: Option<Vec<(u32, u32)>> = text.split(',').map(count).collect();
    let Some(entries) = entries else {
        refuse!(
            "{name}={shown} is no list of counts such as 4(x2),3, each at least 1 and at most {}; {}",
            u32::MAX,
            leave_out("or mend it")
        );
    };
    // A job's variables may speak of more than the step that this process is a task of.
    let is_steps = |name: &str| name.starts_with("SLURM_STEP_");
    let n_hosts: u64 = entries.iter().map(|&(_, times)| u64::from(times)).sum();
    if let Some(Number { name: other, value }) = hosts
        && (n_hosts > value.into() || n_hosts < value.into() && is_steps(name) == is_steps(other))
    {
        refuse!(
            "{name}={shown} counts tasks of {n_hosts} hosts, but {other} says {value}; {}",
            leave_out("or mend them")
        );
    }
    let n_tasks = entries.iter().map(|&(tasks, times)| u128::from(tasks) * u128::from(times)).sum::<u128>();
    if is_steps(name) && n_tasks != world.value.into() {
        refuse!("{name}={shown} counts {n_tasks} tasks, but there is {world}; {}", leave_out("or mend them"));
    }
    let Some(node) = env.number(&["SLURM_NODEID"])? else { return Ok(None) };
    let mut left = node.value;
    for (tasks, times) in entries {
        if left < times {
            return Ok(Some(tasks));
        }
        left -= times;
    }
    Ok(None)
}

/// Tasks of each host, and of how many hosts in a row: `4(x2)`, or `3` of one.
fn count(entry: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|&number| is_number && number > 0)
    };
    match entry.split_once("(x") {
        Some((tasks, times)) => Some((number(tasks)?, number(times.strip_suffix(')')?)?)),
        None => Some((number(entry)?, 1)),
    }
}

fn identity(env: &Environment) -> Vec<String> {
    let names = ["SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"];
    names.iter().map(|name| env.text(name).unwrap_or_default().to_owned()).collect()
}

/// Rank 0 is on the first host, and the port follows from what all tasks know.
fn meeting(env: &Environment, first: &str) -> Result<Ground, Invalid> {
    let Some(job) = env.number(&["SLURM_JOB_ID", "SLURM_JOBID"])? else { return Ok(Ground::Unsaid) };
    let step = env.number(&["SLURM_STEP_ID", "SLURM_STEPID"])?.map_or(0, |step| step.value);
    let offset = (u64::from(job.value) + u64::from(step)) % u64::from(N_PORTS);
    let port = FIRST_PORT + offset as u16;
    let rule = format!("{FIRST_PORT} + ({job} + step {step}) mod {N_PORTS}");
    Ok(Ground::Hosts { host: first.to_owned(), port, rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `srun -N 2 -n 5` gives them to its last task.
    const TASK: [(&str, &str); 14] = [
        ("SLURM_JOB_ID", "1234567"),
        ("SLURM_STEP_ID", "2"),
        ("SLURM_PROCID", "4"),
        ("SLURM_NTASKS", "5"),
        ("SLURM_NPROCS", "5"),
        ("SLURM_STEP_NUM_TASKS", "5"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_NODEID", "1"),
        ("SLURM_NNODES", "2"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_TASKS_PER_NODE", "3,2"),
        ("SLURM_STEP_TASKS_PER_NODE", "3,2"),
        ("SLURM_JOB_NODELIST", "node[07-10]"),
        ("SLURM_STEP_NODELIST", "node[08-09]"),
    ];

    fn with(changes: &[(&str, &str)]) -> Result<Option<Claim>, Invalid> {
        claim(&TASK.iter().chain(changes).copied().collect())
    }

    #[test]
    fn a_task_has_its_place_from_its_step() {
        let claim = with(&[]).unwrap().unwrap();
        assert_eq!((claim.rank.value, claim.world.value, claim.hosts), (4, 5, Some(2)));
        assert_eq!(claim.local, Some(Local { rank: 1, size: Some(2) }));
        let Ground::Hosts { host, port, .. } = claim.ground else { panic!("{claim:?}") };
        assert_eq!((host.as_str(), port), ("node08", 20_000 + 4569));
        // A step of fewer tasks than the job.
        let smaller = with(&[("SLURM_NTASKS", "16")]).unwrap().unwrap();
        assert_eq!(smaller.world, Number { name: "SLURM_STEP_NUM_TASKS", value: 5 });
    }

    #[test]
    fn tasks_on_one_host_meet_there() {
        let one_host =
            with(&[("SLURM_STEP_NODELIST", "node08"), ("SLURM_STEP_TASKS_PER_NODE", "5"), ("SLURM_LOCALID", "4")])
                .unwrap()
                .unwrap();
        assert_eq!(one_host.local, Some(Local { rank: 4, size: Some(5) }));
        assert_eq!(one_host.ground, Ground::OneHost);
        assert!(one_host.run.contains(&"1234567".to_owned()) && one_host.run.contains(&"2".to_owned()));
    }

    #[test]
    fn scripts_and_shells_are_no_tasks() {
        for step in ["", "4294967291", "4294967290", "-5"] {
            let env: Environment = TASK.iter().copied().chain([("SLURM_STEP_ID", step)]).collect();
            assert_eq!(claim(&env), Ok(None), "{step}");
            assert!(hint(&env).unwrap().contains("SLURM_JOB_ID=1234567"), "{step}");
        }
        assert_eq!(hint(&TASK.iter().copied().collect()), None);
        assert_eq!(hint(&Environment::default()), None);
    }

    #[test]
    fn counts_of_tasks_are_read_for_every_host() {
        for (node, expected) in [("0", Some(4)), ("1", Some(4)), ("2", Some(3)), ("3", None)] {
            let env: Environment = [("SLURM_TASKS_PER_NODE", "4(x2),3"), ("SLURM_NODEID", node)].into_iter().collect();
            let world = Number { name: "SLURM_NTASKS", value: 11 };
            assert_eq!(tasks_here(&env, world, None), Ok(expected), "{node}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (changes, parts) in [
            (&[("SLURM_PROCID", "")][..], &["SLURM_STEP_ID=2", "without SLURM_PROCID"][..]),
            (&[("SLURM_PROCID", "x")], &["SLURM_PROCID=x"]),
            (&[("SLURM_PROCID", "5")], &["SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=5"]),
            (&[("SLURM_STEP_NODELIST", "n[1-")], &["SLURM_STEP_NODELIST=n[1-", "not closed"]),
            (&[("SLURM_STEP_NODELIST", "n[1-99999]")], &["more than 65536 hosts"]),
            (&[("SLURM_STEP_TASKS_PER_NODE", "many")], &["SLURM_STEP_TASKS_PER_NODE=many"]),
            (&[("SLURM_STEP_TASKS_PER_NODE", "0")], &["SLURM_STEP_TASKS_PER_NODE=0", "at least 1"]),
            (&[("SLURM_STEP_TASKS_PER_NODE", "3(x0),2,3")], &["3(x0)", "at least 1"]),
            (&[("SLURM_STEP_TASKS_PER_NODE", "2(x")], &["SLURM_STEP_TASKS_PER_NODE=2(x is no list"]),
            (&[("SLURM_STEP_TASKS_PER_NODE", "3(x2")], &["SLURM_STEP_TASKS_PER_NODE=3(x2 is no list"]),
            (
                &[("SLURM_STEP_TASKS_PER_NODE", "99999999999999999999")],
                &["=99999999999999999999", "at most 4294967295"],
            ),
            (&[("SLURM_STEP_TASKS_PER_NODE", "3(x2)")], &["counts 6 tasks", "SLURM_STEP_NUM_TASKS=5"]),
            (
                &[("SLURM_STEP_TASKS_PER_NODE", "4294967295(x2)")],
                &["counts 8589934590 tasks", "SLURM_STEP_NUM_TASKS=5"],
            ),
            (
                &[("SLURM_STEP_NODELIST", "n1"), ("SLURM_STEP_TASKS_PER_NODE", "1(x2)")],
                &["SLURM_STEP_TASKS_PER_NODE=1(x2)", "2 hosts", "SLURM_STEP_NODELIST says 1"],
            ),
            (
                &[("SLURM_STEP_NODELIST", "n1"), ("SLURM_STEP_TASKS_PER_NODE", "3")],
                &["SLURM_STEP_TASKS_PER_NODE=3 counts 3 tasks", "SLURM_STEP_NUM_TASKS=5"],
            ),
            (
                &[("SLURM_STEP_NODELIST", "n[0-100]"), ("SLURM_STEP_TASKS_PER_NODE", "1(x2)")],
                &["2 hosts", "SLURM_STEP_NODELIST says 101"],
            ),
            (&[("SLURM_STEP_NODELIST", ",a,b")], &["SLURM_STEP_NODELIST=,a,b", "a comma has no host"]),
            (&[("SLURM_STEP_NODELIST", "n[0-1],n[0-1]")], &["SLURM_STEP_NODELIST=n[0-1],n[0-1]", "`n0` twice"]),
            (&[("SLURM_JOB_ID", "x")], &["SLURM_JOB_ID=x"]),
            (&[("SLURM_STEP_NUM_TASKS", ""), ("SLURM_NTASKS", ""), ("SLURM_NPROCS", "")], &["without SLURM_NTASKS"]),
        ] {
            let error = with(changes).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{changes:?}: {error}");
            }
        }
    }
}
