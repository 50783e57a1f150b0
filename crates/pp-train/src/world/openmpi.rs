//! The variables of OpenMPI's `mpirun`, and what PMIx says beside them.
//!
//! PMIx alone says a rank but not how many there are: `srun --mpi=pmix` sets it too, and there it has to be Slurm's rank.

use super::claim::{Claim, Ground, Local, Source, both};
use super::environment::{Environment, Number, leave_out};
use crate::invalid::{Invalid, refuse};

/// What OpenMPI says; none where there is none of its variables.
pub(super) fn claim(env: &Environment) -> Result<Option<Claim>, Invalid> {
    let number = |name: &'static str| env.number(&[name]);
    let names = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"];
    let (rank, world) = (number(names[0])?, number(names[1])?);
    let Some((rank, world)) = both(Source::OpenMpi, rank, world, names)? else { return Ok(None) };
    if let Some(other) = number("PMIX_RANK")?
        && other.value != rank.value
    {
        refuse!("openmpi: {rank} disagrees with {other}; {}", leave_out("or start the process by one of them only"));
    }
    let size = number("OMPI_COMM_WORLD_LOCAL_SIZE")?.map(|size| size.value);
    let local = number("OMPI_COMM_WORLD_LOCAL_RANK")?.map(|rank| Local { rank: rank.value, size });
    let one_host = size == Some(world.value);
    let run = identity(env);
    // Without a name the directory of the meeting could be another run's.
    let ground = if one_host && !run.is_empty() { Ground::OneHost } else { Ground::Unsaid };
    let hosts = one_host.then_some(1);
    Claim { source: Source::OpenMpi, rank, world, local, agents: None, hosts, ground, run }.checked().map(Some)
}

/// PMIx's rank where OpenMPI says nothing.
pub(super) fn lone_rank(env: &Environment) -> Result<Option<Number>, Invalid> {
    env.number(&["PMIX_RANK"])
}

/// What all processes of one `mpirun` share.
fn identity(env: &Environment) -> Vec<String> {
    let names = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"];
    let Some((name, value)) = env.first(&names) else { return Vec::new() };
    let contact = env.text("OMPI_MCA_orte_hnp_uri").unwrap_or_default();
    vec![name.to_owned(), value.to_owned(), contact.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As OpenMPI 4.1 sets them for the second of two.
    const SECOND: [(&str, &str); 7] = [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ("PMIX_RANK", "1"),
        ("PMIX_NAMESPACE", "250806273"),
        ("OMPI_MCA_orte_hnp_uri", "250806272.0;tcp://192.0.2.2:36715"),
    ];

    fn with(changes: &[(&str, &str)]) -> Result<Option<Claim>, Invalid> {
        claim(&SECOND.iter().chain(changes).copied().collect())
    }

    #[test]
    fn processes_of_one_host_meet_there_and_others_have_to_be_told_where() {
        let claim = with(&[]).unwrap().unwrap();
        assert_eq!((claim.rank.value, claim.world.value, claim.hosts), (1, 2, Some(1)));
        assert_eq!(claim.local, Some(Local { rank: 1, size: Some(2) }));
        assert!(claim.ground == Ground::OneHost && claim.run[1] == "250806273", "{claim:?}");
        let two_hosts = with(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "1"), ("OMPI_COMM_WORLD_LOCAL_RANK", "0")]);
        assert_eq!(two_hosts.unwrap().unwrap().ground, Ground::Unsaid);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        assert_eq!(claim(&Environment::default()), Ok(None));
        for (changes, parts) in [
            (&[("OMPI_COMM_WORLD_RANK", "")][..], &["OMPI_COMM_WORLD_SIZE=2", "without OMPI_COMM_WORLD_RANK"][..]),
            (&[("OMPI_COMM_WORLD_SIZE", "")], &["OMPI_COMM_WORLD_RANK=1", "without OMPI_COMM_WORLD_SIZE"]),
            (&[("OMPI_COMM_WORLD_SIZE", "1.5")], &["OMPI_COMM_WORLD_SIZE=1.5"]),
            (&[("OMPI_COMM_WORLD_SIZE", "1")], &["OMPI_COMM_WORLD_RANK=1", "not below"]),
            (&[("PMIX_RANK", "0")], &["OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=0", "--launcher"]),
        ] {
            let error = with(changes).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{changes:?}: {error}");
            }
        }
    }
}
