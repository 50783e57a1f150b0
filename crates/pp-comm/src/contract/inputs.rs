//! The inputs of a step: how many microbatches they give, and which rows are whose.

use pp_schedule::{Microbatch, Stage};

use super::error::ContractError;
use crate::message::BufferError;
use crate::p2p::Item;
use crate::pieces::cut;

/// The whole batch, as every rank has it. Tensors are cut along their first dimension; integers go to every microbatch
/// as they are.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    inputs: &'a [Item],
    /// By input: the stage that takes it.
    owners: &'a [Stage],
    microbatch_size: usize,
    microbatches: u32,
}

impl<'a> Batch<'a> {
    /// Inputs that belong to owners, cut into microbatches of that many rows.
    ///
    /// # Errors
    /// [`ContractError`] unless there is an owner per input, a tensor among them, and every tensor has the same number
    /// of rows, which microbatches divide.
    pub fn new(inputs: &'a [Item], owners: &'a [Stage], microbatch_size: usize) -> Result<Self, ContractError> {
        if inputs.len() != owners.len() {
            return Err(ContractError::Arity { expected: owners.len(), given: inputs.len() });
        }
        if microbatch_size == 0 {
            return Err(ContractError::EmptyMicrobatch);
        }
        let mut batch = None;
        for (input, item) in inputs.iter().enumerate() {
            let Item::Tensor(tensor) = item else { continue };
            let &rows = tensor.boundary().shape().first().ok_or(ContractError::NoRows { input })?;
            let batch = *batch.get_or_insert(rows);
            if rows != batch {
                return Err(ContractError::Rows { input, rows, batch });
            }
        }
        let batch = batch.ok_or(ContractError::NoTensor { n_inputs: inputs.len() })?;
        if batch == 0 || !batch.is_multiple_of(microbatch_size) {
            return Err(ContractError::Remainder { batch, microbatch_size });
        }
        let microbatches = u32::try_from(batch / microbatch_size)
            .map_err(|_| ContractError::TooManyMicrobatches { batch, microbatch_size })?;
        Ok(Self { inputs, owners, microbatch_size, microbatches })
    }

    /// How many microbatches it gives.
    pub const fn microbatches(&self) -> u32 {
        self.microbatches
    }

    /// A stage's inputs of one microbatch: those it owns, in turn.
    ///
    /// # Errors
    /// [`BufferError`] when there is no such buffer.
    ///
    /// # Panics
    /// If there is no such microbatch.
    pub fn of(&self, stage: Stage, microbatch: Microbatch) -> Result<Vec<Item>, BufferError> {
        let owned = self.inputs.iter().zip(self.owners).filter(|(_, owner)| **owner == stage);
        owned.map(|(item, _)| self.rows_of(item, microbatch)).collect()
    }

    fn rows_of(&self, item: &Item, microbatch: Microbatch) -> Result<Item, BufferError> {
        let Item::Tensor(tensor) = item else { return Ok(item.clone()) };
        let mut shape = tensor.boundary().shape().to_vec();
        shape[0] = self.microbatch_size;
        let len: usize = shape.iter().product();
        let start = microbatch.idx() * len;
        Ok(Item::Tensor(cut(tensor, start..start + len, &shape)?))
    }
}
