//! Every layer's gradients, of inputs and of weights, against central differences in `f64`.

use pp_model::catalog::{ParamSpec, WTE};
use pp_model::init::Init;
use pp_model::layers::{Attention, Block, CausalMask, Embedding, Head, Layer, LayerNorm, Linear, Mlp};
use pp_model::{DType, Device, Inputs, MicroBatch, Param, Tensor};

use crate::common::{TestResult, difference, elements, normal};

const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-7;

/// A parameter of seeded normals, so that biases and norms are not at their special first values.
pub(crate) fn param(name: &str, index: usize, shape: &[usize], dtype: DType) -> Param {
    let spec =
        ParamSpec { name: name.into(), index, shape: shape.into(), init: Init::Normal { std: 0.5 }, copy_of: None };
    Param::new(spec, 11, dtype, &Device::Cpu).expect("f32 and f64 are supported")
}

pub(crate) fn linear(first: usize, i: usize, o: usize, dtype: DType) -> Linear {
    Linear::new(param("weight", first, &[o, i], dtype), Some(param("bias", first + 1, &[o], dtype)))
}

pub(crate) fn norm(first: usize, h: usize, dtype: DType) -> LayerNorm {
    LayerNorm::new(param("weight", first, &[h], dtype), param("bias", first + 1, &[h], dtype))
}

pub(crate) fn block(h: usize, n_heads: usize, dtype: DType) -> Block {
    let shapes: [(&str, Vec<usize>); 12] = [
        ("ln_1.weight", vec![h]),
        ("ln_1.bias", vec![h]),
        ("attn.c_attn.weight", vec![3 * h, h]),
        ("attn.c_attn.bias", vec![3 * h]),
        ("attn.c_proj.weight", vec![h, h]),
        ("attn.c_proj.bias", vec![h]),
        ("ln_2.weight", vec![h]),
        ("ln_2.bias", vec![h]),
        ("mlp.c_fc.weight", vec![4 * h, h]),
        ("mlp.c_fc.bias", vec![4 * h]),
        ("mlp.c_proj.weight", vec![h, 4 * h]),
        ("mlp.c_proj.bias", vec![h]),
    ];
    let mut index = 0;
    let params = shapes.map(|(name, shape)| {
        index += 1;
        param(name, index, &shape, dtype)
    });
    Block::new(params, n_heads, CausalMask::default())
}

/// `value` with one element moved.
fn moved(value: &Tensor, at: usize, by: f64) -> TestResult<Tensor> {
    let mut values = elements(value)?;
    values[at] += by;
    Ok(Tensor::from_vec(values, value.dims(), &Device::Cpu)?)
}

/// Central differences of `f` around `value`, element by element.
fn slopes(value: &Tensor, mut f: impl FnMut(Tensor) -> TestResult<f64>) -> TestResult<Tensor> {
    let slope = |at| Ok((f(moved(value, at, STEP)?)? - f(moved(value, at, -STEP)?)?) / (2.0 * STEP));
    let slopes: Vec<f64> = (0..value.elem_count()).map(slope).collect::<TestResult<_>>()?;
    Ok(Tensor::from_vec(slopes, value.dims(), &Device::Cpu)?)
}

fn assert_close(what: &str, found: &Tensor, expected: &Tensor) -> TestResult {
    let difference = difference(found, expected)?;
    assert!(difference < TOLERANCE, "{what}: off by {difference:e} of the largest");
    Ok(())
}

/// Checks a layer at `x`, for the objective `sum(y * weights)` with random weights.
fn check<L: Layer>(mut layer: L, x: &Tensor) -> TestResult {
    let (y, saved) = layer.forward(x.clone())?;
    let dy = normal(3, y.dims(), 1.0, DType::F64)?;
    let objective =
        |layer: &L, x: Tensor| -> TestResult<f64> { Ok((layer.forward(x)?.0 * &dy)?.sum_all()?.to_scalar::<f64>()?) };
    let (dx, work) = layer.backward_input(saved, dy.copy()?)?;
    layer.backward_weight(work)?;

    assert_close("input", &dx, &slopes(x, |x| objective(&layer, x))?)?;
    for k in 0..layer.params().len() {
        let param = layer.params()[k];
        let (value, grad) = (param.value().copy()?, param.grad().copy()?);
        let expected = slopes(&value, |value| {
            layer.params_mut()[k].set_value(value)?;
            objective(&layer, x.clone())
        })?;
        let name = format!("{} [{k}]", layer.params()[k].name());
        layer.params_mut()[k].set_value(value)?;
        assert_close(&name, &grad, &expected)?;
    }
    Ok(())
}

