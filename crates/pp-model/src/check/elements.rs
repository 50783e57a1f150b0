//! What goes by elements: GELU, sums and copies in place, the optimizer.

use pp_kernels::AdamW;

use super::compare::{Bench, Output};
use crate::error::Result;

pub(super) fn cases(bench: &mut Bench) -> Result<()> {
    for shape in [&[3][..], &[1, 7, 5], &[130, 96]] {
        elementwise(bench, shape)?;
        adamw(bench, shape)?;
    }
    Ok(())
}

fn elementwise(bench: &mut Bench, shape: &[usize]) -> Result<()> {
    bench.case(format!("{shape:?}"), |side| {
        let (x, dy) = (side.values(1, shape, 2.0)?, side.values(2, shape, 1.0)?);
        let (y, dx) = ((side.set.gelu)(&x)?, (side.set.gelu_backward)(&x, &dy)?);
        let (sum, copy, zero) = (side.values(3, shape, 1.0)?, side.values(4, shape, 1.0)?, side.values(5, shape, 1.0)?);
        let grad = side.wide(6, shape, 1.0)?;
        // Handles that must see what is done in place.
        let (sum_too, copy_too, zero_too) = (sum.clone(), copy.flatten_all()?, zero.clone());
        (side.set.add_assign)(&sum, &x)?;
        (side.set.assign)(&copy, &dy)?;
        (side.set.fill_zero)(&zero)?;
        let squares = (side.set.sum_of_squares)(&grad)?;
        Ok(vec![
            Output::new("gelu y", y, 1, 1),
            Output::new("gelu dx", dx, 1, 1),
            Output::new("add in place", sum_too, 1, 1),
            Output::new("assign", copy_too, 0, 1),
            Output::new("fill with zero", zero_too, 0, 1),
            Output::new("sum of squares", side.numbers(&[&squares])?, 0, grad.elem_count()),
        ])
    })
}

/// The first update, whose corrections are largest, and a late one, the value rounded from it.
fn adamw(bench: &mut Bench, shape: &[usize]) -> Result<()> {
    for step in [1, 1000] {
        let hyper = AdamW { lr: 0.02, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1, step, grad_scale: 0.25 };
        bench.case(format!("{shape:?}, step {step}"), |side| {
            let (master, grad) = (side.wide(1, shape, 1.0)?, side.wide(2, shape, 1.0)?);
            let (m, v) = (side.wide(3, shape, 0.1)?, side.wide(4, shape, 0.3)?.sqr()?);
            let value = side.values(5, shape, 1.0)?;
            let handles = [master.clone(), m.clone(), v.clone()];
            (side.set.adamw)(&master, &grad, &m, &v, hyper)?;
            (side.set.assign)(&value, &master)?;
            let [master, m, v] = handles;
            Ok(vec![
                Output::new("AdamW master", master, 0, 1),
                Output::new("AdamW m", m, 0, 1),
                Output::new("AdamW v", v, 0, 1),
                Output::new("AdamW value", value, 1, 1),
            ])
        })?;
    }
    Ok(())
}
