//! Megatron's answer to a [`LayoutSpec`]: an [`Assignment`].

use super::LayerPartition;
use super::counts::counts;
use super::error::LayoutError;
use super::layer_type::LayerType;
use super::limits::MAX_STAGES;
use super::pattern::LayoutPattern;
use super::pattern_error::PatternError;
use super::spec::LayoutSpec;
use crate::ids::{Chunk, Rank};
use crate::placement::Placement;

impl LayoutSpec {
    /// Accepts or refuses, and assigns layers, as Megatron does; [`crate::layout`] lists where it refuses more.
    ///
    /// # Errors
    /// A [`LayoutError`] that names the flags, their values, the rule and what works.
    pub fn resolve(&self) -> Result<Assignment, LayoutError> {
        for (flag, value) in [("--pp", Some(self.pp)), ("--vp", self.vp)] {
            if value == Some(0) {
                return Err(LayoutError::Zero { flag });
            }
        }
        let (pp, vp) = (self.pp, self.vp.unwrap_or(1));
        if pp.checked_mul(vp).is_none_or(|n_stages| n_stages > MAX_STAGES) {
            return Err(LayoutError::TooManyStages { pp, vp });
        }
        let by_counts = self.first.is_some() || self.last.is_some();
        let by_account = self.account_for_embedding || self.account_for_loss;
        if by_counts && by_account {
            return Err(LayoutError::CountsAndAccount);
        }
        let Some(layout) = &self.layout else {
            return Ok(Assignment::new(self, self.vp, counts(self)?));
        };
        if by_counts || by_account {
            return Err(LayoutError::LayoutAndOthers);
        }
        let chunks = self.chunks_of(layout)?;
        layout.check(self.n_layers, self.mtp_layers, pp)?;
        let on_stage = |rank: u32, chunk: u32| &layout.rows()[(chunk * pp + rank) as usize];
        let decoders = |row: &Vec<LayerType>| row.iter().filter(|layer| **layer == LayerType::Decoder).count() as i64;
        let counts = (0..pp).map(|rank| (0..chunks).map(|chunk| decoders(on_stage(rank, chunk))).collect());
        Ok(Assignment::new(self, self.vp.or((chunks > 1).then_some(chunks)), counts.collect()))
    }

    /// Chunks per rank that a layout's stages make.
    fn chunks_of(&self, layout: &LayoutPattern) -> Result<u32, LayoutError> {
        let (stages, pp) = (layout.n_stages(), self.pp);
        if !stages.is_multiple_of(pp as usize) {
            return Err(PatternError::StagesNotDivisible { stages, pp }.into());
        }
        let chunks = stages / pp as usize;
        match self.vp {
            Some(vp) if vp as usize != chunks => Err(PatternError::Chunks { chunks, vp }.into()),
            _ => Ok(chunks as u32),
        }
    }
}

/// Which layers each rank and chunk gets, by Megatron's arithmetic: `n` of them, from `off` on.
///
/// Megatron accepts `first + last > n_layers` and then builds a negative number of layers between; the numbers here say
/// so. What is to run goes through [`Assignment::partition`], which does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    n_layers: u32,
    vp: Option<u32>,
    n: Vec<Vec<i64>>,
    off: Vec<Vec<i64>>,
    layout: Option<LayoutPattern>,
    mtp_layers: u32,
}

impl Assignment {
    fn new(spec: &LayoutSpec, vp: Option<u32>, n: Vec<Vec<i64>>) -> Self {
        let mut off: Vec<Vec<i64>> = n.iter().map(|rank| vec![0; rank.len()]).collect();
        let mut before = 0;
        for chunk in 0..n.first().map_or(0, Vec::len) {
            for (n, off) in n.iter().zip(&mut off) {
                off[chunk] = before;
                before += n[chunk];
            }
        }
        let (layout, mtp_layers) = (spec.layout.clone(), spec.mtp_layers.unwrap_or(0));
        Self { n_layers: spec.n_layers, vp, n, off, layout, mtp_layers }
    }

    /// Chunks per rank: as asked for, or as the layout has them if that is more than one.
    pub const fn vp(&self) -> Option<u32> {
        self.vp
    }

    /// How many layers: `n[rank][chunk]`.
    pub fn n(&self) -> &[Vec<i64>] {
        &self.n
    }

    /// The first layer: `off[rank][chunk]`.
    pub fn off(&self) -> &[Vec<i64>] {
        &self.off
    }

    /// Which rank holds which stage.
    pub fn placement(&self) -> Placement {
        Placement::new(self.n.len() as u32, self.vp.unwrap_or(1))
    }

    /// The partition it amounts to.
    ///
    /// # Errors
    /// [`LayoutError::NegativeCount`] if a stage has less than no layers.
    pub fn partition(&self) -> Result<LayerPartition, LayoutError> {
        let placement = self.placement();
        let mut counts = Vec::with_capacity(placement.n_stages() as usize);
        for (chunk, rank) in
            (0..placement.n_chunks()).flat_map(|chunk| (0..self.n.len()).map(move |rank| (chunk, rank)))
        {
            let count = self.n[rank][chunk as usize];
            let negative = LayoutError::NegativeCount {
                rank: Rank(rank as u32),
                chunk: Chunk(chunk),
                count,
                n_layers: self.n_layers,
            };
            counts.push(u32::try_from(count).map_err(|_| negative)?);
        }
        LayerPartition::from_counts(&counts, self.n_layers, placement)
    }

    /// Whether the trainer can run it: the embedding is on the first stage and the loss on the last, where they run,
    /// and there are no MTP layers.
    ///
    /// # Errors
    /// [`LayoutError`] if not.
    pub fn check_trainable(&self) -> Result<(), LayoutError> {
        if self.mtp_layers > 0 {
            return Err(LayoutError::MtpNotTrained { mtp_layers: self.mtp_layers });
        }
        let last_stage = self.placement().n_stages() as usize - 1;
        let mut layers = self.layout.iter().flat_map(LayoutPattern::layers);
        let odd = |(stage, kind)| match kind {
            LayerType::Embedding => stage != 0,
            LayerType::Loss => stage != last_stage,
            LayerType::Decoder | LayerType::Mtp => false,
        };
        match layers.find(|layer| odd(*layer)) {
            Some((stage, LayerType::Embedding)) => Err(LayoutError::EmbeddingNotFirst { stage }),
            Some((stage, _)) => Err(LayoutError::LossNotLast { stage, last_stage }),
            None => Ok(()),
        }
    }
}
