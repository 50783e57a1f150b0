//! Token plus position embedding: `wte` `[vocab, h]`, `wpe` `[>= seq, h]`, `y` `[batch, seq, h]`.

use candle_core::Tensor;
use pp_kernels::embedding as kernel;

use super::access::{read, write};
use super::{blank, on_cpu, tensor};
use crate::error::Result;

const OP: &str = "embedding";

/// `y` of `tokens` `[batch * seq]`.
pub(crate) fn embedding(tokens: &[u32], seq: usize, wte: &Tensor, wpe: &Tensor) -> Result<Tensor> {
    on_cpu!(OP, wte, T => {
        let h = wpe.dim(1)?;
        let mut y = blank::<T>(tokens.len() * h);
        kernel::forward(tokens, &read::<T>(OP, wte)?, &read(OP, wpe)?, &mut y, seq, h);
        tensor(y, &[tokens.len() / seq, seq, h])
    })
}

/// Accumulates the gradients of both tables in place.
pub(crate) fn embedding_backward(tokens: &[u32], dy: &Tensor, dwte: &Tensor, dwpe: &Tensor) -> Result<()> {
    on_cpu!(OP, dy, T => {
        let (_, seq, h) = dy.dims3()?;
        let dy = read::<T>(OP, dy)?;
        write(OP, dwte, |dwte| write(OP, dwpe, |dwpe| kernel::backward(tokens, &dy, dwte, dwpe, seq, h)))?
    })
}
