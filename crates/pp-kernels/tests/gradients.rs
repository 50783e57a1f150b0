//! Every backward pass against finite differences, in `f64`.

mod common;

use common::{assert_gradient, dot, noise, zeros};
use pp_kernels::{AttentionShape, activation, attention, embedding, linear, loss, norm};

#[test]
fn linear_gradients() {
    let (n, i, o) = (3, 4, 5);
    let (x, w, b, dy) = (noise(n * i, 1), noise(o * i, 2), noise(o, 3), noise(n * o, 4));
    let value = |x: &[f64], w: &[f64], b: &[f64]| {
        let mut y = zeros(n * o);
        linear::forward(x, w, Some(b), &mut y, n, i, o);
        dot(&y, &dy)
    };
    let (mut dx, mut dw, mut db) = (zeros(n * i), zeros(o * i), zeros(o));
    linear::backward_input(&dy, &w, &mut dx, n, i, o);
    linear::backward_weight(&dy, &x, &mut dw, n, i, o);
    linear::backward_bias(&dy, &mut db, n, o);
    assert_gradient("dx", &x, &dx, |x| value(x, &w, &b));
    assert_gradient("dw", &w, &dw, |w| value(&x, w, &b));
    assert_gradient("db", &b, &db, |b| value(&x, &w, b));
}

#[test]
fn layer_norm_gradients() {
    let (n, h) = (3, 37);
    let (x, gamma, beta, dy) = (noise(n * h, 1), noise(h, 2), noise(h, 3), noise(n * h, 4));
    let forward = |x: &[f64], gamma: &[f64], beta: &[f64]| {
        let (mut y, mut mean, mut rstd) = (zeros(n * h), zeros(n), zeros(n));
        norm::layer_norm_forward(x, gamma, beta, 1e-5, &mut y, &mut mean, &mut rstd, n, h);
        (y, mean, rstd)
    };
    let value = |x: &[f64], gamma: &[f64], beta: &[f64]| dot(&forward(x, gamma, beta).0, &dy);
    let (_, mean, rstd) = forward(&x, &gamma, &beta);
    let (mut dx, mut dgamma, mut dbeta) = (zeros(n * h), zeros(h), zeros(h));
    norm::layer_norm_backward_input(&dy, &x, &gamma, &mean, &rstd, &mut dx, n, h);
    norm::layer_norm_backward_weight(&dy, &x, &mean, &rstd, &mut dgamma, &mut dbeta, n, h);
    assert_gradient("dx", &x, &dx, |x| value(x, &gamma, &beta));
    assert_gradient("dgamma", &gamma, &dgamma, |gamma| value(&x, gamma, &beta));
    assert_gradient("dbeta", &beta, &dbeta, |beta| value(&x, &gamma, beta));

    // Parameter gradients accumulate.
    let (once, once_beta) = (dgamma.clone(), dbeta.clone());
    norm::layer_norm_backward_weight(&dy, &x, &mean, &rstd, &mut dgamma, &mut dbeta, n, h);
    for j in 0..h {
        assert_eq!(dgamma[j], 2.0 * once[j]);
        assert_eq!(dbeta[j], 2.0 * once_beta[j]);
    }
}

#[test]
fn gelu_gradient() {
    let x: Vec<f64> = (-60..60).map(|i| f64::from(i) / 10.0).collect();
    let dy = noise(x.len(), 1);
    let mut dx = zeros(x.len());
    activation::gelu_tanh_backward(&x, &dy, &mut dx);
    assert_gradient("dx", &x, &dx, |x| {
        let mut y = zeros(x.len());
        activation::gelu_tanh_forward(x, &mut y);
        dot(&y, &dy)
    });
}

#[test]
fn attention_gradients() {
    // One block, a ragged last block, several heads and sequences.
    for (batch, seq, heads, head_dim) in [(2, 5, 2, 3), (1, 66, 1, 2), (1, 1, 2, 2)] {
        let shape = AttentionShape { batch, seq, heads, head_dim };
        let (qkv, dout) = (noise(shape.qkv_len(), 1), noise(shape.out_len(), 2));
        let forward = |qkv: &[f64]| {
            let (mut out, mut probs) = (zeros(shape.out_len()), zeros(shape.probs_len()));
            attention::causal_forward(qkv, &mut out, &mut probs, shape);
            (out, probs)
        };
        let (_, probs) = forward(&qkv);
        let mut dqkv = vec![f64::NAN; shape.qkv_len()];
        attention::causal_backward(&qkv, &probs, &dout, &mut dqkv, shape);
        assert_gradient(&format!("dqkv at {shape:?}"), &qkv, &dqkv, |qkv| dot(&forward(qkv).0, &dout));
    }
}

#[test]
fn cross_entropy_gradient() {
    let labels = [2, loss::IGNORE, 0, 10];
    let logits = noise(4 * 11, 1);
    let mut dlogits = vec![f64::NAN; logits.len()];
    loss::cross_entropy(&logits, &labels, Some(&mut dlogits));
    assert_gradient("dlogits", &logits, &dlogits, |x| loss::cross_entropy(x, &labels, None).sum);
}

#[test]
fn embedding_gradients() {
    let (seq, h, tokens) = (2, 3, [1, 1, 0, 2]);
    let (wte, wpe, dy) = (noise(4 * h, 1), noise(seq * h, 2), noise(tokens.len() * h, 3));
    let value = |wte: &[f64], wpe: &[f64]| {
        let mut y = zeros(tokens.len() * h);
        embedding::forward(&tokens, wte, wpe, &mut y, seq, h);
        dot(&y, &dy)
    };
    let (mut dwte, mut dwpe) = (zeros(4 * h), zeros(seq * h));
    embedding::backward(&tokens, &dy, &mut dwte, &mut dwpe, seq, h);
    assert_gradient("dwte", &wte, &dwte, |wte| value(wte, &wpe));
    assert_gradient("dwpe", &wpe, &dwpe, |wpe| value(&wte, wpe));
}
