//! The optimizer's update, as `pp_kernels::optim` has it.

use candle_core::Tensor;
use pp_kernels::AdamW;

use super::place::replace;
use crate::error::Result;

/// Updates `value` and its moments `m` and `v` in place; all of one shape and of the wide type.
///
/// Each factor is computed in `f64` and rounded once. For a moment there are three tensors more, one at a time.
pub(crate) fn adamw(value: &Tensor, grad: &Tensor, m: &Tensor, v: &Tensor, hyper: AdamW) -> Result<()> {
    let AdamW { lr, beta1, beta2, eps, weight_decay, step, grad_scale } = hyper;
    assert!(step > 0, "AdamW steps count from 1, not 0");
    let correction = |beta: f64| 1.0 - beta.powf(step as f64);
    let (step_size, root) = (lr / correction(beta1), 1.0 / correction(beta2).sqrt());
    let grad = grad.affine(grad_scale, 0.0)?;
    replace(m, m.affine(beta1, 0.0)?.add(&grad.affine(1.0 - beta1, 0.0)?)?)?;
    replace(v, v.affine(beta2, 0.0)?.add(&grad.sqr()?.affine(1.0 - beta2, 0.0)?)?)?;
    drop(grad);
    let change = m.div(&v.sqrt()?.affine(root, eps)?)?.affine(-step_size, 0.0)?;
    replace(value, value.affine(1.0 - lr * weight_decay, 0.0)?.add(&change)?)
}