fn x(shape: &[usize]) -> Tensor {
    normal(1, shape, 1.0, DType::F64).expect("f64 on the CPU")
}

#[test]
fn linear_layer() -> TestResult {
    check(linear(0, 6, 5, DType::F64), &x(&[2, 3, 6]))?;
    check(Linear::new(param("weight", 0, &[5, 6], DType::F64), None), &x(&[4, 6]))
}

#[test]
fn layer_norm() -> TestResult {
    check(norm(0, 6, DType::F64), &x(&[2, 3, 6]))
}

#[test]
fn attention() -> TestResult {
    let parts = || (linear(0, 4, 12, DType::F64), linear(2, 4, 4, DType::F64), CausalMask::default());
    let attention = |n_heads| {
        let (qkv, proj, mask) = parts();
        Attention::new(qkv, proj, n_heads, mask)
    };
    check(attention(1), &x(&[2, 5, 4]))?;
    check(attention(2), &x(&[2, 5, 4]))?;
    check(attention(2), &x(&[1, 1, 4]))
}

#[test]
fn mlp() -> TestResult {
    check(Mlp::new(linear(0, 3, 12, DType::F64), linear(2, 12, 3, DType::F64)), &x(&[2, 3, 3]))
}

#[test]
fn transformer_block() -> TestResult {
    check(block(4, 2, DType::F64), &x(&[2, 3, 4]))
}

fn inputs(tokens: Vec<u32>, labels: Vec<i64>) -> TestResult<Inputs> {
    Ok(Inputs::new(MicroBatch { tokens, labels }, DType::F64, &Device::Cpu)?)
}

#[test]
fn embedding() -> TestResult {
    let (inputs, seq) = (inputs(vec![1, 0, 4, 1, 1, 2], Vec::new())?, 3);
    let tables = || [param("wte.weight", WTE, &[5, 4], DType::F64), param("wpe.weight", 1, &[seq, 4], DType::F64)];
    let mut layer = Embedding::new(tables());
    let dy = normal(3, &[2, seq, 4], 1.0, DType::F64)?;
    layer.backward_weight(&inputs, dy.copy()?)?;
    for k in 0..2 {
        let expected = slopes(tables()[k].value(), |value| {
            let mut tables = tables();
            tables[k].set_value(value)?;
            Ok((Embedding::new(tables).forward(&inputs, seq)? * &dy)?.sum_all()?.to_scalar::<f64>()?)
        })?;
        assert_close(layer.params()[k].name(), layer.params()[k].grad(), &expected)?;
    }
    Ok(())
}

#[test]
fn head_and_loss() -> TestResult {
    let inputs = inputs(Vec::new(), vec![3_i64, pp_model::IGNORE, 0, 6, 2, 2])?;
    let params = || {
        let (weight, bias) = (param("ln_f.weight", 0, &[4], DType::F64), param("ln_f.bias", 1, &[4], DType::F64));
        [weight, bias, param("lm_head.weight", 2, &[7, 4], DType::F64)]
    };
    let x = x(&[2, 3, 4]);
    let mut layer = Head::new(params());
    let (loss, saved) = layer.forward(x.clone(), &inputs)?;
    let loss = loss.fetch()?;
    assert_eq!(loss.count, 5);
    assert_eq!(loss, layer.evaluate(x.clone(), &inputs)?.fetch()?);
    let (dx, work) = layer.backward_input(saved)?;
    layer.backward_weight(work)?;

    assert_close("input", &dx, &slopes(&x, |x| Ok(layer.evaluate(x, &inputs)?.fetch()?.sum))?)?;
    for k in 0..3 {
        let expected = slopes(params()[k].value(), |value| {
            let mut params = params();
            params[k].set_value(value)?;
            Ok(Head::new(params).evaluate(x.clone(), &inputs)?.fetch()?.sum)
        })?;
        assert_close(layer.params()[k].name(), layer.params()[k].grad(), &expected)?;
    }
    Ok(())
}
