//! Stages whose tensors stay on a device: what they compute is copies, queued on the compute stream without a wait on the host. A
//! result is its input rotated, by another amount in every stage, with a stamp on its first element. And the same on vectors, one
//! computation after the other.

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use nccl_rs::cudarc::driver::{CudaSlice, CudaStream};
use nccl_rs::{DeviceBytes, Shared, Stream};
use pp_comm::{Boundary, Buffer, DType, DeviceAllocator, StageCompute, Task};
use pp_schedule::{Extent, Work};

/// What a step makes, by name: the last stage's outputs, and of every stage and microbatch the input and the gradient that a
/// weight's gradient would be made of.
pub(crate) type Made = BTreeMap<String, Vec<i64>>;

/// By how many places a result is rotated, and its stamp.
fn forward_of(work: Work) -> (usize, i64) {
    (1 + work.stage.idx(), 1000 * i64::from(work.stage.0) + i64::from(work.microbatch.0))
}

fn backward_of(work: Work) -> (usize, i64) {
    let (by, stamp) = forward_of(work);
    (2 * by + 1, -1 - stamp)
}

fn data(microbatch: u32, len: usize) -> Vec<i64> {
    (0..len as i64).map(|index| 100_000 * (1 + i64::from(microbatch)) + index).collect()
}

fn loss_name(work: Work) -> String {
    format!("output of microbatch {}", work.microbatch)
}

fn gradient_name(work: Work) -> String {
    format!("gradient of stage {}, microbatch {}", work.stage, work.microbatch)
}

fn rotated(values: &[i64], (by, stamp): (usize, i64)) -> Vec<i64> {
    let mut values = values.to_vec();
    let by = by % values.len();
    values.rotate_left(by);
    values[0] = stamp;
    values
}

/// The same computations one after the other.
pub(crate) fn serial(extent: Extent, len: impl Fn(u32) -> usize) -> Made {
    use pp_schedule::{Microbatch, Stage, WorkKind};
    let work = |stage, microbatch, kind| Work { kind, stage: Stage(stage), microbatch: Microbatch(microbatch) };
    let (mut made, n_stages) = (Made::new(), extent.placement.n_stages());
    for microbatch in 0..extent.microbatches {
        let mut x = data(microbatch, len(microbatch));
        let mut inputs = Vec::new();
        for stage in 0..n_stages {
            let y = rotated(&x, forward_of(work(stage, microbatch, WorkKind::Forward)));
            inputs.push(std::mem::replace(&mut x, y));
        }
        made.insert(loss_name(work(n_stages - 1, microbatch, WorkKind::Forward)), x.clone());
        let mut gradient = x;
        for (stage, x) in (0..n_stages).zip(inputs).rev().filter(|_| !extent.forward_only) {
            let work = work(stage, microbatch, WorkKind::Backward);
            made.insert(gradient_name(work), [x, gradient.clone()].concat());
            gradient = rotated(&gradient, backward_of(work));
        }
    }
    made
}

/// What goes wrong in a stage.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StageError(String);

fn said(error: impl Error) -> StageError {
    StageError(error.to_string())
}

/// A tensor of bytes.
type Bytes = CudaSlice<u8>;

/// Gives memory as a stage's tensors have it.
#[derive(Debug)]
pub(crate) struct SliceAllocator {
    pub(crate) stream: Arc<CudaStream>,
    /// The same.
    pub(crate) compute: Stream,
}

impl DeviceAllocator for SliceAllocator {
    fn allocate(&mut self, boundary: &Boundary) -> Result<Shared, Box<dyn Error + Send + Sync>> {
        Ok(match boundary.n_bytes() {
            // cudarc has no slices of nothing that may be dropped.
            0 => Arc::new(DeviceBytes::new(&self.compute, 0)?),
            n_bytes => Arc::new(self.stream.alloc_zeros::<u8>(n_bytes)?),
        })
    }
}

/// A rank's stages.
pub(crate) struct Rotating {
    stream: Arc<CudaStream>,
    n_stages: u32,
    lens: Vec<usize>,
    /// By slot: the input, and the output or, once the input's gradient is made, the output's.
    saved: BTreeMap<usize, (Shared, Shared)>,
    made: BTreeMap<String, Bytes>,
}

impl Rotating {
    pub(crate) fn new(stream: &Arc<CudaStream>, n_stages: u32, lens: &[usize]) -> Self {
        let (saved, made) = (BTreeMap::new(), BTreeMap::new());
        Self { stream: Arc::clone(stream), n_stages, lens: lens.to_vec(), saved, made }
    }

    /// What it made, copied to the host: the first time that this waits for the device.
    pub(crate) fn made(self) -> Made {
        assert!(self.saved.is_empty(), "everything saved was used");
        let to_host = |bytes: &Bytes| -> Vec<i64> {
            let bytes = self.stream.clone_dtoh(bytes).expect("copied");
            let words = bytes.chunks_exact(8).map(|word| word.try_into().expect("eight bytes"));
            words.map(i64::from_ne_bytes).collect()
        };
        let all = self.made.iter().map(|(name, bytes)| (name.clone(), to_host(bytes))).collect();
        self.stream.synchronize().expect("nothing went wrong on the device");
        all
    }

