//! The same layers over candle's autograd, from operations that have a backward.

use std::collections::BTreeMap;

use candle_core::{D, Var};
use pp_model::{GptConfig, IGNORE, MicroBatch, Param, Tensor};

use crate::common::TestResult;

/// Parameters by name, as variables.
pub(crate) type Vars = BTreeMap<String, Var>;

/// The parameters' values, each name once.
pub(crate) fn vars<'a>(params: impl Iterator<Item = &'a Param>) -> TestResult<Vars> {
    params.map(|param| Ok((param.name().to_owned(), Var::from_tensor(param.value())?))).collect()
}

pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> TestResult<Tensor> {
    let mut dims = x.dims().to_vec();
    let width = dims.pop().expect("a last dimension");
    let y = x.reshape(((), width))?.matmul(&weight.t()?)?;
    let y = match bias {
        Some(bias) => y.broadcast_add(bias)?,
        None => y,
    };
    dims.push(weight.dim(0)?);
    Ok(y.reshape(dims)?)
}

pub(crate) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor) -> TestResult<Tensor> {
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
    let normal = centred.broadcast_div(&(variance + 1e-5)?.sqrt()?)?;
    Ok(normal.broadcast_mul(weight)?.broadcast_add(bias)?)
}

/// candle's own GELU rounds the constants of its backward to six digits.
pub(crate) fn gelu(x: &Tensor) -> TestResult<Tensor> {
    let inner = ((x + (x.powf(3.0)? * 0.044715)?)? * (2.0 / std::f64::consts::PI).sqrt())?;
    Ok((x * 0.5)?.mul(&(inner.tanh()? + 1.0)?)?)
}

pub(crate) fn attention(x: &Tensor, at: &dyn Fn(&str) -> Tensor, n_heads: usize) -> TestResult<Tensor> {
    let (batch, seq, hidden) = x.dims3()?;
    let qkv = linear(x, &at("c_attn.weight"), Some(&at("c_attn.bias")))?;
    let qkv = qkv.reshape((batch, seq, 3, n_heads, hidden / n_heads))?;
    let part = |which: usize| qkv.narrow(2, which, 1)?.squeeze(2)?.transpose(1, 2)?.contiguous();
    let (q, k, v) = (part(0)?, part(1)?, part(2)?);
    let scores = (q.matmul(&k.t()?)? / ((hidden / n_heads) as f64).sqrt())?;
    let mask: Vec<f64> = (0..seq * seq).map(|at| if at % seq > at / seq { -1e30 } else { 0.0 }).collect();
    let mask = Tensor::from_vec(mask, (seq, seq), x.device())?.to_dtype(x.dtype())?;
    let probs = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    let mixed = probs.matmul(&v)?.transpose(1, 2)?.contiguous()?.reshape((batch, seq, hidden))?;
    linear(&mixed, &at("c_proj.weight"), Some(&at("c_proj.bias")))
}

pub(crate) fn mlp(x: &Tensor, at: &dyn Fn(&str) -> Tensor) -> TestResult<Tensor> {
    let wide = linear(x, &at("c_fc.weight"), Some(&at("c_fc.bias")))?;
    linear(&gelu(&wide)?, &at("c_proj.weight"), Some(&at("c_proj.bias")))
}

pub(crate) fn block(x: &Tensor, at: &dyn Fn(&str) -> Tensor, n_heads: usize) -> TestResult<Tensor> {
    let normal = layer_norm(x, &at("ln_1.weight"), &at("ln_1.bias"))?;
    let x = (x + attention(&normal, &|name| at(&format!("attn.{name}")), n_heads)?)?;
    let normal = layer_norm(&x, &at("ln_2.weight"), &at("ln_2.bias"))?;
    Ok((&x + mlp(&normal, &|name| at(&format!("mlp.{name}")))?)?)
}

pub(crate) fn embedding(tokens: &[u32], seq: usize, wte: &Tensor, wpe: &Tensor) -> TestResult<Tensor> {
    let hidden = wpe.dim(1)?;
    let ids = Tensor::new(tokens, wte.device())?;
    let rows = wte.index_select(&ids, 0)?.reshape((tokens.len() / seq, seq, hidden))?;
    Ok(rows.broadcast_add(&wpe.narrow(0, 0, seq)?)?)
}

/// The sum of losses over labels that count.
pub(crate) fn head(x: &Tensor, at: &dyn Fn(&str) -> Tensor, weight: &str, labels: &[i64]) -> TestResult<Tensor> {
    let normal = layer_norm(x, &at("ln_f.weight"), &at("ln_f.bias"))?;
    let logits = linear(&normal, &at(weight), None)?;
    let logits = logits.reshape((labels.len(), ()))?;
    let log_probs = candle_nn::ops::log_softmax(&logits, D::Minus1)?;
    let targets: Vec<u32> = labels.iter().map(|&label| label.max(0) as u32).collect();
    let weights: Vec<f64> = labels.iter().map(|&label| if label == IGNORE { 0.0 } else { -1.0 }).collect();
    let targets = Tensor::from_vec(targets, (labels.len(), 1), x.device())?;
    let weights = Tensor::from_vec(weights, (labels.len(), 1), x.device())?.to_dtype(x.dtype())?;
    Ok(log_probs.gather(&targets, 1)?.mul(&weights)?.sum_all()?)
}

/// The model's loss on sequences of a length, summed.
pub(crate) fn gpt(config: &GptConfig, vars: &Vars, inputs: &MicroBatch, seq: usize) -> TestResult<Tensor> {
    let at = |name: &str| vars[name].as_tensor().clone();
    let mut x = embedding(&inputs.tokens, seq, &at("wte.weight"), &at("wpe.weight"))?;
    for layer in 0..config.n_layers() {
        x = block(&x, &|name| at(&format!("h.{layer}.{name}")), config.n_heads())?;
    }
    head(&x, &at, if config.tied() { "wte.weight" } else { "lm_head.weight" }, &inputs.labels)
}
