//! What operations must know of memory on a GPU. No test without a GPU runs this.

use candle_core::CudaStorage;

/// Elements of a storage; none for number types that no operation here has.
#[cfg(feature = "cuda")]
pub(super) fn len(storage: &CudaStorage) -> Option<usize> {
    use candle_core::cuda_backend::CudaStorageSlice as Slice;
    match &storage.slice {
        Slice::F32(values) => Some(values.len()),
        Slice::F64(values) => Some(values.len()),
        Slice::BF16(values) => Some(values.len()),
        _ => None,
    }
}

/// Without the feature there is no such storage.
#[cfg(not(feature = "cuda"))]
pub(super) fn len(_: &CudaStorage) -> Option<usize> {
    None
}
