//! Results put where a tensor is.

use candle_core::{Layout, Tensor};

use crate::error::Result;
use crate::ops::lend::{Lent, lend};

const OP: &str = "replace";

/// `dst = fresh`, of one shape, number type and device: every handle of `dst` sees it.
///
/// The two tensors change memory, so that nothing is copied. A `dst` that is a view of part of its memory is copied into.
/// `fresh` must be contiguous and nobody else's: its other handles would have the old elements.
pub(super) fn replace(dst: &Tensor, fresh: Tensor) -> Result<()> {
    let exchanged = lend(OP, dst, |dst, dst_layout| {
        lend(OP, &fresh, |fresh, layout| fills(&dst, dst_layout) && fills(&fresh, layout) && exchange(dst, fresh))
    })??;
    if !exchanged {
        dst.flatten_all()?.slice_set(&fresh.flatten_all()?, 0, 0)?;
    }
    Ok(())
}

/// Whether a tensor is all of its storage, in order.
fn fills(storage: &Lent<'_>, layout: &Layout) -> bool {
    layout.contiguous_offsets().is_some_and(|(start, end)| start == 0 && Some(end) == storage.len())
}

fn exchange(a: Lent<'_>, b: Lent<'_>) -> bool {
    match (a, b) {
        (Lent::Cpu(a), Lent::Cpu(b)) => std::mem::swap(a, b),
        (Lent::Cuda(a), Lent::Cuda(b)) => std::mem::swap(a, b),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn row(values: &[f32]) -> Result<Tensor> {
        Ok(Tensor::new(values, &Device::Cpu)?)
    }

    #[test]
    fn every_handle_sees_the_new_elements() -> Result<()> {
        let dst = row(&[1.0, 2.0, 3.0, 4.0])?;
        let (handle, view) = (dst.clone(), dst.reshape((2, 2))?);
        replace(&dst, row(&[5.0, 6.0, 7.0, 8.0])?)?;
        assert_eq!(handle.to_vec1::<f32>()?, [5.0, 6.0, 7.0, 8.0]);
        assert_eq!(view.to_vec2::<f32>()?, [[5.0, 6.0], [7.0, 8.0]]);
        Ok(())
    }

    #[test]
    fn of_a_part_only_the_part_changes() -> Result<()> {
        let whole = row(&[1.0, 2.0, 3.0, 4.0])?;
        for (start, len, expected) in [(1, 2, [1.0, 8.0, 9.0, 4.0]), (0, 2, [8.0, 9.0, 9.0, 4.0])] {
            replace(&whole.narrow(0, start, len)?, row(&[8.0, 9.0])?)?;
            assert_eq!(whole.to_vec1::<f32>()?, expected);
        }
        // What is put in place may itself be a part.
        replace(&whole, row(&[0.0, 1.0, 2.0, 3.0, 4.0])?.narrow(0, 1, 4)?)?;
        assert_eq!(whole.to_vec1::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
        Ok(())
    }
}
