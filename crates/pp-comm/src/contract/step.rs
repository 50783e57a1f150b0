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
/// ```
/// use std::{convert::Infallible, time::Duration};
/// use pp_comm::contract::{ContractSpec, PipelineStep, Schedule, StageModule};
/// use pp_comm::p2p::Item;
/// use pp_comm::{Boundary, Buffer, DType, Group, MemorySpec, memory_fabric};
/// use pp_schedule::{Rank, Stage};
///
/// /// Both stages multiply by a weight of 2; the loss is the mean of what comes out.
/// struct Double(f64, bool);
///
/// impl StageModule for Double {
///     type Error = Infallible;
///     type Saved = Vec<f64>;
///     fn forward(&mut self, inputs: Vec<Item>, activation: Option<Buffer>) -> Result<(Buffer, Vec<f64>), Infallible> {
///         let x = activation.or_else(|| inputs.into_iter().next()?.into_tensor()).expect("one or the other");
///         let x = x.into_f64().expect("agreed to be f64");
///         let made = x.iter().map(|x| 2.0 * x);
///         let made = if self.1 { vec![made.sum::<f64>() / x.len() as f64] } else { made.collect() };
///         Ok((Buffer::f64(&[made.len()], made).expect("a row each"), x))
///     }
///     fn backward(&mut self, x: Vec<f64>, gradient: Buffer) -> Result<Option<Buffer>, Infallible> {
///         let g = gradient.as_f64().expect("agreed to be f64");
///         // The last stage spreads the gradient of the mean over the rows.
///         let g: Vec<f64> = if self.1 { vec![g[0] / x.len() as f64; x.len()] } else { g.to_vec() };
///         self.0 += g.iter().zip(&x).map(|(g, x)| g * x).sum::<f64>();
///         let gradient = || Buffer::f64(&[x.len()], g.iter().map(|g| 2.0 * g).collect()).expect("a row each");
///         Ok(self.1.then(gradient))
///     }
///     fn average_gradients(&mut self, microbatches: u32) -> Result<(), Infallible> {
///         self.0 /= f64::from(microbatches);
///         Ok(())
///     }
/// }
///
/// let pipeline = |rank| {
///     PipelineStep::new(ContractSpec {
///         schedule: Schedule::OneFOneB,
///         group: Group::all(2, rank).expect("one of the two"),
///         microbatch_size: 2,
///         owners: vec![Stage(0)],
///         boundary: Boundary::new(DType::F64, &[2]).expect("a small shape"),
///     })
/// };
/// // With other groups beside the pipeline, their channels too.
/// let channels = pipeline(Rank(0))?.channels()?;
/// let spec = MemorySpec { n_ranks: 2, channels, capacity: 0, deadline: Duration::from_secs(5) };
/// let builders = memory_fabric(spec)?;
/// std::thread::scope(|scope| {
///     for builder in builders {
///         scope.spawn(move || {
///             let mut member = builder.build();
///             let rank = member.endpoint.rank();
///             let mut module = Double(0.0, rank.0 == 1);
///             let batch = [Item::Tensor(Buffer::f64(&[4], vec![1.0, 2.0, 3.0, 4.0]).expect("four rows"))];
///             let mut pipeline = pipeline(rank).expect("owners are stages");
///             let done = pipeline.run(&mut member.endpoint, 0, &batch, &mut module).expect("both run it");
///             assert_eq!((done.loss, done.microbatches), (if rank.0 == 1 { 10.0 } else { 0.0 }, 2));
///             // The mean of x is 2.5; by either weight the derivative is twice that.
///             assert_eq!(module.0, 5.0);
///             member.close();
///         });
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
