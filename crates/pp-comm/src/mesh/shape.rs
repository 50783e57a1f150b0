//! The sizes of a mesh, its coordinates, and its groups.

use pp_schedule::{Placement, Rank, Stage};

use super::axis::{Axis, Coordinates};
use super::error::MeshError;
use crate::group::Group;

/// The most ranks a mesh may have.
pub const MAX_RANKS: u32 = 1 << 20;

/// The shape of a run.
///
/// ```
/// use pp_comm::mesh::{Axis, Mesh};
/// use pp_schedule::Rank;
/// let mesh = Mesh::new(2, 1, 2)?;
/// let pipeline = mesh.group(Axis::Pipeline, Rank(3)).expect("every rank is in a pipeline");
/// assert_eq!(pipeline.ranks(), [Rank(1), Rank(3)]);
/// assert_eq!(pipeline.place(), 1);
/// assert_eq!(mesh.to_string(), "\
/// 4 ranks: tp 2 x dp 1 x pp 2, rank = tp + 2 * (dp + 1 * pp)
///         dp 0
/// pp 0 |   0 1
/// pp 1 |   2 3
/// tensor    (2 groups of 2): 0 1 | 2 3
/// data      (4 groups of 1): 0 | 1 | 2 | 3
/// pipeline  (2 groups of 2): 0 2 | 1 3
/// model     (1 group of 4): 0 1 2 3
/// embedding (2 groups of 2): 0 2 | 1 3
/// ");
/// # Ok::<(), pp_comm::mesh::MeshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    tp: u32,
    dp: u32,
    pp: u32,
    /// The pipeline coordinates of the first and the last stage.
    ends: (u32, u32),
}

impl Mesh {
    /// A mesh whose pipelines have their first stage on their first rank and their last stage on their last.
    ///
    /// # Errors
    /// [`MeshError::Zero`], [`MeshError::TooLarge`].
    pub fn new(tp: u32, dp: u32, pp: u32) -> Result<Self, MeshError> {
        if [tp, dp, pp].contains(&0) {
            return Err(MeshError::Zero { tp, dp, pp });
        }
        let n_ranks = tp.checked_mul(dp).and_then(|ranks| ranks.checked_mul(pp));
        match n_ranks {
            Some(n_ranks) if n_ranks <= MAX_RANKS => Ok(Self { tp, dp, pp, ends: (0, pp - 1) }),
            _ => Err(MeshError::TooLarge { tp, dp, pp, most: MAX_RANKS }),
        }
    }

    /// The same mesh with its stages placed as given, which says where the first and the last one are.
    ///
    /// # Errors
    /// [`MeshError::Placement`] unless it is over the ranks of a pipeline.
    pub fn with_placement(self, placement: Placement) -> Result<Self, MeshError> {
        if placement.n_ranks() != self.pp {
            return Err(MeshError::Placement { pp: self.pp, placed: placement.n_ranks() });
        }
        let rank_of = |stage| placement.rank_of(Stage(stage)).0;
        Ok(Self { ends: (rank_of(0), rank_of(placement.n_stages() - 1)), ..self })
    }

    /// Whether it is for this many ranks.
    ///
    /// # Errors
    /// [`MeshError::World`] otherwise, with the nearest sizes that work.
    pub fn check_world(&self, n_ranks: u32) -> Result<(), MeshError> {
        if n_ranks == self.n_ranks() {
            return Ok(());
        }
        Err(MeshError::World { n_ranks, tp: self.tp, dp: self.dp, pp: self.pp, most: MAX_RANKS })
    }

    /// Tensor-parallel ranks.
    pub const fn tp(&self) -> u32 {
        self.tp
    }

    /// Data-parallel ranks: copies of the model.
    pub const fn dp(&self) -> u32 {
        self.dp
    }

    /// Pipeline ranks.
    pub const fn pp(&self) -> u32 {
        self.pp
    }

