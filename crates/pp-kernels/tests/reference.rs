//! Every kernel in `f32` and `f64` against a naive computation in `f64`, at odd sizes.

mod common;

use common::{assert_close, noise, widened, zeros};
use pp_kernels::{
    AdamW, AttentionShape, LossSum, Real, activation, attention, embedding, linear, loss, norm, optim, reduce,
};

const SIZES: [usize; 7] = [1, 2, 3, 5, 17, 33, 70];

/// Runs a check in both precisions, with the tolerance that each deserves.
macro_rules! in_both {
    ($check:ident) => {
        $check::<f32>(2e-5);
        $check::<f64>(1e-12);
    };
}

#[test]
fn linear_matches_the_sums() {
    fn check<T: Real>(tolerance: f64) {
        for n in SIZES {
            for i in SIZES {
                for o in SIZES {
                    one_linear::<T>(n, i, o, tolerance);
                }
            }
        }
    }
    in_both!(check);
}

fn one_linear<T: Real>(n: usize, i: usize, o: usize, tolerance: f64) {
    let (x, w, b, dy) = (noise::<T>(n * i, 1), noise(o * i, 2), noise(o, 3), noise(n * o, 4));
    let (x64, w64, b64, dy64) = (widened(&x), widened(&w), widened(&b), widened(&dy));
    let name = |what: &str| format!("{what} at n={n} i={i} o={o}");

    let product = |r: usize, c: usize| (0..i).map(|j| x64[r * i + j] * w64[c * i + j]).sum::<f64>();
    let plain: Vec<f64> = (0..n * o).map(|e| product(e / o, e % o)).collect();
    let biased: Vec<f64> = plain.iter().enumerate().map(|(e, y)| y + b64[e % o]).collect();
    let mut y = vec![T::from_f64(f64::NAN); n * o];
    linear::forward(&x, &w, None, &mut y, n, i, o);
    assert_close(&name("y without bias"), &y, &plain, tolerance);
    y.fill(T::from_f64(f64::NAN));
    linear::forward(&x, &w, Some(&b), &mut y, n, i, o);
    assert_close(&name("y"), &y, &biased, tolerance);

    let product = |r: usize, j: usize| (0..o).map(|c| dy64[r * o + c] * w64[c * i + j]).sum();
    let expected: Vec<f64> = (0..n * i).map(|e| product(e / i, e % i)).collect();
    let mut dx = vec![T::from_f64(f64::NAN); n * i];
    linear::backward_input(&dy, &w, &mut dx, n, i, o);
    assert_close(&name("dx"), &dx, &expected, tolerance);

    let product = |c: usize, j: usize| (0..n).map(|r| dy64[r * o + c] * x64[r * i + j]).sum::<f64>();
    let expected: Vec<f64> = (0..o * i).map(|e| 0.5 + product(e / i, e % i)).collect();
    let mut dw = vec![T::from_f64(0.5); o * i];
    linear::backward_weight(&dy, &x, &mut dw, n, i, o);
    assert_close(&name("dw"), &dw, &expected, tolerance);

    let expected: Vec<f64> = (0..o).map(|c| 0.5 + (0..n).map(|r| dy64[r * o + c]).sum::<f64>()).collect();
    let mut db = vec![T::from_f64(0.5); o];
    linear::backward_bias(&dy, &mut db, n, o);
    assert_close(&name("db"), &db, &expected, tolerance);
}

#[test]
fn layer_norm_matches_the_formula() {
    fn check<T: Real>(tolerance: f64) {
        for (n, h) in [(1, 1), (3, 5), (5, 31), (2, 32), (4, 33), (7, 256), (3, 1000)] {
            let (x, gamma, beta) = (noise::<T>(n * h, 1), noise::<T>(h, 2), noise::<T>(h, 3));
            // A large offset: a one-pass variance would lose everything.
            let x: Vec<T> = x.iter().map(|&x| x + T::from_f64(100.0)).collect();
            let (mut y, mut mean, mut rstd) = (zeros(n * h), zeros(n), zeros(n));
            let eps = T::from_f64(1e-5);
            norm::layer_norm_forward(&x, &gamma, &beta, eps, &mut y, &mut mean, &mut rstd, n, h);
            let (x64, gamma, beta) = (widened(&x), widened(&gamma), widened(&beta));
            let mut expected = Vec::new();
            for row in x64.chunks(h) {
                let mean = row.iter().sum::<f64>() / h as f64;
                let var = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / h as f64;
                let rstd = 1.0 / (var + eps.to_f64()).sqrt();
                expected.extend((0..h).map(|j| (row[j] - mean) * rstd * gamma[j] + beta[j]));
            }
            assert_close(&format!("y at n={n} h={h}"), &y, &expected, 10.0 * tolerance);
        }
    }
    in_both!(check);
}

