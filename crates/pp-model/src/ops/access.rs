//! From tensors to slices and back without copies, in safe code.
//!
//! Reading goes through candle's `storage_and_layout`, writing through storage that is [lent](lend). Holding a [`Read`] while
//! writing the same tensor would wait for itself forever; no caller does, since what an operation writes is fresh, or a
//! gradient, never an operand.

use std::marker::PhantomData;
use std::ops::{Deref, Range};

use candle_core::{CpuStorage, DType, Storage, Tensor, WithDType};
use half::bf16;
use pp_kernels::Real;

use super::lend::{Lent, lend};
use crate::error::{ModelError, Result};

/// A number in tensors on the CPU: `f32`, `f64` or `bf16`.
pub(crate) trait Stored: WithDType {
    /// The vector in a storage of this type.
    fn vec_mut(storage: &mut CpuStorage) -> Option<&mut Vec<Self>>;
}

/// A number that both kernels and tensors know: `f32` or `f64`.
pub(crate) trait Element: Real + Stored {}

impl Element for f32 {}

impl Element for f64 {}

impl Stored for f32 {
    fn vec_mut(storage: &mut CpuStorage) -> Option<&mut Vec<Self>> {
        match storage {
            CpuStorage::F32(values) => Some(values),
            _ => None,
        }
    }
}

impl Stored for f64 {
    fn vec_mut(storage: &mut CpuStorage) -> Option<&mut Vec<Self>> {
        match storage {
            CpuStorage::F64(values) => Some(values),
            _ => None,
        }
    }
}

impl Stored for bf16 {
    fn vec_mut(storage: &mut CpuStorage) -> Option<&mut Vec<Self>> {
        match storage {
            CpuStorage::BF16(values) => Some(values),
            _ => None,
        }
    }
}

/// A tensor's elements, row-major, borrowed.
pub(crate) struct Read<T, G> {
    guard: G,
    elements: Range<usize>,
    number: PhantomData<T>,
}

impl<T: Element, G: Deref<Target = Storage>> Deref for Read<T, G> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &*self.guard {
            Storage::Cpu(storage) => match T::cpu_storage_as_slice(storage) {
                Ok(slice) => &slice[self.elements.clone()],
                Err(_) => unreachable!("read() has checked the number type, and a borrowed tensor keeps it"),
            },
            _ => unreachable!("read() has checked the device, and a tensor keeps it"),
        }
    }
}

/// Borrows the elements of a contiguous CPU tensor.
pub(crate) fn read<'a, T: Element>(
    op: &'static str,
    tensor: &'a Tensor,
) -> Result<Read<T, impl Deref<Target = Storage> + use<'a, T>>> {
    let elements = elements_of(op, tensor)?;
    let (guard, _) = tensor.storage_and_layout();
    match &*guard {
        Storage::Cpu(storage) if storage_dtype(storage) == Some(T::DTYPE) => {}
        _ => return Err(ModelError::unsupported(op, tensor.device(), tensor.dtype())),
    }
    Ok(Read { guard, elements, number: PhantomData })
}

/// Lends the elements of a contiguous CPU tensor to `f`, to change in place.
///
/// Every handle of the tensor sees the change.
pub(crate) fn write<T: Element, R>(op: &'static str, tensor: &Tensor, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
    let elements = elements_of(op, tensor)?;
    with_vec(op, tensor, |values: &mut Vec<T>| f(&mut values[elements]))
}

/// Moves the elements out of a tensor; of a view into a larger one, copies them.
///
/// The tensor must be the only one over its storage: other handles would be left without elements.
pub(crate) fn take<T: Stored>(op: &'static str, tensor: Tensor) -> Result<Vec<T>> {
    let elements = elements_of(op, &tensor)?;
    with_vec(op, &tensor, |values: &mut Vec<T>| {
        if elements == (0..values.len()) { std::mem::take(values) } else { values[elements].to_vec() }
    })
}

/// Where a contiguous tensor's elements lie in its storage.
fn elements_of(op: &'static str, tensor: &Tensor) -> Result<Range<usize>> {
    match tensor.layout().contiguous_offsets() {
        Some((start, end)) => Ok(start..end),
        None => Err(ModelError::NotContiguous { op, shape: tensor.dims().to_vec(), strides: tensor.stride().to_vec() }),
    }
}

/// The number types that have an [`Element`].
fn storage_dtype(storage: &CpuStorage) -> Option<DType> {
    match storage {
        CpuStorage::F32(_) => Some(DType::F32),
        CpuStorage::F64(_) => Some(DType::F64),
        _ => None,
    }
}

/// Lends a tensor's storage to `f`.
fn with_vec<T: Stored, R>(op: &'static str, tensor: &Tensor, f: impl FnOnce(&mut Vec<T>) -> R) -> Result<R> {
    let result = lend(op, tensor, |storage, _| match storage {
        Lent::Cpu(storage) => T::vec_mut(storage).map(f),
        Lent::Cuda(_) => None,
    })?;
    result.ok_or_else(|| ModelError::unsupported(op, tensor.device(), tensor.dtype()))
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn writes_reach_every_handle_and_reads_see_views() -> Result<()> {
        let tensor = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0], (2, 2), &Device::Cpu)?;
        let handle = tensor.clone();
        write("test", &tensor, |values: &mut [f32]| values[3] = 9.0)?;
        let second_row = handle.narrow(0, 1, 1)?;
        assert_eq!(*read::<f32>("test", &second_row)?, [3.0, 9.0]);
        assert_eq!(take::<f32>("test", second_row)?, [3.0, 9.0]);
        assert_eq!(take::<f32>("test", tensor)?, [1.0, 2.0, 3.0, 9.0]);
        Ok(())
    }

    #[test]
    fn transposed_and_mistyped_tensors_are_refused() -> Result<()> {
        let tensor = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0], (2, 2), &Device::Cpu)?;
        let transposed = tensor.t()?;
        assert!(matches!(read::<f32>("test", &transposed).err(), Some(ModelError::NotContiguous { .. })));
        assert!(matches!(read::<f64>("test", &tensor).err(), Some(ModelError::Unsupported { .. })));
        assert!(matches!(write("test", &tensor, |_: &mut [f64]| ()), Err(ModelError::Unsupported { .. })));
        Ok(())
    }
}
