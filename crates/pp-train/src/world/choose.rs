//! Which source to believe.
//!
//! A launcher inside another inherits the other's variables. They do not contradict each other where the outer one says
//! where the inner one's agent stands: an agent per process of the outer one. Everything else that differs is refused,
//! because a wrong guess would start a wrong world.

use super::claim::{Claim, Source};
use super::environment::{Environment, leave_out};
use super::{flags, openmpi, slurm, torchrun};
use crate::args::Args;
use crate::invalid::{Invalid, refuse};

/// The source that counts, with what is to be said of the others.
#[derive(Debug)]
pub(super) struct Chosen {
    /// None when the process is alone.
    pub(super) claim: Option<Claim>,
    /// Sources that say something else, and why that is no contradiction.
    pub(super) beside: Vec<String>,
}

/// Asks the source that was asked for, or all of them.
pub(super) fn choose(args: &Args, env: &Environment) -> Result<Chosen, Invalid> {
    let asked = args.launcher.to_ascii_lowercase();
    if asked == "auto" {
        return auto(args, env);
    }
    let Some(source) = Source::ALL.into_iter().find(|source| source.name() == asked) else {
        let known = Source::ALL.map(Source::name).join(", ");
        refuse!("unknown --launcher `{}` (PP_LAUNCHER); known: auto, {known}", args.launcher);
    };
    if source == Source::Single {
        return Ok(Chosen { claim: None, beside: Vec::new() });
    }
    match claim_of(source, args, env)? {
        Some(claim) => Ok(Chosen { claim: Some(claim), beside: Vec::new() }),
        None => refuse!("--launcher {asked} (PP_LAUNCHER), but {}", nothing_from(source, env)),
    }
}

fn claim_of(source: Source, args: &Args, env: &Environment) -> Result<Option<Claim>, Invalid> {
    match source {
        Source::Flags => flags::claim(args),
        Source::Torchrun => torchrun::claim(env),
        Source::Slurm => slurm::claim(env),
        Source::OpenMpi => openmpi::claim(env),
        Source::Single => Ok(None),
    }
}

fn nothing_from(source: Source, env: &Environment) -> String {
    match source {
        Source::Flags => "neither --rank (PP_RANK) nor --world-size (PP_WORLD_SIZE) is given".to_owned(),
        Source::Torchrun => "neither RANK nor WORLD_SIZE is set; start it by `torchrun --no-python`".to_owned(),
        Source::Slurm => {
            let why = slurm::hint(env).unwrap_or_else(|| "there is no SLURM_STEP_ID".to_owned());
            format!("{why}; start it by `srun`")
        }
        Source::OpenMpi => "OMPI_COMM_WORLD_RANK is not set; start it by OpenMPI's `mpirun`".to_owned(),
        Source::Single => "that needs nothing".to_owned(),
    }
}

fn auto(args: &Args, env: &Environment) -> Result<Chosen, Invalid> {
    let mut claims = Vec::new();
    for source in Source::ALL {
        claims.extend(claim_of(source, args, env)?);
    }
    check_pmix(&claims, env)?;
    let fits = |claim: &Claim| claims.iter().all(|other| claim.agrees_with(other) || has_agents_of(claim, other));
    let Some(chosen) = claims.iter().position(fits) else {
        let Some((a, b)) = first_conflict(&claims) else { return Ok(Chosen { claim: None, beside: Vec::new() }) };
        refuse!(
            "{} says {} and {}, but {} says {} and {}; {}",
            a.source.name(),
            a.rank,
            a.world,
            b.source.name(),
            b.rank,
            b.world,
            leave_out("or start the process by one of them only")
        );
    };
    let claim = claims.swap_remove(chosen);
    let beside = claims.iter().map(|other| said_of(other, &claim)).collect();
    Ok(Chosen { claim: Some(claim), beside })
}

fn said_of(other: &Claim, chosen: &Claim) -> String {
    let (name, chosen_name) = (other.source.name(), chosen.source.name());
    if other.agrees_with(chosen) {
        return format!("{name} says the same");
    }
    format!("{name}'s {} of {} is that of {chosen_name}'s agent", other.rank, other.world)
}

/// Whether `outer` started the agents that started the ranks of `inner`.
fn has_agents_of(inner: &Claim, outer: &Claim) -> bool {
    match (inner.source, outer.source) {
        // torchrun says how many agents there are.
        (Source::Torchrun, Source::Slurm | Source::OpenMpi) => {
            inner.agents.is_some_and(|agents| agents.value == outer.world.value)
        }
        // mpirun starts one daemon per host by `srun`, on those hosts on which it is not itself.
        (Source::OpenMpi, Source::Slurm) => {
            outer.hosts == Some(outer.world.value) && outer.world.value < inner.world.value
        }
        _ => false,
    }
}

