//! Where this process stands: alone, or one rank of several; who says so, and where the ranks meet.
//!
//! | file | what is in it |
//! |---|---|
//! | `environment` | variables as data |
//! | `claim` | what a source says, and what holds for all of them |
//! | `flags`, `torchrun`, `slurm` (with `nodelist`), `openmpi` | the sources |
//! | `choose` | which of them to believe |
//! | `secret`, `meeting` | what the ranks know and nobody else; where they are to meet |
//! | `private`, `ground` | the directory of one host; going to the meeting |
//! | `gpu` | which GPU is this process's |

mod choose;
mod claim;
mod environment;
mod flags;
#[cfg(any(feature = "nccl", test))]
mod gpu;
mod ground;
mod meeting;
mod nodelist;
mod openmpi;
mod private;
mod secret;
mod slurm;
mod torchrun;

use std::path::Path;

use pp_comm::Secret;
use xxhash_rust::xxh3::xxh3_128;

use crate::args::Args;
use crate::invalid::{Invalid, refuse};
use crate::plan::Plan;
use choose::{Chosen, choose};
use claim::{Claim, Local};
use meeting::Meeting;

pub use claim::Source;
pub use environment::Environment;
#[cfg(feature = "nccl")]
pub(crate) use gpu::GpuChoice;

/// The longest name of a run that is told as it is.
const MAX_NAME: usize = 128;

/// This process among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    rank: u32,
    world_size: u32,
    local: Option<Local>,
    source: Source,
    /// Who says so, and what others say.
    said: String,
    meeting: Meeting,
    secret: Option<Secret>,
    run: Vec<String>,
}

impl Place {
    /// By the flags and the environment.
    ///
    /// # Errors
    /// [`Invalid`] when they contradict each other or the plan. A dry run outside a world starts nothing and may be of any size.
    pub(crate) fn new(args: &Args, env: &Environment, plan: &Plan) -> Result<Self, Invalid> {
        let Chosen { claim, beside } = choose(args, env)?;
        check_world(args, env, plan, claim.as_ref())?;
        let Some(claim) = claim else {
            check_nothing_left_over(args)?;
            return Ok(Self::single(plan));
        };
        let secret = secret::given(args, env)?;
        let meeting = if claim.world.value == 1 { Meeting::Alone } else { Meeting::new(args, &claim)? };
        meeting::check_secret(&meeting, secret.is_some())?;
        let said = std::iter::once(said(&claim)).chain(beside).collect::<Vec<_>>().join("; ");
        let Claim { source, rank, world, local, run, .. } = claim;
        Ok(Self { rank: rank.value, world_size: world.value, local, source, said, meeting, secret, run })
    }

    /// Nobody has started others. A dry run may look at a plan for several all the same.
    fn single(plan: &Plan) -> Self {
        let said =
            if plan.n_ranks() == 1 { "single: the only process" } else { "single: a dry run without a launcher" };
        Self {
            rank: 0,
            world_size: 1,
            local: None,
            source: Source::Single,
            said: said.to_owned(),
            meeting: Meeting::Alone,
            secret: None,
            run: Vec::new(),
        }
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// All ranks.
    pub fn world_size(&self) -> u32 {
        self.world_size
    }

    /// Who said so.
    pub fn source(&self) -> Source {
        self.source
    }

    /// This rank among those of its host, where its source says that.
    pub fn local_rank(&self) -> Option<u32> {
        self.local.map(|local| local.rank)
    }

    /// Whether there are no other ranks.
    pub fn is_alone(&self) -> bool {
        self.meeting == Meeting::Alone
    }

    /// What tells this run from any other that ranks could meet by mistake, as far as its source says.
    pub(crate) fn run_name(&self) -> String {
        let name = self.run.join(" ");
        // What a launcher calls a run may be long, and must fit into a first word.
        if name.len() <= MAX_NAME { name } else { format!("{:032x}", xxh3_128(name.as_bytes())) }
    }

    /// How many ranks share this machine, where the source says that.
    pub(crate) fn local_size(&self) -> Option<u32> {
        self.local.and_then(|local| local.size)
    }

    /// The file that was given for the ranks to meet through.
    pub(crate) fn rendezvous_file(&self) -> Option<&Path> {
        match &self.meeting {
            Meeting::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// What rank 0 says of it: who, and where.
    pub(crate) fn told(&self) -> Vec<(&'static str, String)> {
        let mut told = vec![("place", self.said.clone())];
        if !self.is_alone() {
            let secret = match (&self.secret, &self.meeting) {
                (Some(_), _) | (None, Meeting::Private { .. }) => "with a secret",
                (None, _) => "without a secret",
            };
            told.push(("meeting", format!("{}; {secret}", self.meeting.said())));
        }
        told
    }
}

fn said(claim: &Claim) -> String {
    let local = match claim.local {
        None => String::new(),
        Some(Local { rank, size: None }) => format!(", local rank {rank}"),
        Some(Local { rank, size: Some(size) }) => format!(", local rank {rank} of {size}"),
    };
    format!("{}: {}, {}{local}", claim.source.name(), claim.rank, claim.world)
}

/// That there are as many ranks as the plan is for.
fn check_world(args: &Args, env: &Environment, plan: &Plan, claim: Option<&Claim>) -> Result<(), Invalid> {
    let (n_ranks, asked) = (plan.n_ranks(), plan.ranks_text());
    match claim {
        Some(claim) if claim.world.value != n_ranks => refuse!(
            "world size {} ({}'s {}) disagrees with {asked}; start it through `cargo xtask launch`, or as {n_ranks} processes",
            claim.world.value,
            claim.source.name(),
            claim.world
        ),
        None if n_ranks != 1 && !args.dry_run => {
            let hint = slurm::hint(env).map_or_else(String::new, |hint| format!(" (this process is {hint})"));
            refuse!(
                "world size 1 disagrees with {asked}; start it through `cargo xtask launch`, or another launcher{hint}"
            )
        }
        _ => Ok(()),
    }
}

/// That nobody wanted to meet others without saying who it is.
fn check_nothing_left_over(args: &Args) -> Result<(), Invalid> {
    let file =
        args.rendezvous_file.as_ref().map(|file| format!("--rendezvous-file {} (PP_RENDEZVOUS_FILE)", file.display()));
    let address = args.rendezvous.as_ref().map(|address| format!("--rendezvous {address} (PP_RENDEZVOUS)"));
    match file.or(address) {
        Some(given) if !args.launcher.eq_ignore_ascii_case(Source::Single.name()) => refuse!(
            "{given} is given without --rank (PP_RANK) and --world-size (PP_WORLD_SIZE), and no launcher says them; a world needs \
             all three"
        ),
        _ => Ok(()),
    }
}
