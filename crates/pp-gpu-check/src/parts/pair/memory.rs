//! Where a stage's values are: on the host, or on the device, where they are only copied.

use std::any::Any;
use std::sync::Arc;

use anyhow::{Context, Result};
use nccl_rs::cudarc::driver::{CudaSlice, CudaStream};
use nccl_rs::{DeviceMemory, Stream};
use pp_comm::{Boundary, Buffer, DType, DeviceAllocator};

/// What computes on values: a value is rotated by some elements, and its first element replaced by a stamp.
pub(super) trait Memory {
    /// A vector.
    type Value: Clone;

    /// A vector that begins so.
    fn value(&self, elements: Vec<i64>) -> Result<Self::Value>;
    /// Rotated to the left, with a stamp.
    fn rotated(&self, value: &Self::Value, by: usize, stamp: i64) -> Result<Self::Value>;
    /// What is sent of it.
    fn buffer(&self, value: Self::Value) -> Result<Buffer>;
    /// What was received.
    fn received(&self, buffer: Buffer) -> Result<Self::Value>;
    /// Its elements, at the end.
    fn elements(&self, value: &Self::Value) -> Result<Vec<i64>>;
}

/// What both do.
pub(super) fn rotated(elements: &[i64], by: usize, stamp: i64) -> Vec<i64> {
    let mut elements = elements.to_vec();
    let by = by % elements.len();
    elements.rotate_left(by);
    elements[0] = stamp;
    elements
}

/// On the host.
pub(super) struct OnHost;

impl Memory for OnHost {
    type Value = Vec<i64>;

    fn value(&self, elements: Vec<i64>) -> Result<Vec<i64>> {
        Ok(elements)
    }

    fn rotated(&self, value: &Vec<i64>, by: usize, stamp: i64) -> Result<Vec<i64>> {
        Ok(rotated(value, by, stamp))
    }

    fn buffer(&self, value: Vec<i64>) -> Result<Buffer> {
        Ok(Buffer::i64(&[value.len()], value)?)
    }

    fn received(&self, buffer: Buffer) -> Result<Vec<i64>> {
        Ok(buffer.into_i64()?)
    }

    fn elements(&self, value: &Vec<i64>) -> Result<Vec<i64>> {
        Ok(value.clone())
    }
}

/// On the device: copies are put on the compute stream, and nobody waits for them before the end.
#[derive(Clone)]
pub(super) struct OnDevice {
    stream: Arc<CudaStream>,
}

const WIDTH: usize = size_of::<i64>();
type Bytes = CudaSlice<u8>;

impl OnDevice {
    /// That computes on a stream of its own, and the stream as NCCL's layer has it.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn new(device: &nccl_rs::Device) -> Result<(Self, Stream)> {
        let stream = device.context().new_stream()?;
        let compute = Stream::of(Arc::clone(&stream))?;
        Ok((Self { stream }, compute))
    }

    /// Gives received messages memory of the same kind.
    pub(super) fn allocator(&self) -> Box<dyn DeviceAllocator> {
        Box::new(Allocator(Arc::clone(&self.stream)))
    }
}

struct Allocator(Arc<CudaStream>);

impl DeviceAllocator for Allocator {
    fn allocate(
        &mut self,
        boundary: &Boundary,
    ) -> Result<Arc<dyn DeviceMemory>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Arc::new(self.0.alloc_zeros::<u8>(boundary.n_bytes())?))
    }
}

/// As this module's vectors, which all of the run are.
fn bytes(memory: &Arc<dyn DeviceMemory>) -> Result<&Bytes> {
    let any: &dyn Any = &**memory;
    any.downcast_ref().context("a message is in memory of another allocator")
}

impl Memory for OnDevice {
    type Value = Arc<dyn DeviceMemory>;

    fn value(&self, elements: Vec<i64>) -> Result<Self::Value> {
        let raw: Vec<u8> = elements.into_iter().flat_map(i64::to_ne_bytes).collect();
        Ok(Arc::new(self.stream.clone_htod(&raw)?))
    }

    fn rotated(&self, value: &Self::Value, by: usize, stamp: i64) -> Result<Self::Value> {
        let from = bytes(value)?;
        let (by, len) = (WIDTH * by % from.len(), from.len());
        let mut made = self.stream.alloc_zeros::<u8>(len)?;
        self.stream.memcpy_dtod(&from.slice(by..), &mut made.slice_mut(..len - by))?;
        if by > 0 {
            self.stream.memcpy_dtod(&from.slice(..by), &mut made.slice_mut(len - by..))?;
        }
        self.stream.memcpy_htod(&stamp.to_ne_bytes()[..], &mut made.slice_mut(..WIDTH))?;
        Ok(Arc::new(made))
    }

    fn buffer(&self, value: Self::Value) -> Result<Buffer> {
        let boundary = Boundary::new(DType::I64, &[value.n_bytes() / WIDTH])?;
        Ok(Buffer::on_device(boundary, value)?)
    }

    fn received(&self, buffer: Buffer) -> Result<Self::Value> {
        Ok(buffer.into_device()?)
    }

    fn elements(&self, value: &Self::Value) -> Result<Vec<i64>> {
        let raw = self.stream.clone_dtoh(bytes(value)?)?;
        self.stream.synchronize()?;
        raw.chunks_exact(WIDTH).map(|word| Ok(i64::from_ne_bytes(word.try_into()?))).collect()
    }
}
