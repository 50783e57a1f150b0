//! The step itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pp_schedule::{CertifiedProgram, Channel, Rank, Stage, verify};

use super::error::ContractError;
use super::inputs::Batch;
use super::module::{StageModule, Stepping};
use super::registry::Schedule;
use crate::endpoint::Endpoint;
use crate::executor::{Boundaries, StepReport, StepSpec, execute};
use crate::group::Group;
use crate::message::Boundary;
use crate::p2p::Item;

/// A pipeline to be run by this contract: a stage per rank of a group.
#[derive(Clone, Debug)]
pub struct ContractSpec {
    /// The schedule.
    pub schedule: Schedule,
    /// The ranks of the pipeline, in the order of their stages.
    pub group: Group,
    /// Rows of a microbatch.
    pub microbatch_size: usize,
    /// By input: the stage that takes it.
    pub owners: Vec<Stage>,
    /// What the stages hand to each other, for one microbatch.
    pub boundary: Boundary,
}

/// What a step gives on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutcome {
    /// The mean of the microbatches' losses where the last stage is, zero elsewhere.
    pub loss: f64,
    /// The loss of each microbatch, in turn, where the last stage is; empty elsewhere.
    pub losses: Vec<f64>,
    /// How many microbatches the batch gave.
    pub microbatches: u32,
    /// What the step took.
    pub report: StepReport,
}

/// The steps of a pipeline on one of its ranks. Programs are built and verified when a number of microbatches is first
/// met, and kept.
#[derive(Debug)]
pub struct PipelineStep {
    spec: ContractSpec,
    boundaries: Boundaries,
    programs: BTreeMap<u32, CertifiedProgram>,
}

impl PipelineStep {
    /// A pipeline.
    ///
    /// # Errors
    /// [`ContractError::NoSuchOwner`], [`ContractError::EmptyMicrobatch`].
    pub fn new(spec: ContractSpec) -> Result<Self, ContractError> {
        let n_stages = spec.group.n_ranks();
        let outside = |(_, owner): &(usize, &Stage)| owner.idx() >= n_stages;
        if let Some((input, &owner)) = spec.owners.iter().enumerate().find(outside) {
            return Err(ContractError::NoSuchOwner { input, owner, n_stages });
        }
        if spec.microbatch_size == 0 {
            return Err(ContractError::EmptyMicrobatch);
        }
        Ok(Self { boundaries: Boundaries::same(spec.boundary.clone()), spec, programs: BTreeMap::new() })
    }

    /// The channels that its steps need, whatever the number of microbatches.
    ///
    /// # Errors
    /// [`ContractError::Config`] when the group is larger than a program may be.
    pub fn channels(&self) -> Result<Vec<Channel>, ContractError> {
        let pp = self.n_stages();
        let channels = self.spec.schedule.program(pp, pp)?.channels;
        Ok(channels.into_iter().filter_map(|channel| self.spec.group.channel(channel)).collect())
    }

    /// Runs a step on the whole batch, which every rank gives, and averages the gradients. Every rank of the group
    /// calls it, with the same `step`, another one each time.
    ///
    /// # Errors
    /// [`ContractError`]; all but [`ContractError::Exec`] and [`ContractError::Average`] before anything is sent, on
    /// every rank alike.
    pub fn run<M: StageModule>(
        &mut self,
        endpoint: &mut Endpoint,
        step: u64,
        inputs: &[Item],
        module: &mut M,
    ) -> Result<StepOutcome, ContractError> {
        let n_stages = self.n_stages();
        let batch = Batch::new(inputs, &self.spec.owners, self.spec.microbatch_size)?;
        let microbatches = batch.microbatches();
        let program = match self.programs.entry(microbatches) {
            Entry::Occupied(built) => built.into_mut(),
            Entry::Vacant(place) => {
                let verified = verify(self.spec.schedule.program(n_stages, microbatches)?)?;
                place.insert(verified.certified(Rank(self.spec.group.place() as u32)))
            }
        };
        let spec = StepSpec { step, group: &self.spec.group, boundaries: &self.boundaries };
        let mut stepping = Stepping::new(&mut *module, batch, n_stages);
        let report = execute(program, spec, endpoint, &mut stepping)?;
        let losses = stepping.into_losses();
        let averaged = module.average_gradients(microbatches);
        averaged.map_err(|source| ContractError::Average { microbatches, source: Box::new(source) })?;
        // From +0, which stays where there are none.
        let loss = losses.iter().fold(0.0, |sum, loss| sum + loss) / f64::from(microbatches);
        Ok(StepOutcome { loss, losses, microbatches, report })
    }

    /// A stage per rank. A group has at most as many ranks as there are numbers for them.
    const fn n_stages(&self) -> u32 {
        self.spec.group.n_ranks() as u32
    }
}
