//! What the executor calls: a rank's part of the model.

use pp_schedule::{Slot, Work};

use crate::message::Buffer;

/// What a stage is asked to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The computation.
    pub work: Work,
    /// Where its state is kept: a forward leaves it there, a backward takes it. None in a forward-only program.
    pub saved: Option<Slot>,
}

/// What the executor calls: the computations of a rank's stages.
///
/// The result of a computation is `None` exactly where the program has no place for one: after the last stage's forward
/// and the first stage's backward. The executor refuses anything else.
pub trait StageCompute {
    /// What can go wrong in a computation.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Forward: from the activation (none for the first stage) to the next one (none for the last stage).
    ///
    /// # Errors
    /// As the stage says.
    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>, Self::Error>;

    /// Backward for input and weights: from the output's gradient (none for the last stage) to the input's (none for
    /// the first stage).
    ///
    /// # Errors
    /// As the stage says.
    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Self::Error>;

    /// Backward for the input only; the weights follow in [`StageCompute::backward_weight`].
    ///
    /// # Errors
    /// As the stage says.
    fn backward_input(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Self::Error>;

    /// Backward for the weights only.
    ///
    /// # Errors
    /// As the stage says.
    fn backward_weight(&mut self, task: Task) -> Result<(), Self::Error>;
}
