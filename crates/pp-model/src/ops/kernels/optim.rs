//! The optimizer's update.

use candle_core::Tensor;
use pp_kernels::optim::{self, AdamW};

use super::on_cpu;
use crate::error::Result;
use crate::ops::access::{read, write};

const OP: &str = "AdamW";

/// Updates `value` and its moments `m` and `v` in place; all of one shape.
pub(crate) fn adamw(value: &Tensor, grad: &Tensor, m: &Tensor, v: &Tensor, hyper: AdamW) -> Result<()> {
    on_cpu!(OP, value, T => {
        let grad = read::<T>(OP, grad)?;
        write(OP, value, |value| {
            write(OP, m, |m| write(OP, v, |v| optim::adamw(value, &grad, m, v, hyper)))
        })??
    })
}
