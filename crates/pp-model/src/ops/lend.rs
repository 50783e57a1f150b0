//! A tensor's storage, lent to a closure: the one way in safe code to change memory that tensors share.

use std::cell::RefCell;

use candle_core::{CpuStorage, CudaStorage, InplaceOp1, Layout, Tensor};

use crate::error::{ModelError, Result};

/// A tensor's storage, to change.
pub(crate) enum Lent<'a> {
    /// On the CPU.
    Cpu(&'a mut CpuStorage),
    /// On a GPU.
    Cuda(&'a mut CudaStorage),
}

impl Lent<'_> {
    /// Elements of the storage; none for number types that no operation here has.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Self::Cpu(CpuStorage::F32(values)) => Some(values.len()),
            Self::Cpu(CpuStorage::F64(values)) => Some(values.len()),
            Self::Cpu(CpuStorage::BF16(values)) => Some(values.len()),
            Self::Cpu(_) => None,
            Self::Cuda(storage) => super::cuda::len(storage),
        }
    }
}

/// Lends a tensor's storage to `f`, with the tensor's place in it. Every handle of the tensor sees what `f` does.
///
/// `f` must not use another handle of the same tensor: it would wait for itself forever.
pub(crate) fn lend<R>(op: &'static str, tensor: &Tensor, f: impl FnOnce(Lent<'_>, &Layout) -> R) -> Result<R> {
    let mut result = None;
    let body = |storage: Lent<'_>, layout: &Layout| result = Some(f(storage, layout));
    tensor.inplace_op1(&Lend { name: op, body: RefCell::new(Some(body)) })?;
    result.ok_or_else(|| ModelError::unsupported(op, tensor.device(), tensor.dtype()))
}

/// A closure as candle's in-place operation.
struct Lend<F> {
    name: &'static str,
    /// Taken by the one call.
    body: RefCell<Option<F>>,
}

impl<F: FnOnce(Lent<'_>, &Layout)> InplaceOp1 for Lend<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        if let Some(body) = self.body.take() {
            body(Lent::Cpu(storage), layout);
        }
        Ok(())
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> candle_core::Result<()> {
        if let Some(body) = self.body.take() {
            body(Lent::Cuda(storage), layout);
        }
        Ok(())
    }
}
