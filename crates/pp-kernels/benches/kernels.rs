//! Times every kernel at the shape of a small GPT and adds them up to one microbatch.
//!
//! `cargo bench -p pp-kernels` for one thread, `cargo bench -p pp-kernels -- 2` for two.

use std::hint::black_box;
use std::time::Instant;

use pp_kernels::{AdamW, AttentionShape, activation, attention, embedding, linear, loss, norm, optim, reduce};

const BATCH: usize = 4;
const SEQ: usize = 128;
const HIDDEN: usize = 256;
const HEADS: usize = 8;
const LAYERS: usize = 8;
const VOCAB: usize = 8192;
const N: usize = BATCH * SEQ;
const ROUNDS: usize = 30;

/// Times kernels and keeps the cost of one microbatch.
struct Table {
    microbatch_ms: f64,
}

impl Table {
    /// Runs `kernel` often, prints its times, and counts `times` medians towards the microbatch.
    fn row(&mut self, name: &str, times: usize, mut kernel: impl FnMut()) {
        kernel();
        let mut taken: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                kernel();
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        taken.sort_by(f64::total_cmp);
        let (min, median) = (taken[0], taken[ROUNDS / 2]);
        let sum = median * times as f64;
        println!("{name:<34} {min:>9.4} {median:>9.4} {times:>4} {sum:>9.3}");
        self.microbatch_ms += sum;
    }
}

/// Numbers between -1 and 1 that look random.
fn noise(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn linears(table: &mut Table) {
    let shapes = [
        ("qkv", HIDDEN, 3 * HIDDEN, LAYERS),
        ("projection", HIDDEN, HIDDEN, LAYERS),
        ("mlp up", HIDDEN, 4 * HIDDEN, LAYERS),
        ("mlp down", 4 * HIDDEN, HIDDEN, LAYERS),
        ("head", HIDDEN, VOCAB, 1),
    ];
    for (name, i, o, times) in shapes {
        let (x, w, b) = (noise(N * i), noise(o * i), noise(o));
        let (mut y, dy) = (noise(N * o), noise(N * o));
        let (mut dx, mut dw, mut db) = (noise(N * i), noise(o * i), noise(o));
        let bias = (name != "head").then_some(&b[..]);
        table.row(&format!("linear {name} forward"), times, || {
            linear::forward(&x, &w, bias, black_box(&mut y), N, i, o);
        });
        table.row(&format!("linear {name} input"), times, || {
            linear::backward_input(&dy, &w, black_box(&mut dx), N, i, o);
        });
        table.row(&format!("linear {name} weight"), times, || {
            linear::backward_weight(&dy, &x, black_box(&mut dw), N, i, o);
        });
        if bias.is_some() {
            table.row(&format!("linear {name} bias"), times, || {
                linear::backward_bias(&dy, black_box(&mut db), N, o);
            });
        }
    }
}

fn rows(table: &mut Table) {
    let times = 2 * LAYERS + 1;
    let (x, dy) = (noise(N * HIDDEN), noise(N * HIDDEN));
    let (gamma, beta) = (noise(HIDDEN), noise(HIDDEN));
    let (mut y, mut mean, mut rstd) = (noise(N * HIDDEN), noise(N), noise(N));
    let (mut dgamma, mut dbeta) = (noise(HIDDEN), noise(HIDDEN));
    table.row("layer norm forward", times, || {
        let y = black_box(&mut y);
        norm::layer_norm_forward(&x, &gamma, &beta, 1e-5, y, &mut mean, &mut rstd, N, HIDDEN);
    });
    table.row("layer norm input", times, || {
        let dx = black_box(&mut y);
        norm::layer_norm_backward_input(&dy, &x, &gamma, &mean, &rstd, dx, N, HIDDEN);
    });
    table.row("layer norm weight", times, || {
        let dgamma = black_box(&mut dgamma);
        norm::layer_norm_backward_weight(&dy, &x, &mean, &rstd, dgamma, &mut dbeta, N, HIDDEN);
    });
    table.row("residual add", 4 * LAYERS, || reduce::add_assign(black_box(&mut y), &x));

    let (x, dy, mut y) = (noise(N * 4 * HIDDEN), noise(N * 4 * HIDDEN), noise(N * 4 * HIDDEN));
    table.row("gelu forward", LAYERS, || activation::gelu_tanh_forward(&x, black_box(&mut y)));
    table.row("gelu backward", LAYERS, || {
        activation::gelu_tanh_backward(&x, &dy, black_box(&mut y));
    });
}

fn attention_and_ends(table: &mut Table) {
    let shape = AttentionShape { batch: BATCH, seq: SEQ, heads: HEADS, head_dim: HIDDEN / HEADS };
    let (qkv, mut out) = (noise(shape.qkv_len()), noise(shape.out_len()));
    let (mut probs, mut dqkv) = (noise(shape.probs_len()), noise(shape.qkv_len()));
    table.row("attention forward", LAYERS, || {
        attention::causal_forward(&qkv, black_box(&mut out), &mut probs, shape);
    });
    table.row("attention backward", LAYERS, || {
        attention::causal_backward(&qkv, &probs, &out, black_box(&mut dqkv), shape);
    });

    let tokens: Vec<u32> = (0..N).map(|t| (t * 7919 % VOCAB) as u32).collect();
    let labels: Vec<i64> = tokens.iter().map(|&t| i64::from(t)).collect();
    let (mut wte, mut wpe, mut y) = (noise(VOCAB * HIDDEN), noise(SEQ * HIDDEN), noise(N * HIDDEN));
    table.row("embedding forward", 1, || {
        embedding::forward(&tokens, &wte, &wpe, black_box(&mut y), SEQ, HIDDEN);
    });
    table.row("embedding backward", 1, || {
        embedding::backward(&tokens, &y, black_box(&mut wte), &mut wpe, SEQ, HIDDEN);
    });
    let mut logits = noise(N * VOCAB);
    table.row("cross-entropy, loss only", 0, || {
        black_box(loss::cross_entropy(&logits, &labels, None));
    });
    table.row("cross-entropy in place", 1, || {
        black_box(loss::cross_entropy_in_place(&mut logits, &labels));
    });
}

fn once_per_step(table: &mut Table) {
    let len = VOCAB * HIDDEN + LAYERS * 12 * HIDDEN * HIDDEN;
    let (mut param, grad) = (noise(len), noise(len));
    let (mut m, mut v) = (vec![0.0; len], vec![0.0; len]);
    let (beta1, beta2, eps) = (0.9, 0.95, 1e-8);
    let hyper = AdamW { lr: 1e-4, beta1, beta2, eps, weight_decay: 0.1, step: 3, grad_scale: 0.5 };
    table.row("sum of squares (all parameters)", 0, || {
        black_box(reduce::sum_squares(&grad));
    });
    table.row("adamw (all parameters)", 0, || {
        optim::adamw(black_box(&mut param), &grad, &mut m, &mut v, hyper);
    });
}

fn main() {
    let threads = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.expect("a pool of threads");
    pool.install(|| {
        println!("{threads} thread(s); batch {BATCH}, seq {SEQ}, hidden {HIDDEN}, heads {HEADS}");
        println!("{:<34} {:>9} {:>9} {:>4} {:>9}", "ms", "min", "median", "x", "sum");
        let mut table = Table { microbatch_ms: 0.0 };
        linears(&mut table);
        rows(&mut table);
        attention_and_ends(&mut table);
        once_per_step(&mut table);
        println!("microbatch of {LAYERS} layers, vocabulary {VOCAB}: {:.1} ms", table.microbatch_ms);
    });
}
