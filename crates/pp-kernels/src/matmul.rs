//! Strided matrix views and their products: the one place that calls `gemm`.

use std::marker::PhantomData;

use gemm::Parallelism;

use crate::real::Real;

/// Whether a product may use the threads of the current rayon pool. The result is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threading {
    /// Stay on the calling thread: for products inside a parallel loop.
    Serial,
    /// Share large products among the threads of the current pool.
    Pool,
}

/// A strided, read-only view of a `rows` x `columns` matrix inside a slice.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    start: *const T,
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
    slice: PhantomData<&'a [T]>,
}

/// A strided, writable view of a `rows` x `columns` matrix.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    row_stride: usize,
    slice: PhantomData<&'a mut [T]>,
}

impl<'a, T: Real> MatRef<'a, T> {
    /// A view of `rows` rows that start `row_stride` elements apart, from the start of `data` on.
    ///
    /// # Panics
    /// When the last element lies outside `data`.
    pub fn new(data: &'a [T], rows: usize, columns: usize, row_stride: usize) -> Self {
        check_extent(data.len(), rows, columns, row_stride);
        let start = data.as_ptr();
        Self { start, rows, columns, row_stride, column_stride: 1, slice: PhantomData }
    }

    /// The same elements with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

impl<'a, T: Real> MatMut<'a, T> {
    /// A view of `rows` rows that start `row_stride` elements apart, from the start of `data` on.
    ///
    /// # Panics
    /// When the last element lies outside `data`, or rows overlap.
    pub fn new(data: &'a mut [T], rows: usize, columns: usize, row_stride: usize) -> Self {
        check_extent(data.len(), rows, columns, row_stride);
        let start = data.as_mut_ptr();
        Self { start, rows, columns, row_stride, slice: PhantomData }
    }
}

/// Panics unless a matrix of this shape fits into `len` elements without overlapping rows.
#[track_caller]
fn check_extent(len: usize, rows: usize, columns: usize, row_stride: usize) {
    let end = if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row_stride + columns };
    assert!(
        end <= len && (rows <= 1 || row_stride >= columns),
        "a {rows}x{columns} matrix with row stride {row_stride} does not fit into {len} elements"
    );
}

/// Hands out writable views of one slice to several tasks at once.
///
/// For outputs whose tasks own interleaved columns, which no splitting of slices can express.
pub(crate) struct SharedOutput<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a `&mut [T]` in pieces; `view` demands that the pieces used at one time are
// disjoint.
unsafe impl<T: Send> Send for SharedOutput<'_, T> {}
// SAFETY: as for `Send`: sharing it only allows calls of `view`, which demands disjoint pieces.
unsafe impl<T: Send> Sync for SharedOutput<'_, T> {}

impl<'a, T: Real> SharedOutput<'a, T> {
    pub(crate) fn new(data: &'a mut [T]) -> Self {
        Self { start: data.as_mut_ptr(), len: data.len(), slice: PhantomData }
    }

    /// A view that starts `offset` elements into the slice.
    ///
    /// # Panics
    /// When it reaches beyond the slice, or rows overlap.
    ///
    /// # Safety
    /// No other view alive at the same time may share an element with this one.
    pub(crate) unsafe fn view(&self, offset: usize, rows: usize, columns: usize, row_stride: usize) -> MatMut<'_, T> {
        assert!(offset <= self.len, "offset {offset} lies beyond {} elements", self.len);
        check_extent(self.len - offset, rows, columns, row_stride);
        // SAFETY: `offset` is within the slice or at its end, checked above.
        let start = unsafe { self.start.add(offset) };
        MatMut { start, rows, columns, row_stride, slice: PhantomData }
    }
}

/// `dst = scale * a b`, or `dst += scale * a b` where `accumulate`.
///
/// The result is the same for either [`Threading`] and any pool: `gemm` shares out tiles of the
/// result and sums each element in one order, with blocks that follow from the shape. (A caller who
/// cuts a product himself may get other kernels, and so other roundings, for the pieces.)
///
/// # Panics
/// When the shapes do not match.
pub fn matmul<T: Real>(
    dst: MatMut<'_, T>,
    accumulate: bool,
    scale: T,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    threading: Threading,
) {
    assert!(
        dst.rows == a.rows && dst.columns == b.columns && a.columns == b.rows,
        "product of {}x{} and {}x{} does not fit {}x{}",
        a.rows,
        a.columns,
        b.rows,
        b.columns,
        dst.rows,
        dst.columns
    );
    let parallelism = match threading {
        Threading::Serial => Parallelism::None,
        Threading::Pool => Parallelism::Rayon(0),
    };
    // SAFETY: the views lie within live slices (checked where they are made), `dst` is not aliased
    // (it holds a unique borrow, or the promise of `SharedOutput::view`), its rows do not overlap,
    // and the shapes match. Strides fit into `isize` because extents do. `gemm` accepts `f32` and
    // `f64`, all there is of `Real`.
    unsafe {
        gemm::gemm(
            dst.rows,
            dst.columns,
            a.columns,
            dst.start,
            1,
            dst.row_stride as isize,
            accumulate,
            a.start,
            a.column_stride as isize,
            a.row_stride as isize,
            b.start,
            b.column_stride as isize,
            b.row_stride as isize,
            T::ONE,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}
