//! torchrun's variables, as it sets them for each worker, and those of whoever else sets the four that torch reads
//! (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`).
//!
//! `MASTER_PORT` is where the agent of node 0 keeps its own store while `TORCHELASTIC_USE_AGENT_STORE` is `True`; otherwise it
//! is left for rank 0 to listen on.

use super::claim::{Claim, Ground, Local, Source, both, missing};
use super::environment::{Environment, leave_out};
use crate::invalid::{Invalid, refuse};

/// What torchrun says; none where there is none of its variables.
pub(super) fn claim(env: &Environment) -> Result<Option<Claim>, Invalid> {
    let number = |name: &'static str| env.number(&[name]);
    let (rank, world) = (number("RANK")?, number("WORLD_SIZE")?);
    let (local_rank, local_size) = (number("LOCAL_RANK")?, number("LOCAL_WORLD_SIZE")?);
    let Some((rank, world)) = both(Source::Torchrun, rank, world, ["RANK", "WORLD_SIZE"])? else {
        let rest = ["LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"];
        return match env.first(&rest) {
            None => Ok(None),
            Some((name, value)) => {
                refuse!("{}", missing(Source::Torchrun, &format!("{name}={value}"), "RANK and WORLD_SIZE"))
            }
        };
    };
    let local = local_rank.map(|rank| Local { rank: rank.value, size: local_size.map(|size| size.value) });
    let agents = number("GROUP_WORLD_SIZE")?;
    let one_host = local_size.is_some_and(|size| size.value == world.value);
    let ground = if one_host { Ground::OneHost } else { meeting(env, world.value)? };
    let hosts = if one_host { Some(1) } else { agents.map(|agents| agents.value) };
    Claim { source: Source::Torchrun, rank, world, local, agents, hosts, ground, run: identity(env) }
        .checked()
        .map(Some)
}

/// Workers share all of these; the store's port differs from that of any other run at the same time.
fn identity(env: &Environment) -> Vec<String> {
    let names = ["TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"];
    names.iter().map(|name| env.text(name).unwrap_or_default().to_owned()).collect()
}

