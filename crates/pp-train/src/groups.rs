//! The groups of ranks that a run trains in. Nothing is done by ranks together but in one of them, or by all through the host.

use anyhow::{Context, Result};
use pp_comm::Group;
use pp_comm::collectives::GroupComm;
use pp_comm::mesh::Axis;
use pp_schedule::{Channel, Rank, Stage};

use crate::config::TrainConfig;
use crate::programs::OwnPrograms;

/// A rank's groups.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Its pipeline.
    pub(crate) pipeline: Group,
    /// The two ranks that have one copy each of a tied weight, if there are such and it is one of them.
    pub(crate) embedding: Option<GroupComm>,
}

impl Groups {
    pub(crate) fn new(config: &TrainConfig, rank: Rank) -> Result<Self> {
        let pipeline = config.mesh.group(Axis::Pipeline, rank);
        let pipeline = pipeline.with_context(|| format!("rank {rank} is not one of {}", config.mesh.n_ranks()))?;
        Ok(Self { pipeline, embedding: embedding(config, rank).map(GroupComm::new) })
    }
}

/// The two ranks that have one copy each of a tied weight, for either of them.
pub(crate) fn embedding(config: &TrainConfig, rank: Rank) -> Option<Group> {
    let group = config.mesh.group(Axis::Embedding, rank)?;
    (config.model.tied() && group.n_ranks() > 1).then_some(group)
}

/// Every channel of a run: those of its programs, and those by which a tied weight's two ranks add its gradients.
pub fn channels(config: &TrainConfig, own: &OwnPrograms) -> Vec<Channel> {
    let mut channels = own.channels();
    let first = config.plan.placement().rank_of(Stage(0));
    channels.extend(embedding(config, first).iter().flat_map(Group::collective_channels));
    channels
}
