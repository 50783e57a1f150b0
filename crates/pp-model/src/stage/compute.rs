//! What the executor calls.

use candle_core::Tensor;
use pp_comm::{Buffer, StageCompute, Task};
use pp_schedule::Work;

use super::slots::State;
use super::{GptStage, wire};
use crate::chunk::ChunkOutput;
use crate::error::{ModelError, Result};

impl StageCompute for GptStage {
    type Error = ModelError;

    /// Keeps state in the task's slot; a forward-only program has none, and then nothing is kept.
    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>> {
        let at = self.chunk_of(task.work)?;
        let input = self.arrived(task.work, input, self.chunks[at].spec().pre_process)?;
        let (chunk, inputs) = (&self.chunks[at], &self.inputs[task.work.microbatch.idx()]);
        let seq_len = self.boundaries[task.work.microbatch.idx()].shape()[1];
        let output = match task.saved {
            None => chunk.evaluate(input, inputs, seq_len)?,
            Some(slot) => {
                let (output, saved) = chunk.forward(input, inputs, seq_len)?;
                self.slots.put(task, slot, State::Saved(saved))?;
                output
            }
        };
        match output {
            ChunkOutput::Activation(activation) => wire::into_buffer(activation).map(Some),
            ChunkOutput::Loss(loss) => {
                self.losses[task.work.microbatch.idx()] = loss;
                Ok(None)
            }
        }
    }

    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>> {
        let at = self.chunk_of(task.work)?;
        let gradient = self.arrived(task.work, gradient, self.chunks[at].spec().post_process)?;
        let saved = self.slots.take_saved(task)?;
        let inputs = &self.inputs[task.work.microbatch.idx()];
        let dx = self.chunks[at].backward(saved, gradient, inputs)?;
        dx.map(wire::into_buffer).transpose()
    }

    fn backward_input(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>> {
        let at = self.chunk_of(task.work)?;
        let gradient = self.arrived(task.work, gradient, self.chunks[at].spec().post_process)?;
        let saved = self.slots.take_saved(task)?;
        let (dx, work) = self.chunks[at].backward_input(saved, gradient)?;
        if let Some(slot) = task.saved {
            self.slots.put(task, slot, State::Work(work))?;
        }
        dx.map(wire::into_buffer).transpose()
    }

    fn backward_weight(&mut self, task: Task) -> Result<()> {
        let at = self.chunk_of(task.work)?;
        let work = self.slots.take_work(task)?;
        self.chunks[at].backward_weight(work, &self.inputs[task.work.microbatch.idx()])
    }
}

impl GptStage {
    /// Checks what came from the neighbour, where there is one, and makes it a tensor.
    fn arrived(&self, work: Work, buffer: Option<Buffer>, at_end: bool) -> Result<Option<Tensor>> {
        match buffer {
            None if at_end => Ok(None),
            Some(buffer) if !at_end => {
                let expected = &self.boundaries[work.microbatch.idx()];
                if buffer.boundary() != expected {
                    let (expected, found) = (expected.clone(), buffer.boundary().clone());
                    return Err(ModelError::Boundary { work, expected, found });
                }
                wire::into_tensor(buffer, &self.numbers.device).map(Some)
            }
            _ => Err(ModelError::Arity { work, expected: !at_end }),
        }
    }
}