fn meeting(env: &Environment, n_ranks: u32) -> Result<Ground, Invalid> {
    if n_ranks == 1 {
        return Ok(Ground::Unsaid);
    }
    let (host, port) = (env.text("MASTER_ADDR"), env.number(&["MASTER_PORT"])?);
    let (host, port) = match (host, port) {
        (Some(host), Some(port)) => (host.to_owned(), port),
        (None, None) => return Ok(Ground::Unsaid),
        (Some(host), None) => {
            refuse!("{}", missing(Source::Torchrun, &format!("MASTER_ADDR={host}"), "MASTER_PORT"))
        }
        (None, Some(port)) => refuse!("{}", missing(Source::Torchrun, &port.to_string(), "MASTER_ADDR")),
    };
    let is_agents = env.text("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let Some(given) = u16::try_from(port.value).ok().filter(|&port| port > 0) else {
        refuse!("{port} is no port, which is at least 1 and at most {}; {}", u16::MAX, leave_out("or give another"));
    };
    let (port, rule) = match given.checked_add(1) {
        _ if !is_agents => (given, "MASTER_PORT".to_owned()),
        Some(above) => (above, format!("one above MASTER_PORT={given}, which is the agent's own")),
        None => (given - 1, format!("one below MASTER_PORT={given}, which is the agent's own and the last there is")),
    };
    Ok(Ground::Hosts { host, port, rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `torchrun --nnodes 2 --nproc-per-node 2` sets them for the first worker of the second node.
    const TWO_HOSTS: [(&str, &str); 16] = [
        ("RANK", "2"),
        ("GROUP_RANK", "1"),
        ("ROLE_RANK", "2"),
        ("ROLE_NAME", "default"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("WORLD_SIZE", "4"),
        ("GROUP_WORLD_SIZE", "2"),
        ("ROLE_WORLD_SIZE", "4"),
        ("MASTER_ADDR", "node0"),
        ("MASTER_PORT", "29400"),
        ("TORCHELASTIC_RESTART_COUNT", "0"),
        ("TORCHELASTIC_MAX_RESTARTS", "3"),
        ("TORCHELASTIC_RUN_ID", "none"),
        ("TORCHELASTIC_USE_AGENT_STORE", "True"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        ("LOCAL_RANK", "0"),
    ];

    fn with(changes: &[(&str, &str)]) -> Result<Option<Claim>, Invalid> {
        claim(&TWO_HOSTS.iter().chain(changes).copied().collect())
    }

    #[test]
    fn workers_on_two_hosts_meet_beside_the_agents_port() {
        let claim = with(&[]).unwrap().unwrap();
        assert_eq!((claim.rank.value, claim.world.value, claim.hosts), (2, 4, Some(2)));
        assert_eq!(claim.local, Some(Local { rank: 0, size: Some(2) }));
        for (port, agents, expected) in
            [("29400", "True", 29401), ("65535", "True", 65534), ("29400", "False", 29400), ("1", "", 1)]
        {
            let claim = with(&[("MASTER_PORT", port), ("TORCHELASTIC_USE_AGENT_STORE", agents)]).unwrap().unwrap();
            let Ground::Hosts { host, port, .. } = claim.ground else { panic!("{claim:?}") };
            assert_eq!((host.as_str(), port), ("node0", expected));
        }
    }

    #[test]
    fn workers_of_one_host_are_told_from_those_of_other_runs_and_attempts() {
        let one = |changes: &[(&str, &str)]| {
            let one_host = [("LOCAL_WORLD_SIZE", "4"), ("GROUP_WORLD_SIZE", "1"), ("LOCAL_RANK", "2")];
            with(&[&one_host, changes].concat()).unwrap().unwrap()
        };
        assert_eq!(one(&[]).ground, Ground::OneHost);
        assert_eq!(one(&[]).run, one(&[("LOCAL_RANK", "3"), ("RANK", "3")]).run);
        for change in [("TORCHELASTIC_RUN_ID", "x"), ("MASTER_PORT", "1"), ("TORCHELASTIC_RESTART_COUNT", "1")] {
            assert_ne!(one(&[]).run, one(&[change]).run, "{change:?}");
        }
    }

    #[test]
    fn what_is_missing_or_no_number_is_named() {
        let none: Environment = [("PATH", "/bin")].into_iter().collect();
        assert_eq!(claim(&none), Ok(None));
        for (changes, parts) in [
            (&[("RANK", "")][..], &["WORLD_SIZE=4", "without RANK"][..]),
            (&[("WORLD_SIZE", "")], &["RANK=2", "without WORLD_SIZE"]),
            (&[("RANK", ""), ("WORLD_SIZE", "")], &["LOCAL_RANK=0", "without RANK and WORLD_SIZE"]),
            (&[("RANK", "two")], &["RANK=two", "not a whole number"]),
            (&[("RANK", "-1")], &["RANK=-1", "not a whole number"]),
            (&[("RANK", "4")], &["RANK=4", "not below WORLD_SIZE=4", "is 3"]),
            (&[("WORLD_SIZE", "0")], &["WORLD_SIZE=0", "at least 1"]),
            (&[("LOCAL_RANK", "2")], &["local rank 2 of 2"]),
            (&[("LOCAL_WORLD_SIZE", "5")], &["local rank 0 of 5", "WORLD_SIZE=4"]),
            (&[("MASTER_PORT", "")], &["MASTER_ADDR=node0", "without MASTER_PORT"]),
            (&[("MASTER_ADDR", "")], &["MASTER_PORT=29400", "without MASTER_ADDR"]),
            (&[("MASTER_PORT", "65536")], &["MASTER_PORT=65536", "no port"]),
        ] {
            let error = with(changes).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{changes:?}: {error}");
            }
            assert!(error.contains("--launcher") || error.contains("the last rank"), "{error}");
        }
    }
}