#[test]
fn gelu_matches_the_formula() {
    fn check<T: Real>(tolerance: f64) {
        let mut x: Vec<T> = (-1200..1200).map(|i| T::from_f64(f64::from(i) / 100.0)).collect();
        x.extend([-1e30, -1e10, -70.0, 70.0, 1e10, 1e30].map(T::from_f64));
        let (mut y, mut dx) = (zeros(x.len()), zeros(x.len()));
        activation::gelu_tanh_forward(&x, &mut y);
        let ones = vec![T::ONE; x.len()];
        activation::gelu_tanh_backward(&x, &ones, &mut dx);

        let c = (2.0 / std::f64::consts::PI).sqrt();
        let tanh = |x: f64| (c * (x + 0.044715 * x * x * x)).tanh();
        let slope = |x: f64| {
            let (t, inner) = (tanh(x), c * (1.0 + 3.0 * 0.044715 * x * x));
            if x.abs() > 60.0 { f64::from(x > 0.0) } else { 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner }
        };
        let x = widened(&x);
        let expected: Vec<f64> = x.iter().map(|&x| 0.5 * x * (1.0 + tanh(x))).collect();
        assert_close("y", &y, &expected, tolerance / 10.0);
        let expected: Vec<f64> = x.iter().map(|&x| slope(x)).collect();
        assert_close("dx", &dx, &expected, tolerance / 10.0);

        let mut nan = [T::ZERO];
        activation::gelu_tanh_forward(&[T::from_f64(f64::NAN)], &mut nan);
        assert!(nan[0].to_f64().is_nan());
        activation::gelu_tanh_backward(&[T::from_f64(f64::NAN)], &[T::ONE], &mut nan);
        assert!(nan[0].to_f64().is_nan());
    }
    in_both!(check);
}

#[test]
fn attention_matches_the_formula() {
    fn check<T: Real>(tolerance: f64) {
        for (batch, seq, heads, head_dim) in
            [(1, 1, 1, 1), (2, 3, 2, 5), (1, 17, 3, 4), (2, 63, 1, 8), (1, 64, 2, 16), (1, 65, 2, 7), (2, 130, 2, 32)]
        {
            one_attention::<T>(AttentionShape { batch, seq, heads, head_dim }, tolerance);
        }
    }
    in_both!(check);
}

fn one_attention<T: Real>(shape: AttentionShape, tolerance: f64) {
    let AttentionShape { batch, seq, heads, head_dim } = shape;
    // Large enough for the softmax to be far from flat.
    let qkv: Vec<T> = noise::<T>(shape.qkv_len(), 1).iter().map(|&x| x * T::from_f64(3.0)).collect();
    let nan = T::from_f64(f64::NAN);
    let (mut out, mut probs) = (vec![nan; shape.out_len()], vec![nan; shape.probs_len()]);
    attention::causal_forward(&qkv, &mut out, &mut probs, shape);

    let qkv = widened(&qkv);
    let at = |b, s, which, h, d| qkv[(((b * seq + s) * 3 + which) * heads + h) * head_dim + d];
    let mut expected_out = vec![0.0; shape.out_len()];
    let mut expected_probs = vec![0.0; shape.probs_len()];
    for b in 0..batch {
        for h in 0..heads {
            for q in 0..seq {
                let score = |k| (0..head_dim).map(|d| at(b, q, 0, h, d) * at(b, k, 1, h, d)).sum::<f64>();
                let scores: Vec<f64> = (0..=q).map(|k| score(k) / (head_dim as f64).sqrt()).collect();
                let sum: f64 = scores.iter().map(|s| s.exp()).sum();
                for (k, s) in scores.iter().enumerate() {
                    let p = s.exp() / sum;
                    expected_probs[((b * heads + h) * seq + q) * seq + k] = p;
                    for d in 0..head_dim {
                        let o = ((b * seq + q) * heads + h) * head_dim + d;
                        expected_out[o] += p * at(b, k, 2, h, d);
                    }
                }
            }
        }
    }
    assert_close(&format!("probs at {shape:?}"), &probs, &expected_probs, tolerance);
    assert_close(&format!("out at {shape:?}"), &out, &expected_out, tolerance);
    for (i, p) in probs.iter().enumerate() {
        let (q, k) = (i / seq % seq, i % seq);
        assert!(k <= q || p.to_f64() == 0.0, "probability {p} of a later position");
    }
}

