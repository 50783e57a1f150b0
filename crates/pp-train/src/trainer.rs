//! A rank at work: its part of the model, its programs, its place among the others.

use anyhow::Result;
use pp_comm::{Member, Recording, StepReport, StepSpec, agree, execute_recorded};
use pp_model::{ChunkSpec, GptStage, MicroBatch};
use pp_schedule::Rank;

use crate::config::TrainConfig;
use crate::data::Text;
use crate::groups::Groups;
use crate::machine::Machine;
use crate::optimizer::Optimizer;
use crate::programs::Programs;
use crate::stop::Stop;

/// Which of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Training,
    Validation,
}

/// Everything a rank trains with.
#[derive(Debug)]
pub(crate) struct Trainer<'a> {
    pub(crate) config: &'a TrainConfig,
    pub(crate) text: &'a Text,
    pub(crate) member: &'a mut Member,
    pub(crate) stage: GptStage,
    pub(crate) optimizer: Optimizer,
    /// Whether this rank was asked to stop.
    pub(crate) stop: Stop,
    programs: Programs,
    pub(crate) groups: Groups,
    /// What the program that was run last did when.
    pub(crate) recording: Recording,
    /// Programs run so far, of both kinds: no two runs' messages can be taken for each other.
    n_runs: u64,
}

impl<'a> Trainer<'a> {
    pub(crate) fn new(
        config: &'a TrainConfig,
        text: &'a Text,
        machine: &Machine,
        programs: Programs,
        member: &'a mut Member,
        stop: &Stop,
    ) -> Result<Self> {
        let rank: Rank = member.endpoint.rank();
        let stages = config.plan.placement().stages_of(rank);
        let chunks = stages.map(|stage| ChunkSpec::new(&config.layers, stage)).collect();
        let stage = GptStage::new(&config.model, config.micro_batch_size, chunks, &machine.numbers(config))?;
        let optimizer = Optimizer::new(&stage, config.adam)?;
        let groups = Groups::new(config, rank)?;
        let (stop, recording) = (stop.clone(), Recording::default());
        Ok(Self { config, text, member, stage, optimizer, stop, programs, groups, recording, n_runs: 0 })
    }

    /// Runs a program on these microbatches.
    pub(crate) fn run(&mut self, pass: Pass, microbatches: Vec<MicroBatch>) -> Result<StepReport> {
        self.stage.set_step(microbatches)?;
        let program = match pass {
            Pass::Training => &self.programs.training,
            Pass::Validation => &self.programs.validation,
        };
        let own = self.stage.boundaries();
        let mut spec = StepSpec { step: self.n_runs, group: &self.groups.pipeline, boundaries: &own };
        self.n_runs += 1;
        let (endpoint, stage) = (&mut self.member.endpoint, &mut self.stage);
        // Lengths are the batch's, so they are agreed on with every batch: one small message per rank, and a rank that read
        // other lengths ends in an error of its first message instead of training on. Those of validation never vary.
        let agreed;
        if pass == Pass::Training && self.config.seq_lengths.vary() {
            agreed = agree(program, spec, endpoint)?;
            spec.boundaries = &agreed;
        }
        Ok(execute_recorded(program, spec, endpoint, stage, &mut self.recording)?)
    }
}
