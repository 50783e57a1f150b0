//! What a step computes, where and in which order: a schedule that flags ask for, or one in a file.

mod import;
mod judge;

use std::borrow::Cow;
use std::sync::Arc;

use anyhow::{Context, Result};
use pp_schedule::figures::peaks_saved;
use pp_schedule::lower::{Policy, PolicyError};
use pp_schedule::{
    Channel, Order, Placement, Program, Rank, RankProgram, ScheduleConfig, ScheduleKind, SlotClass, VerifiedProgram,
    verify,
};

use crate::args::Args;
use crate::batch::{microbatches, schedule};
use crate::nearest::Refusal;
use crate::policy::flags;
pub use import::FilePlan;
pub(crate) use import::read_file;

/// The schedule of a run. Everything else about a run follows from where its stages are, in which order they compute, and
/// the two programs.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Made from flags: the schedule, and how its transfers are posted and waited for.
    Generated(ScheduleConfig, Policy),
    /// Read from a file, and proved.
    File(Arc<FilePlan>),
}

/// One rank's part of a program, and the channels of the whole.
pub(crate) type OwnProgram = (RankProgram, Vec<Channel>);

impl Plan {
    /// The plan that arguments ask for; `file` is what [`read_file`] made of them.
    pub(crate) fn new(args: &Args, file: Option<&Arc<FilePlan>>) -> Result<Self, Refusal> {
        match file {
            Some(file) => {
                file.check_agreement(args)?;
                Ok(Self::File(Arc::clone(file)))
            }
            None => {
                let (config, policy) = (schedule(args, microbatches(args)?)?, args.policy.resolve()?);
                judge::check(args, &config, policy)?;
                Ok(Self::Generated(config, policy))
            }
        }
    }

    /// Which rank holds which stage.
    pub fn placement(&self) -> Placement {
        match self {
            Self::Generated(config, _) => config.placement(),
            Self::File(file) => file.order().extent().placement,
        }
    }

    /// Pipeline ranks.
    pub fn n_ranks(&self) -> u32 {
        self.placement().n_ranks()
    }

    /// Microbatches per step.
    pub fn microbatches(&self) -> u32 {
        match self {
            Self::Generated(config, _) => config.microbatches(),
            Self::File(file) => file.order().extent().microbatches,
        }
    }

    /// What the ranks compute in a training step.
    pub fn order(&self) -> Cow<'_, Order> {
        match self {
            Self::Generated(config, _) => Cow::Owned(Order::generate(config)),
            Self::File(file) => Cow::Borrowed(file.order()),
        }
    }

    /// By rank: the most activations that it has saved for their backward at once, in microbatches of one chunk.
    pub fn peaks_saved(&self) -> Vec<u32> {
        match self {
            Self::Generated(config, _) => peaks_saved(config),
            Self::File(file) => {
                let programs = file.training().program().ranks.iter();
                programs.map(|rank| u32::try_from(rank.n_slots(SlotClass::Saved)).unwrap_or(u32::MAX)).collect()
            }
        }
    }

    /// The program of a training step, of all ranks.
    ///
    /// # Errors
    /// [`PolicyError`] where the policy does not take the schedule, which no plan that arguments came to has.
    pub fn training_program(&self) -> Result<Cow<'_, Program>, PolicyError> {
        match self {
            Self::Generated(config, policy) => policy.lower(config).map(Cow::Owned),
            Self::File(file) => Ok(Cow::Borrowed(file.training().program())),
        }
    }

    /// The programs of training and validation, proved.
    pub(crate) fn verified(&self) -> Result<[Cow<'_, VerifiedProgram>; 2]> {
        match self {
            Self::Generated(config, policy) => {
                let (forwards, forward_policy) = (config.to_forward_only(), policy.for_forwards());
                let prove = |name, config: &ScheduleConfig, policy: Policy| {
                    let verified = verify(policy.lower(config)?).map(Cow::Owned);
                    verified.with_context(|| format!("the {name} program does not verify"))
                };
                Ok([prove("training", config, *policy)?, prove("validation", &forwards, forward_policy)?])
            }
            Self::File(file) => Ok([Cow::Borrowed(file.training()), Cow::Borrowed(file.validation())]),
        }
    }

    /// One rank's part of the programs of training and validation, built without proving anything again.
    pub(crate) fn own(&self, rank: Rank) -> Result<[OwnProgram; 2], PolicyError> {
        match self {
            Self::Generated(config, policy) => {
                let forwards = policy.for_forwards().lower_rank(&config.to_forward_only(), rank)?;
                Ok([policy.lower_rank(config, rank)?, forwards])
            }
            Self::File(file) => Ok([file.training(), file.validation()].map(|verified| {
                let program = verified.program();
                (program.ranks[rank.idx()].clone(), program.channels.clone())
            })),
        }
    }

    /// What it is, for people: its name and the flags that ask for it.
    pub(crate) fn title(&self) -> String {
        let (placement, m) = (self.placement(), self.microbatches());
        let (pp, vp) = (placement.n_ranks(), placement.n_chunks());
        match self {
            Self::Generated(config, policy) => {
                let backwards = match config.kind() {
                    ScheduleKind::GPipe => format!(", backwards {}", config.gpipe_backward().name()),
                    _ => String::new(),
                };
                let transfers = match policy {
                    Policy::Lanes => String::new(),
                    &policy => format!(" {}", flags(policy)),
                };
                format!("{}{backwards}: --pp {pp} --vp {vp} --microbatches {m}{transfers}", config.kind())
            }
            Self::File(file) => {
                let shape = placement.shape().name();
                format!("{}: {pp} ranks, {vp} chunks each in a {shape}, {m} microbatches; {}", file.name(), file.how())
            }
        }
    }

    /// What says how many ranks there are.
    pub(crate) fn ranks_text(&self) -> String {
        match self {
            Self::Generated(config, _) => format!("--pp {}", config.pp()),
            Self::File(file) => format!("the {} ranks of --schedule-csv {}", self.n_ranks(), file.name()),
        }
    }

    /// Everything that decides the programs, the same text on every rank.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Generated(config, policy) => format!("{config:?} {policy:?}"),
            Self::File(file) => format!("file {:032x}", file.hash()),
        }
    }
}
