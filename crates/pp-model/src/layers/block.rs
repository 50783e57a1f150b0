//! One transformer block, norms before each half: `r = x + attention(ln_1(x))`, `y = r + mlp(ln_2(r))`.

use candle_core::Tensor;

use super::Layer;
use super::attention::{Attention, AttentionSaved, AttentionWork};
use super::layer_norm::{LayerNorm, LayerNormSaved, LayerNormWork};
use super::linear::Linear;
use super::mlp::{Mlp, MlpSaved, MlpWork};
use crate::catalog::N_BLOCK_PARAMS;
use crate::error::Result;
use crate::ops::{self, CausalMask};
use crate::param::Param;

/// A transformer block.
#[derive(Debug)]
pub struct Block {
    first: Half<Attention>,
    second: Half<Mlp>,
}

/// What a [`Block`] keeps.
#[derive(Debug)]
pub struct BlockSaved {
    first: HalfSaved<AttentionSaved>,
    second: HalfSaved<MlpSaved>,
}

/// What is left to do for the weights of a [`Block`].
#[derive(Debug)]
pub struct BlockWork {
    first: HalfWork<AttentionWork>,
    second: HalfWork<MlpWork>,
}

/// Half a block: `y = x + body(norm(x))`.
#[derive(Debug)]
struct Half<L> {
    norm: LayerNorm,
    body: L,
}

#[derive(Debug)]
struct HalfSaved<S> {
    norm: LayerNormSaved,
    body: S,
}

#[derive(Debug)]
struct HalfWork<W> {
    norm: LayerNormWork,
    body: W,
}

impl Block {
    /// From its parameters in canonical order. Blocks may share a mask.
    pub fn new(params: [Param; N_BLOCK_PARAMS], n_heads: usize, mask: CausalMask) -> Self {
        let [w1, b1, w_qkv, b_qkv, w_mix, b_mix, w2, b2, w_fc, b_fc, w_out, b_out] = params;
        let attention = Attention::new(Linear::new(w_qkv, Some(b_qkv)), Linear::new(w_mix, Some(b_mix)), n_heads, mask);
        let mlp = Mlp::new(Linear::new(w_fc, Some(b_fc)), Linear::new(w_out, Some(b_out)));
        Self {
            first: Half { norm: LayerNorm::new(w1, b1), body: attention },
            second: Half { norm: LayerNorm::new(w2, b2), body: mlp },
        }
    }
}

impl Layer for Block {
    type Saved = BlockSaved;
    type Work = BlockWork;

    fn forward(&self, x: Tensor) -> Result<(Tensor, BlockSaved)> {
        let (middle, first) = self.first.forward(x)?;
        let (y, second) = self.second.forward(middle)?;
        Ok((y, BlockSaved { first, second }))
    }

    fn backward_input(&self, saved: BlockSaved, dy: Tensor) -> Result<(Tensor, BlockWork)> {
        let (dmiddle, second) = self.second.backward_input(saved.second, dy)?;
        let (dx, first) = self.first.backward_input(saved.first, dmiddle)?;
        Ok((dx, BlockWork { first, second }))
    }

    fn backward_weight(&mut self, work: BlockWork) -> Result<()> {
        self.second.backward_weight(work.second)?;
        self.first.backward_weight(work.first)
    }

    fn params(&self) -> Vec<&Param> {
        [self.first.params(), self.second.params()].concat()
    }

    fn params_mut(&mut self) -> Vec<&mut Param> {
        let mut params = self.first.params_mut();
        params.extend(self.second.params_mut());
        params
    }
}

impl<L: Layer> Layer for Half<L> {
    type Saved = HalfSaved<L::Saved>;
    type Work = HalfWork<L::Work>;

    fn forward(&self, x: Tensor) -> Result<(Tensor, Self::Saved)> {
        let (normal, norm) = self.norm.forward(x.clone())?;
        let (y, body) = self.body.forward(normal)?;
        // The body's output is fresh and nobody else's, so the residual can be added into it.
        ops::add_assign(&y, &x)?;
        Ok((y, HalfSaved { norm, body }))
    }

    fn backward_input(&self, saved: Self::Saved, dy: Tensor) -> Result<(Tensor, Self::Work)> {
        let (dnormal, body) = self.body.backward_input(saved.body, dy.clone())?;
        let (dx, norm) = self.norm.backward_input(saved.norm, dnormal)?;
        ops::add_assign(&dx, &dy)?;
        Ok((dx, HalfWork { norm, body }))
    }

    fn backward_weight(&mut self, work: Self::Work) -> Result<()> {
        self.body.backward_weight(work.body)?;
        self.norm.backward_weight(work.norm)
    }

    fn params(&self) -> Vec<&Param> {
        [self.norm.params(), self.body.params()].concat()
    }

    fn params_mut(&mut self) -> Vec<&mut Param> {
        let mut params = self.norm.params_mut();
        params.extend(self.body.params_mut());
        params
    }
}
