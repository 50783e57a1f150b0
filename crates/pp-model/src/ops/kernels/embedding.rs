//! Token plus position embedding: `wte` `[vocab, h]`, `wpe` `[>= seq, h]`, `y` `[batch, seq, h]`.

use candle_core::Tensor;
use pp_kernels::embedding as kernel;

use super::{blank, on_cpu, tensor};
use crate::error::Result;
use crate::ops::access::{read, write};
use crate::ops::ids::Tokens;

const OP: &str = "embedding";

/// `y` of `tokens` `[batch * seq]`.
pub(crate) fn embedding(tokens: &Tokens, seq: usize, wte: &Tensor, wpe: &Tensor) -> Result<Tensor> {
    on_cpu!(OP, wte, T => {
        let (h, tokens) = (wpe.dim(1)?, tokens.on_host(OP)?);
        let mut y = blank::<T>(tokens.len() * h);
        kernel::forward(tokens, &read::<T>(OP, wte)?, &read(OP, wpe)?, &mut y, seq, h);
        tensor(y, &[tokens.len() / seq, seq, h])
    })
}

/// Accumulates the gradients of both tables in place.
pub(crate) fn embedding_backward(tokens: &Tokens, dy: &Tensor, dwte: &Tensor, dwpe: &Tensor) -> Result<()> {
    on_cpu!(OP, dy, T => {
        let ((_, seq, h), tokens) = (dy.dims3()?, tokens.on_host(OP)?);
        let dy = read::<T>(OP, dy)?;
        write(OP, dwte, |dwte| write(OP, dwpe, |dwpe| kernel::backward(tokens, &dy, dwte, dwpe, seq, h)))?
    })
}
