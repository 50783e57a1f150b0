//! Where work is cut for threads. Cuts follow from shapes alone, never from the number of threads.

/// Elements that one task of an element-wise or row-wise kernel handles: some microseconds of work.
pub(crate) const TASK: usize = 16 * 1024;

/// Columns that one task of a sum over rows handles, the width of its accumulators.
pub(crate) const COLUMNS: usize = 128;

/// Whether handing out tasks pays for `elements` of work in the current pool.
pub(crate) fn pays(elements: usize) -> bool {
    elements >= 2 * TASK && rayon::current_num_threads() > 1
}

/// Rows per task for rows of `width` elements.
pub(crate) fn rows_per_task(width: usize) -> usize {
    (TASK / width.max(1)).max(1)
}

/// Panics unless the slice called `name` has `expected` elements, described by `shape`.
#[track_caller]
pub(crate) fn check_len(name: &str, found: usize, expected: usize, shape: &str) {
    assert!(found == expected, "{name} has {found} elements, {shape} needs {expected}");
}