/// The loss and its gradient, naively.
fn naive_cross_entropy(logits: &[f64], labels: &[i64]) -> (LossSum, Vec<f64>) {
    let v = logits.len() / labels.len();
    let mut total = LossSum::default();
    let mut gradient = vec![0.0; logits.len()];
    for ((row, &label), gradient) in logits.chunks(v).zip(labels).zip(gradient.chunks_mut(v)) {
        if label == loss::IGNORE {
            continue;
        }
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
        total.sum += sum.ln() + top - row[label as usize];
        total.count += 1;
        for (g, x) in gradient.iter_mut().zip(row) {
            *g = (x - top).exp() / sum;
        }
        gradient[label as usize] -= 1.0;
    }
    (total, gradient)
}

#[test]
fn cross_entropy_matches_the_formula() {
    fn check<T: Real>(tolerance: f64) {
        for (n, v, size) in [(1, 1, 1.0), (3, 7, 1.0), (5, 33, 30.0), (4, 1000, 5.0), (3, 5000, 1e4), (2, 64, 1e30)] {
            let logits: Vec<T> = noise::<T>(n * v, 1).iter().map(|&x| x * T::from_f64(size)).collect();
            let labels: Vec<i64> =
                (0..n as i64).map(|r| if r % 3 == 1 { loss::IGNORE } else { r * 31 % v as i64 }).collect();
            let (expected, gradient) = naive_cross_entropy(&widened(&logits), &labels);
            let mut dlogits = vec![T::from_f64(f64::NAN); n * v];
            let found = loss::cross_entropy(&logits, &labels, Some(&mut dlogits));
            assert_eq!(found.count, expected.count);
            assert_close("loss", &[found.sum], &[expected.sum], tolerance);
            assert_close("dlogits", &dlogits, &gradient, tolerance);

            assert_eq!(loss::cross_entropy(&logits, &labels, None), found);
            let mut logits = logits;
            assert_eq!(loss::cross_entropy_in_place(&mut logits, &labels), found);
            assert_eq!(widened(&logits), widened(&dlogits));
        }
    }
    in_both!(check);
}

#[test]
fn ignored_rows_count_for_nothing() {
    let labels = [loss::IGNORE; 2];
    let mut logits = [f32::NAN, f32::INFINITY, 1.0, 2.0];
    assert_eq!(loss::cross_entropy(&logits, &labels, None), LossSum { sum: 0.0, count: 0 });
    loss::cross_entropy_in_place(&mut logits, &labels);
    assert_eq!(logits, [0.0; 4]);
    assert_eq!(loss::cross_entropy::<f32>(&[], &[], None), LossSum::default());
}

#[test]
#[should_panic(expected = "label 4 of row 1 is neither -100 (ignored) nor in 0..4")]
fn labels_beyond_the_vocabulary_are_refused() {
    loss::cross_entropy(&[0.0_f32; 8], &[0, 4], None);
}

#[test]
#[should_panic(expected = "token 3 at position 1 is beyond the vocabulary of 3")]
fn tokens_beyond_the_vocabulary_are_refused() {
    embedding::forward(&[0, 3], &[0.0_f32; 6], &[0.0; 4], &mut [0.0; 4], 2, 2);
}

#[test]
#[should_panic(expected = "w has 5 elements, [o, i] needs 6")]
fn wrong_lengths_are_named() {
    linear::forward(&[0.0_f32; 2], &[0.0; 5], None, &mut [0.0; 3], 1, 2, 3);
}