/// Two sources of which neither can be believed beside the other.
fn first_conflict(claims: &[Claim]) -> Option<(&Claim, &Claim)> {
    let conflict = |a: &Claim, b: &Claim| !a.agrees_with(b) && !has_agents_of(a, b) && !has_agents_of(b, a);
    let pairs = || claims.iter().enumerate().flat_map(|(at, a)| claims[at + 1..].iter().map(move |b| (a, b)));
    // With three sources each pair can fit, and the three not.
    pairs().find(|(a, b)| conflict(a, b)).or_else(|| pairs().find(|(a, b)| !a.agrees_with(b)))
}

/// PMIx's rank where it does not stand beside OpenMPI's.
fn check_pmix(claims: &[Claim], env: &Environment) -> Result<(), Invalid> {
    let Some(rank) = openmpi::lone_rank(env)? else { return Ok(()) };
    match claims.iter().find(|claim| claim.source == Source::Slurm) {
        _ if claims.iter().any(|claim| claim.source == Source::OpenMpi) => Ok(()),
        Some(slurm) if slurm.rank.value != rank.value => {
            refuse!(
                "slurm says {}, but PMIx says {rank}; {}",
                slurm.rank,
                leave_out("or start the process by one of them only")
            )
        }
        None if claims.is_empty() => {
            refuse!(
                "openmpi: {rank} is given without OMPI_COMM_WORLD_SIZE, so nothing says how many ranks there are; {}",
                leave_out("or give --rank and --world-size")
            )
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORCHRUN: &[(&str, &str)] = &[
        ("RANK", "3"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("GROUP_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "a"),
        ("MASTER_PORT", "29500"),
    ];
    const SRUN: &[(&str, &str)] = &[
        ("SLURM_JOB_ID", "7"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "1"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_NODELIST", "n[1-2]"),
    ];
    const MPIRUN: &[(&str, &str)] = &[
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ("PMIX_RANK", "3"),
        ("PMIX_NAMESPACE", "5"),
    ];
    const BATCH: &[(&str, &str)] =
        &[("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_NODELIST", "n[1-2]")];

    fn chosen(flags: &str, variables: &[&[(&str, &str)]]) -> Result<Chosen, String> {
        let args = Args::from_words(flags.split_whitespace()).expect("flags");
        choose(&args, &variables.concat().into_iter().collect()).map_err(|error| error.to_string())
    }

    /// The source, rank and world that are believed, and what is said beside.
    fn believed(flags: &str, variables: &[&[(&str, &str)]]) -> (Source, u32, u32, String) {
        let chosen = chosen(flags, variables).unwrap_or_else(|error| panic!("{variables:?}: {error}"));
        let beside = chosen.beside.join("; ");
        match chosen.claim {
            Some(claim) => (claim.source, claim.rank.value, claim.world.value, beside),
            None => (Source::Single, 0, 1, beside),
        }
    }

    #[test]
    fn a_source_alone_is_believed() {
        let none = String::new;
        assert_eq!(believed("", &[]), (Source::Single, 0, 1, none()));
        assert_eq!(believed("", &[TORCHRUN]), (Source::Torchrun, 3, 4, none()));
        assert_eq!(believed("", &[SRUN]), (Source::Slurm, 1, 2, none()));
        assert_eq!(believed("", &[MPIRUN]), (Source::OpenMpi, 3, 4, none()));
        let flags = "--rank 1 --world-size 3 --rendezvous-file f";
        assert_eq!(believed(flags, &[]), (Source::Flags, 1, 3, none()));
    }

    #[test]
    fn scripts_of_slurm_say_nothing_of_what_they_start() {
        assert_eq!(believed("", &[BATCH]).0, Source::Single);
        assert_eq!(believed("", &[BATCH, MPIRUN]), (Source::OpenMpi, 3, 4, String::new()));
        assert_eq!(believed("", &[BATCH, TORCHRUN]), (Source::Torchrun, 3, 4, String::new()));
    }

    #[test]
    fn launchers_inside_launchers_are_told_apart() {
        let inside = believed("", &[SRUN, TORCHRUN]);
        assert_eq!((inside.0, inside.1, inside.2), (Source::Torchrun, 3, 4));
        assert_eq!(inside.3, "slurm's SLURM_PROCID=1 of SLURM_NTASKS=2 is that of torchrun's agent");
        // A daemon of mpirun on each host.
        assert_eq!(believed("", &[SRUN, MPIRUN]).0, Source::OpenMpi);
        // Two agents, each started by mpirun.
        let agents = &[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2"), ("PMIX_RANK", "1")];
        assert_eq!(believed("", &[agents, TORCHRUN]).0, Source::Torchrun);
        // PMIx under srun is Slurm's own, also where torchrun is the task.
        assert_eq!(believed("", &[SRUN, &[("PMIX_RANK", "1")]]).0, Source::Slurm);
        assert_eq!(believed("", &[SRUN, &[("PMIX_RANK", "1")], TORCHRUN]).0, Source::Torchrun);
    }

    #[test]
    fn sources_that_agree_are_no_contradiction() {
        let same = believed("--rank 3 --world-size 4 --rendezvous-file f", &[TORCHRUN, MPIRUN]);
        assert_eq!(same, (Source::Flags, 3, 4, "openmpi says the same; torchrun says the same".to_owned()));
    }

    #[test]
    fn sources_that_disagree_are_both_named_and_a_word_settles_it() {
        let apart = &[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4")];
        for (flags, variables, parts) in [
            (
                "--rank 0 --world-size 4 --rendezvous-file f",
                &[TORCHRUN][..],
                &["flags says --rank 0 and --world-size 4", "torchrun says RANK=3 and WORLD_SIZE=4"][..],
            ),
            // Four agents, of which torchrun knows two.
            ("", &[SRUN, apart, TORCHRUN], &["torchrun says RANK=3", "slurm says SLURM_PROCID=2 and SLURM_NTASKS=4"]),
            // Two tasks on a host are no daemons.
            (
                "",
                &[SRUN, apart, MPIRUN],
                &["slurm says SLURM_PROCID=2", "openmpi says OMPI_COMM_WORLD_RANK=3 and OMPI_COMM_WORLD_SIZE=4"],
            ),
            (
                "",
                &[TORCHRUN, MPIRUN, &[("OMPI_COMM_WORLD_RANK", "0"), ("PMIX_RANK", "0")]],
                &["torchrun says", "openmpi says OMPI_COMM_WORLD_RANK=0"],
            ),
            ("", &[SRUN, &[("PMIX_RANK", "0")]], &["SLURM_PROCID=1", "PMIX_RANK=0"]),
        ] {
            let error = chosen(flags, variables).unwrap_err();
            for part in parts.iter().chain(&["--launcher"]) {
                assert!(error.contains(part), "{error}");
            }
            assert!(!error.contains('\n'));
        }
        let settled = |launcher: &str| believed(&format!("--launcher {launcher}"), &[SRUN, apart, TORCHRUN, MPIRUN]);
        assert_eq!(settled("torchrun"), (Source::Torchrun, 3, 4, String::new()));
        assert_eq!(settled("slurm"), (Source::Slurm, 2, 4, String::new()));
        assert_eq!(settled("OpenMPI"), (Source::OpenMpi, 3, 4, String::new()));
        assert_eq!(settled("single"), (Source::Single, 0, 1, String::new()));
    }

    #[test]
    fn half_a_source_is_refused_unless_another_is_asked_for() {
        let half = &[("WORLD_SIZE", "4")];
        assert!(chosen("", &[half]).unwrap_err().contains("WORLD_SIZE=4 is given without RANK"));
        assert!(chosen("", &[half, SRUN]).unwrap_err().contains("WORLD_SIZE=4"));
        assert_eq!(believed("--launcher slurm", &[half, SRUN]).0, Source::Slurm);
        assert!(chosen("", &[&[("PMIX_RANK", "1")]]).unwrap_err().contains("PMIX_RANK=1 is given without"));
    }

    #[test]
    fn a_source_that_is_asked_for_has_to_be_there() {
        for (launcher, variables, part) in [
            ("flags", TORCHRUN, "neither --rank"),
            ("torchrun", SRUN, "neither RANK nor WORLD_SIZE"),
            ("slurm", BATCH, "not started by `srun`"),
            ("slurm", TORCHRUN, "no SLURM_STEP_ID"),
            ("openmpi", SRUN, "OMPI_COMM_WORLD_RANK is not set"),
            ("horovod", SRUN, "known: auto, flags, torchrun, slurm, openmpi, single"),
        ] {
            let error = chosen(&format!("--launcher {launcher}"), &[variables]).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
