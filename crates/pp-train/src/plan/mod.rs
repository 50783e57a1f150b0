//! What a step computes, where and in which order: a schedule that flags ask for, or one in a file.

mod import;

use std::borrow::Cow;
use std::sync::Arc;

use pp_schedule::figures::peaks_saved;
use pp_schedule::lower::lanes;
use pp_schedule::{
    Channel, Order, Placement, Program, Rank, RankProgram, ScheduleConfig, ScheduleKind, SlotClass, VerifiedProgram,
    VerifyError, verify,
};

use crate::args::Args;
use crate::batch::{microbatches, schedule};
use crate::nearest::Refusal;
pub use import::FilePlan;
pub(crate) use import::read_file;

/// The schedule of a run. Everything else about a run follows from where its stages are, in which order they compute, and
/// the two programs.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Made from flags.
    Generated(ScheduleConfig),
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
            None => Ok(Self::Generated(schedule(args, microbatches(args)?)?)),
        }
    }

    /// Which rank holds which stage.
    pub fn placement(&self) -> Placement {
        match self {
            Self::Generated(config) => config.placement(),
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
            Self::Generated(config) => config.microbatches(),
            Self::File(file) => file.order().extent().microbatches,
        }
    }

    /// What the ranks compute in a training step.
    pub fn order(&self) -> Cow<'_, Order> {
        match self {
            Self::Generated(config) => Cow::Owned(Order::generate(config)),
            Self::File(file) => Cow::Borrowed(file.order()),
        }
    }

    /// By rank: the most activations that it has saved for their backward at once, in microbatches of one chunk.
    pub fn peaks_saved(&self) -> Vec<u32> {
        match self {
            Self::Generated(config) => peaks_saved(config),
            Self::File(file) => {
                let programs = file.training().program().ranks.iter();
                programs.map(|rank| u32::try_from(rank.n_slots(SlotClass::Saved)).unwrap_or(u32::MAX)).collect()
            }
        }
    }

    /// The program of a training step, of all ranks.
    pub fn training_program(&self) -> Cow<'_, Program> {
        match self {
            Self::Generated(config) => Cow::Owned(lanes::lower(config)),
            Self::File(file) => Cow::Borrowed(file.training().program()),
        }
    }

    /// The programs of training and validation, proved.
    pub(crate) fn verified(&self) -> Result<[Cow<'_, VerifiedProgram>; 2], (&'static str, VerifyError)> {
        match self {
            Self::Generated(config) => {
                let prove = |name, config: &ScheduleConfig| {
                    verify(lanes::lower(config)).map(Cow::Owned).map_err(|error| (name, error))
                };
                Ok([prove("training", config)?, prove("validation", &config.to_forward_only())?])
            }
            Self::File(file) => Ok([Cow::Borrowed(file.training()), Cow::Borrowed(file.validation())]),
        }
    }

    /// One rank's part of the programs of training and validation, built without proving anything again.
    pub(crate) fn own(&self, rank: Rank) -> [OwnProgram; 2] {
        match self {
            Self::Generated(config) => {
                [lanes::lower_rank(config, rank), lanes::lower_rank(&config.to_forward_only(), rank)]
            }
            Self::File(file) => [file.training(), file.validation()].map(|verified| {
                let program = verified.program();
                (program.ranks[rank.idx()].clone(), program.channels.clone())
            }),
        }
    }

    /// What it is, for people: its name and the flags that ask for it.
    pub(crate) fn title(&self) -> String {
        let (placement, m) = (self.placement(), self.microbatches());
        let (pp, vp) = (placement.n_ranks(), placement.n_chunks());
        match self {
            Self::Generated(config) => {
                let backwards = match config.kind() {
                    ScheduleKind::GPipe => format!(", backwards {}", config.gpipe_backward().name()),
                    _ => String::new(),
                };
                format!("{}{backwards}: --pp {pp} --vp {vp} --microbatches {m}", config.kind())
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
            Self::Generated(config) => format!("--pp {}", config.pp()),
            Self::File(file) => format!("the {} ranks of --schedule-csv {}", self.n_ranks(), file.name()),
        }
    }

    /// Everything that decides the programs, the same text on every rank.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Generated(config) => format!("{config:?}"),
            Self::File(file) => format!("file {:032x}", file.hash()),
        }
    }
}
