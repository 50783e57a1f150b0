//! Token plus position embedding: `wte` `[vocab, h]`, `wpe` `[>= seq, h]`, `y` `[batch, seq, h]`.

use candle_core::Tensor;

use super::place::replace;
use super::sums::sum_of_rows;
use crate::error::Result;
use crate::ops::ids::Tokens;

const OP: &str = "embedding";

/// `y` of `tokens` `[batch * seq]`.
pub(crate) fn embedding(tokens: &Tokens, seq: usize, wte: &Tensor, wpe: &Tensor) -> Result<Tensor> {
    let (h, batch) = (wpe.dim(1)?, tokens.len() / seq);
    let y = wte.index_select(tokens.tensor(OP)?, 0)?.reshape((batch, seq, h))?;
    Ok(y.broadcast_add(&wpe.narrow(0, 0, seq)?)?)
}

/// Accumulates the gradients of both tables, of the wide type, in place.
///
/// Rows of one token are added one after the other, so that the sum has the same bits each time; the library's operation runs over
/// the width in parallel and over the tokens in turn.
pub(crate) fn embedding_backward(tokens: &Tokens, dy: &Tensor, dwte: &Tensor, dwpe: &Tensor) -> Result<()> {
    let (batch, seq, h) = dy.dims3()?;
    let n = batch * seq;
    let dy = dy.to_dtype(dwte.dtype())?;
    let rows = tokens.tensor(OP)?.reshape((n, 1))?.broadcast_as((n, h))?.contiguous()?;
    dwte.scatter_add_set(&rows, &dy.reshape((n, h))?, 0)?;
    drop(rows);
    let used = dwpe.narrow(0, 0, seq)?;
    let sum = sum_of_rows(&dy.reshape((batch, seq * h))?)?.reshape((seq, h))?;
    replace(&used, used.add(&sum)?)
}
