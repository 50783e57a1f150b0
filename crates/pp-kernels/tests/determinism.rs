//! Results are bit-identical for every pool size, and element-wise ones for every cut of a slice.

mod common;

use common::{noise, zeros};
use pp_kernels::{AdamW, AttentionShape, activation, attention, embedding, linear, loss, norm, optim, reduce};
use rayon::{ThreadPool, ThreadPoolBuilder};

fn pools() -> Vec<ThreadPool> {
    let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    [1, 2, 3].map(pool).into()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Fails unless `run` returns the same bits in every pool.
#[track_caller]
fn assert_same_in(pools: &[ThreadPool], what: &str, run: impl Fn() -> Vec<f32> + Sync) {
    let mut first: Option<Vec<u32>> = None;
    for pool in pools {
        let found = bits(&pool.install(&run));
        let expected = first.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "{what} differs with {} threads", pool.current_num_threads());
    }
}

fn linear_is_same(pools: &[ThreadPool], n: usize, i: usize, o: usize) {
    let (x, w, b, dy) = (noise::<f32>(n * i, 1), noise(o * i, 2), noise(o, 3), noise(n * o, 4));
    let shape = format!("at n={n} i={i} o={o}");
    assert_same_in(pools, &format!("y {shape}"), || {
        let mut y = zeros(n * o);
        linear::forward(&x, &w, Some(&b), &mut y, n, i, o);
        y
    });
    assert_same_in(pools, &format!("dx {shape}"), || {
        let mut dx = zeros(n * i);
        linear::backward_input(&dy, &w, &mut dx, n, i, o);
        dx
    });
    assert_same_in(pools, &format!("dw {shape}"), || {
        let mut dw = b.repeat(i);
        linear::backward_weight(&dy, &x, &mut dw, n, i, o);
        dw
    });
    assert_same_in(pools, &format!("db {shape}"), || {
        let mut db = b.clone();
        linear::backward_bias(&dy, &mut db, n, o);
        db
    });
}

#[test]
fn linear_does_not_depend_on_threads() {
    let pools = pools();
    let sizes = [1, 2, 3, 5, 17, 64, 129];
    for n in sizes {
        for i in sizes {
            for o in sizes {
                linear_is_same(&pools, n, i, o);
            }
        }
    }
    // Large enough for gemm to share them out, also with a dimension of one and with depths beyond
    // a block.
    for (n, i, o) in [
        (1, 1024, 1024),
        (1024, 1, 1024),
        (1024, 1024, 1),
        (2, 1025, 515),
        (515, 2, 1025),
        (1025, 515, 2),
        (129, 257, 513),
        (512, 256, 768),
        (96, 2049, 96),
        (2049, 96, 95),
    ] {
        linear_is_same(&pools, n, i, o);
    }
}

#[test]
fn layer_norm_does_not_depend_on_threads() {
    let pools = pools();
    for (n, h) in [(7, 5), (300, 257), (3, 40_000), (2000, 33)] {
        let (x, dy) = (noise::<f32>(n * h, 1), noise::<f32>(n * h, 2));
        let (gamma, beta) = (noise::<f32>(h, 3), noise::<f32>(h, 4));
        assert_same_in(&pools, &format!("layer norm at n={n} h={h}"), || {
            let (mut y, mut mean, mut rstd) = (zeros(n * h), zeros(n), zeros(n));
            norm::layer_norm_forward(&x, &gamma, &beta, 1e-5, &mut y, &mut mean, &mut rstd, n, h);
            let (mut dx, mut dgamma, mut dbeta) = (zeros(n * h), beta.clone(), gamma.clone());
            norm::layer_norm_backward_input(&dy, &x, &gamma, &mean, &rstd, &mut dx, n, h);
            norm::layer_norm_backward_weight(&dy, &x, &mean, &rstd, &mut dgamma, &mut dbeta, n, h);
            [y, mean, rstd, dx, dgamma, dbeta].concat()
        });
    }
}

#[test]
fn attention_does_not_depend_on_threads() {
    let pools = pools();
    for (batch, seq, heads, head_dim) in [(2, 9, 3, 5), (3, 65, 3, 8), (2, 128, 4, 32)] {
        let shape = AttentionShape { batch, seq, heads, head_dim };
        let (qkv, dout) = (noise::<f32>(shape.qkv_len(), 1), noise::<f32>(shape.out_len(), 2));
        assert_same_in(&pools, &format!("attention at {shape:?}"), || {
            let (mut out, mut probs) = (zeros(shape.out_len()), zeros(shape.probs_len()));
            attention::causal_forward(&qkv, &mut out, &mut probs, shape);
            let mut dqkv = zeros(shape.qkv_len());
            attention::causal_backward(&qkv, &probs, &dout, &mut dqkv, shape);
            [out, probs, dqkv].concat()
        });
    }
}