    fn len(&self, task: Task) -> usize {
        self.lens[task.work.microbatch.idx() % self.lens.len()]
    }

    fn buffer(&self, task: Task, memory: Shared) -> Buffer {
        let boundary = Boundary::new(DType::I64, &[self.len(task)]).expect("a small shape");
        Buffer::on_device(boundary, memory).expect("as long as its shape")
    }

    fn rotated(&self, of: &Shared, (by, stamp): (usize, i64)) -> Result<Shared, StageError> {
        let (of, stream) = (bytes(of)?, &self.stream);
        let mut made = stream.alloc_zeros::<u8>(of.len()).map_err(said)?;
        let (by, len) = (8 * by % of.len(), of.len());
        stream.memcpy_dtod(&of.slice(by..), &mut made.slice_mut(..len - by)).map_err(said)?;
        if by > 0 {
            stream.memcpy_dtod(&of.slice(..by), &mut made.slice_mut(len - by..)).map_err(said)?;
        }
        stream.memcpy_htod(&stamp.to_ne_bytes()[..], &mut made.slice_mut(..8)).map_err(said)?;
        Ok(Arc::new(made))
    }

    fn keep(&mut self, name: String, parts: &[&Shared]) -> Result<(), StageError> {
        let parts = parts.iter().map(|part| bytes(part)).collect::<Result<Vec<_>, _>>()?;
        let mut kept = self.stream.alloc_zeros::<u8>(parts.iter().map(|part| part.len()).sum()).map_err(said)?;
        let mut at = 0;
        for part in parts {
            self.stream.memcpy_dtod(part, &mut kept.slice_mut(at..at + part.len())).map_err(said)?;
            at += part.len();
        }
        assert!(self.made.insert(name.clone(), kept).is_none(), "{name} twice");
        Ok(())
    }

    /// The gradient of a stage's output, and its input.
    fn take(&mut self, task: Task, gradient: Option<Buffer>) -> Result<[Shared; 2], StageError> {
        let slot = task.saved.expect("not forward-only").idx();
        let (x, y) = self.saved.remove(&slot).expect("its forward saved it");
        assert_eq!(gradient.is_none(), task.work.stage.0 + 1 == self.n_stages, "{}", task.work);
        Ok([gradient.map_or(Ok(y), Buffer::into_device).map_err(said)?, x])
    }

    fn input_gradient(&self, task: Task, gradient: &Shared) -> Result<Option<Buffer>, StageError> {
        if task.work.stage.0 == 0 {
            return Ok(None);
        }
        Ok(Some(self.buffer(task, self.rotated(gradient, backward_of(task.work))?)))
    }
}

/// As this module's tensors, which all of the run are.
fn bytes(memory: &Shared) -> Result<&Bytes, StageError> {
    let any: &dyn Any = &**memory;
    any.downcast_ref().ok_or_else(|| StageError(format!("{memory:?} came from another allocator")))
}

impl StageCompute for Rotating {
    type Error = StageError;

    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>, StageError> {
        let Work { stage, microbatch, .. } = task.work;
        assert_eq!(input.is_none(), stage.0 == 0, "{}", task.work);
        let x = match input {
            Some(input) => input.into_device().map_err(said)?,
            None => {
                let words = data(microbatch.0, self.len(task));
                let words: Vec<u8> = words.into_iter().flat_map(i64::to_ne_bytes).collect();
                Arc::new(self.stream.clone_htod(&words).map_err(said)?)
            }
        };
        let y = self.rotated(&x, forward_of(task.work))?;
        let is_last = stage.0 + 1 == self.n_stages;
        if is_last {
            self.keep(loss_name(task.work), &[&y])?;
        }
        if let Some(slot) = task.saved {
            let before = self.saved.insert(slot.idx(), (x, Arc::clone(&y)));
            assert!(before.is_none(), "{slot} is still in use");
        }
        Ok((!is_last).then(|| self.buffer(task, y)))
    }

    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, StageError> {
        let [gradient, x] = self.take(task, gradient)?;
        self.keep(gradient_name(task.work), &[&x, &gradient])?;
        self.input_gradient(task, &gradient)
    }

    fn backward_input(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, StageError> {
        let [gradient, x] = self.take(task, gradient)?;
        let made = self.input_gradient(task, &gradient)?;
        self.saved.insert(task.saved.expect("not forward-only").idx(), (x, gradient));
        Ok(made)
    }

    fn backward_weight(&mut self, task: Task) -> Result<(), StageError> {
        let slot = task.saved.expect("not forward-only").idx();
        let (x, gradient) = self.saved.remove(&slot).expect("its backward for the input left it");
        self.keep(gradient_name(task.work), &[&x, &gradient])
    }
}
