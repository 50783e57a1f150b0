//! What an execution of a program is beside the program: which of the run, by whom, with messages of what size.

use pp_schedule::Microbatch;

use crate::group::Group;
use crate::message::Boundary;

/// One execution of a program: which of the run, by whom, and of what size its messages are.
#[derive(Clone, Copy, Debug)]
pub struct StepSpec<'a> {
    /// Tells this execution's messages from those of any other of the run. Every rank gives the same.
    pub step: u64,
    /// The ranks of the run that the program's ranks are places of: its pipeline. Pipelines of one run share no channel, so
    /// their messages never mix.
    pub group: &'a Group,
    /// What messages between stages are. Every rank of the group must have the same; see [`crate::agree`].
    pub boundaries: &'a Boundaries,
}

/// Element type and shape of the messages of a step: activations and gradients of a microbatch have the same.
///
/// ```
/// use pp_comm::{Boundaries, Boundary, DType};
/// use pp_schedule::Microbatch;
///
/// // Microbatches of two sequences of hidden size 8, as long as they happen to be.
/// let of_len = |len| Boundary::new(DType::F32, &[2, len, 8]).unwrap();
/// let boundaries = Boundaries::by_microbatch([5, 7, 3].map(of_len).to_vec());
/// assert_eq!(boundaries.of(Microbatch(1)), Some(&of_len(7)));
/// assert_eq!(boundaries.of(Microbatch(3)), None);
/// assert_eq!(Boundaries::same(of_len(7)).of(Microbatch(3)), Some(&of_len(7)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundaries(Sizes);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sizes {
    Same(Boundary),
    ByMicrobatch(Vec<Boundary>),
}

impl Boundaries {
    /// The same for every microbatch.
    pub const fn same(boundary: Boundary) -> Self {
        Self(Sizes::Same(boundary))
    }

    /// One for each microbatch, from 0.
    pub const fn by_microbatch(boundaries: Vec<Boundary>) -> Self {
        Self(Sizes::ByMicrobatch(boundaries))
    }

    /// That of a microbatch; `None` past the end.
    #[inline]
    pub fn of(&self, microbatch: Microbatch) -> Option<&Boundary> {
        match &self.0 {
            Sizes::Same(boundary) => Some(boundary),
            Sizes::ByMicrobatch(boundaries) => boundaries.get(microbatch.idx()),
        }
    }
}