#[test]
fn loss_and_embedding_do_not_depend_on_threads() {
    let pools = pools();
    for (n, v) in [(5, 3), (257, 1031), (8, 9000)] {
        let logits = noise::<f32>(n * v, 1);
        let labels: Vec<i64> = (0..n as i64).map(|r| r * 7 % v as i64).collect();
        assert_same_in(&pools, &format!("cross-entropy at n={n} v={v}"), || {
            let mut dlogits = logits.clone();
            let in_place = loss::cross_entropy_in_place(&mut dlogits, &labels);
            assert_eq!(in_place, loss::cross_entropy(&logits, &labels, None));
            let halves = [in_place.sum.to_bits() as u32, (in_place.sum.to_bits() >> 32) as u32];
            dlogits.extend(halves.map(f32::from_bits));
            dlogits
        });
    }
    let (seq, h, vocab) = (50, 129, 11);
    let tokens: Vec<u32> = (0..6 * seq as u32).map(|t| t * t % vocab).collect();
    let (wte, wpe) = (noise::<f32>(vocab as usize * h, 1), noise::<f32>(seq * h, 2));
    assert_same_in(&pools, "embedding", || {
        let mut y = zeros(tokens.len() * h);
        embedding::forward(&tokens, &wte, &wpe, &mut y, seq, h);
        let (mut dwte, mut dwpe) = (wte.clone(), wpe.clone());
        embedding::backward(&tokens, &y, &mut dwte, &mut dwpe, seq, h);
        [y, dwte, dwpe].concat()
    });
}

#[test]
fn elementwise_kernels_do_not_depend_on_threads() {
    let pools = pools();
    for len in [1, 100, 16_385, 100_003] {
        let (x, dy) = (noise::<f32>(len, 1), noise::<f32>(len, 2));
        assert_same_in(&pools, &format!("element-wise kernels at {len}"), || {
            let (mut y, mut dx) = (zeros(len), zeros(len));
            activation::gelu_tanh_forward(&x, &mut y);
            activation::gelu_tanh_backward(&x, &dy, &mut dx);
            let (mut p, mut m, mut v) = (x.clone(), zeros(len), zeros(len));
            optim::adamw(&mut p, &dy, &mut m, &mut v, HYPER);
            let mut sum = x.clone();
            reduce::add_assign(&mut sum, &dy);
            reduce::scale(&mut sum, 0.3);
            let norm = reduce::sum_squares(&x).to_bits();
            let norm = [norm as u32, (norm >> 32) as u32].map(f32::from_bits).to_vec();
            [y, dx, p, m, v, sum, norm].concat()
        });
    }
}

const HYPER: AdamW =
    AdamW { lr: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1, step: 3, grad_scale: 0.7 };

#[test]
fn a_cut_changes_no_element() {
    let len = 67;
    let (x, dy) = (noise::<f32>(len, 1), noise::<f32>(len, 2));
    let run = |x: &[f32], dy: &[f32]| {
        let (mut y, mut dx) = (zeros(x.len()), zeros(x.len()));
        activation::gelu_tanh_forward(x, &mut y);
        activation::gelu_tanh_backward(x, dy, &mut dx);
        let (mut p, mut m, mut v) = (x.to_vec(), zeros(x.len()), zeros(x.len()));
        optim::adamw(&mut p, dy, &mut m, &mut v, HYPER);
        [y, dx, p, m, v]
    };
    let whole = run(&x, &dy);
    for cut in 0..=len {
        let (left, right) = (run(&x[..cut], &dy[..cut]), run(&x[cut..], &dy[cut..]));
        for ((whole, left), right) in whole.iter().zip(&left).zip(&right) {
            assert_eq!(bits(whole), bits(&[&left[..], right].concat()), "cut at {cut}");
        }
    }
}

#[test]
fn rows_do_not_depend_on_their_neighbours() {
    let (n, h) = (5, 77);
    let (x, gamma) = (noise::<f32>(n * h, 1), noise::<f32>(h, 2));
    let run = |x: &[f32]| {
        let n = x.len() / h;
        let (mut y, mut mean, mut rstd) = (zeros(n * h), zeros(n), zeros(n));
        norm::layer_norm_forward(x, &gamma, &gamma, 1e-5, &mut y, &mut mean, &mut rstd, n, h);
        let mut dx = zeros(n * h);
        norm::layer_norm_backward_input(&y, x, &gamma, &mean, &rstd, &mut dx, n, h);
        let mut dlogits = x.to_vec();
        loss::cross_entropy_in_place(&mut dlogits, &vec![3; n]);
        [y, dx, dlogits]
    };
    let whole = run(&x);
    for r in 0..n {
        let rows = r * h..(r + 1) * h;
        for (whole, alone) in whole.iter().zip(run(&x[rows.clone()])) {
            assert_eq!(bits(&whole[rows.clone()]), bits(&alone), "row {r}");
        }
    }
}
