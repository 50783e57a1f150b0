//! AdamW (Loshchilov and Hutter 2019, algorithm 2): Adam with decoupled weight decay and bias
//! correction.
//!
//! With `g = grad_scale * grad`, `m = β₁ m + (1 - β₁) g` and `v = β₂ v + (1 - β₂) g²`:
//! `param -= lr * weight_decay * param`, then `param -= lr * m̂ / (sqrt(v̂) + eps)` with
//! `m̂ = m / (1 - β₁ᵗ)`, `v̂ = v / (1 - β₂ᵗ)`.

use rayon::prelude::*;

use crate::par::{self, TASK, check_len};
use crate::real::Real;
use crate::simd::vectorized;

/// The numbers of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decay of the parameter per unit of learning rate; 0 for parameters without decay.
    pub weight_decay: f64,
    /// This update's number, from 1.
    pub step: u64,
    /// Factor on the gradient before anything else: division by the token count, clipping.
    pub grad_scale: f64,
}

/// The factors of an update that are the same for every element.
#[derive(Clone, Copy)]
struct Factors<T> {
    grad_scale: T,
    beta1: T,
    rest1: T,
    beta2: T,
    rest2: T,
    keep: T,
    step_size: T,
    root: T,
    eps: T,
}

impl<T: Real> Factors<T> {
    /// Computed in `f64`, rounded once.
    fn new(hyper: AdamW) -> Self {
        let correction = |beta: f64| 1.0 - beta.powf(hyper.step as f64);
        Self {
            grad_scale: T::from_f64(hyper.grad_scale),
            beta1: T::from_f64(hyper.beta1),
            rest1: T::from_f64(1.0 - hyper.beta1),
            beta2: T::from_f64(hyper.beta2),
            rest2: T::from_f64(1.0 - hyper.beta2),
            keep: T::from_f64(1.0 - hyper.lr * hyper.weight_decay),
            step_size: T::from_f64(hyper.lr / correction(hyper.beta1)),
            root: T::from_f64(1.0 / correction(hyper.beta2).sqrt()),
            eps: T::from_f64(hyper.eps),
        }
    }
}

/// Updates `param` and its moments `m` and `v` by one step; all of one length.
///
/// # Panics
/// When the lengths differ, or `hyper.step` is 0.
pub fn adamw<T: Real>(param: &mut [T], grad: &[T], m: &mut [T], v: &mut [T], hyper: AdamW) {
    let len = param.len();
    check_len("grad", grad.len(), len, "the shape of param");
    check_len("m", m.len(), len, "the shape of param");
    check_len("v", v.len(), len, "the shape of param");
    assert!(hyper.step > 0, "AdamW steps count from 1, not 0");
    let factors = Factors::new(hyper);
    if par::pays(len) {
        param
            .par_chunks_mut(TASK)
            .zip(grad.par_chunks(TASK))
            .zip(m.par_chunks_mut(TASK).zip(v.par_chunks_mut(TASK)))
            .for_each(|((param, grad), (m, v))| update(param, grad, m, v, factors));
    } else {
        update(param, grad, m, v, factors);
    }
}

vectorized! {
    fn update<'a, T: Real>[_](
        param: &'a mut [T], grad: &'a [T], m: &'a mut [T], v: &'a mut [T], by: Factors<T>,
    ) {
        for (((param, &grad), m), v) in param.iter_mut().zip(grad).zip(m).zip(v) {
            let g = grad * by.grad_scale;
            *m = by.beta1 * *m + by.rest1 * g;
            *v = by.beta2 * *v + by.rest2 * (g * g);
            *param = *param * by.keep - by.step_size * (*m / ((*v).sqrt() * by.root + by.eps));
        }
    }
}