#[test]
fn embedding_adds_token_and_position() {
    fn check<T: Real>(tolerance: f64) {
        let (seq, h, vocab) = (3, 5, 4);
        let tokens = [3, 0, 3, 3, 1, 0];
        let (wte, wpe) = (noise::<T>(vocab * h, 1), noise::<T>((seq + 1) * h, 2));
        let mut y = zeros(tokens.len() * h);
        embedding::forward(&tokens, &wte, &wpe, &mut y, seq, h);
        let (wte, wpe) = (widened(&wte), widened(&wpe));
        let value = |e: usize| {
            let (t, j) = (e / h, e % h);
            wte[tokens[t] as usize * h + j] + wpe[t % seq * h + j]
        };
        let expected: Vec<f64> = (0..y.len()).map(value).collect();
        assert_close("y", &y, &expected, tolerance);

        let dy = noise::<T>(y.len(), 3);
        let (mut dwte, mut dwpe) = (vec![T::ONE; vocab * h], vec![T::ONE; (seq + 1) * h]);
        embedding::backward(&tokens, &dy, &mut dwte, &mut dwpe, seq, h);
        let (mut expected_wte, mut expected_wpe) = (vec![1.0; vocab * h], vec![1.0; (seq + 1) * h]);
        for (e, dy) in widened(&dy).iter().enumerate() {
            let (t, j) = (e / h, e % h);
            expected_wte[tokens[t] as usize * h + j] += dy;
            expected_wpe[t % seq * h + j] += dy;
        }
        assert_close("dwte", &dwte, &expected_wte, tolerance);
        assert_close("dwpe", &dwpe, &expected_wpe, tolerance);
    }
    in_both!(check);
}

#[test]
fn reductions_match() {
    fn check<T: Real>(tolerance: f64) {
        for len in [0, 1, 31, 32, 33, 511, 513, 16_384, 50_001] {
            let (mut a, b) = (noise::<T>(len, 1), noise::<T>(len, 2));
            let expected: f64 = widened(&a).iter().map(|a| a * a).sum();
            let found = reduce::sum_squares(&a);
            assert_close("sum of squares", &[found], &[expected], 1e-12);
            let expected: Vec<f64> = a.iter().zip(&b).map(|(a, b)| 0.5 * (a.to_f64() + b.to_f64())).collect();
            reduce::add_assign(&mut a, &b);
            reduce::scale(&mut a, T::from_f64(0.5));
            assert_close("scaled sum", &a, &expected, tolerance);
        }
    }
    in_both!(check);
    assert_eq!(reduce::sum_squares(&[1e30_f32, 1e30]), 2.0 * f64::from(1e30_f32).powi(2));
}

#[test]
fn adamw_matches_the_algorithm() {
    fn check<T: Real>(tolerance: f64) {
        let len = 37;
        let start = noise::<T>(len, 1);
        for weight_decay in [0.0, 0.1] {
            let mut param = start.clone();
            let (mut m, mut v) = (zeros(len), zeros(len));
            let (mut p64, mut m64, mut v64) = (widened(&start), vec![0.0; len], vec![0.0; len]);
            for step in 1..=5 {
                let grad = noise::<T>(len, 100 + step);
                let (lr, beta1, beta2, eps, grad_scale) = (0.01, 0.9, 0.95, 1e-8, 0.25);
                let hyper = AdamW { lr, beta1, beta2, eps, weight_decay, step, grad_scale };
                optim::adamw(&mut param, &grad, &mut m, &mut v, hyper);
                for (i, grad) in widened(&grad).iter().enumerate() {
                    let g = grad_scale * grad;
                    m64[i] = beta1 * m64[i] + (1.0 - beta1) * g;
                    v64[i] = beta2 * v64[i] + (1.0 - beta2) * g * g;
                    let m_hat = m64[i] / (1.0 - beta1.powi(step as i32));
                    let v_hat = v64[i] / (1.0 - beta2.powi(step as i32));
                    p64[i] -= lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * p64[i]);
                }
                assert_close("param", &param, &p64, tolerance);
                assert_close("m", &m, &m64, tolerance);
                assert_close("v", &v, &v64, tolerance);
            }
        }
    }
    in_both!(check);
}