    /// All ranks, `tp * dp * pp`.
    pub const fn n_ranks(&self) -> u32 {
        self.tp * self.dp * self.pp
    }

    /// Where a rank is; `None` where there is no such rank.
    pub fn coordinates(&self, rank: Rank) -> Option<Coordinates> {
        let (tp, rest) = (rank.0 % self.tp, rank.0 / self.tp);
        (rank.0 < self.n_ranks()).then_some(Coordinates { tp, dp: rest % self.dp, pp: rest / self.dp })
    }

    /// The rank at a place; `None` outside the mesh.
    pub fn rank(&self, at: Coordinates) -> Option<Rank> {
        let inside = at.tp < self.tp && at.dp < self.dp && at.pp < self.pp;
        inside.then(|| self.rank_at(at))
    }

    const fn rank_at(&self, Coordinates { tp, dp, pp }: Coordinates) -> Rank {
        Rank(tp + self.tp * (dp + self.dp * pp))
    }

    /// The group of an axis that a rank is in; `None` where there is no such rank, and for the embedding axis on ranks
    /// with neither the first nor the last stage.
    pub fn group(&self, axis: Axis, rank: Rank) -> Option<Group> {
        let number = self.group_of(axis, self.coordinates(rank)?);
        Group::new(self.first_id(axis) + number, self.members(axis, number), rank)
    }

    /// All groups that a rank is in, by axis.
    pub fn groups_of(&self, rank: Rank) -> impl Iterator<Item = (Axis, Group)> {
        Axis::ALL.into_iter().filter_map(move |axis| Some((axis, self.group(axis, rank)?)))
    }

    /// How many groups an axis has.
    pub const fn n_groups(&self, axis: Axis) -> u32 {
        match axis {
            Axis::All => 1,
            Axis::Tensor => self.dp * self.pp,
            Axis::Data => self.tp * self.pp,
            Axis::Pipeline | Axis::Embedding => self.tp * self.dp,
            Axis::Model => self.dp,
        }
    }

    /// The ranks of an axis' groups, by group; each in the order of its ranks.
    pub fn memberships(&self, axis: Axis) -> impl Iterator<Item = Vec<Rank>> {
        (0..self.n_groups(axis)).map(move |number| self.members(axis, number))
    }

    /// The number of an axis' first group. 0 is the group of all ranks.
    fn first_id(&self, axis: Axis) -> u32 {
        Axis::ALL.into_iter().take_while(|&before| before != axis).map(|before| self.n_groups(before)).sum()
    }

    /// Which of an axis' groups a rank is in, or for the embedding axis would be.
    const fn group_of(&self, axis: Axis, Coordinates { tp, dp, pp }: Coordinates) -> u32 {
        match axis {
            Axis::All => 0,
            Axis::Tensor => dp + self.dp * pp,
            Axis::Data => tp + self.tp * pp,
            Axis::Pipeline | Axis::Embedding => tp + self.tp * dp,
            Axis::Model => dp,
        }
    }

    pub(super) fn members(&self, axis: Axis, number: u32) -> Vec<Rank> {
        let at = |tp, dp, pp| self.rank_at(Coordinates { tp, dp, pp });
        match axis {
            Axis::All => (0..self.n_ranks()).map(Rank).collect(),
            Axis::Tensor => (0..self.tp).map(|tp| at(tp, number % self.dp, number / self.dp)).collect(),
            Axis::Data => (0..self.dp).map(|dp| at(number % self.tp, dp, number / self.tp)).collect(),
            Axis::Pipeline => (0..self.pp).map(|pp| at(number % self.tp, number / self.tp, pp)).collect(),
            Axis::Model => (0..self.pp).flat_map(|pp| (0..self.tp).map(move |tp| at(tp, number, pp))).collect(),
            Axis::Embedding => {
                let (first, last) = self.ends;
                let ends = if first == last { vec![first] } else { vec![first, last] };
                ends.into_iter().map(|pp| at(number % self.tp, number / self.tp, pp)).collect()
            }
        }
    }
}
