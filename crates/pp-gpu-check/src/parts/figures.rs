//! How fast it is: products of matrices first, then tokens per second as a share of what those allow.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use candle_core::{DType, Device, Tensor};

use super::tensors::device;
use super::trainer::{Job, Step};
use super::way::Way;
use crate::conduct::Plan;
use crate::report::Ground;
use crate::tell::{Verdict, check, figure};

/// What is trained to measure it.
struct Size {
    /// Layers, elements of an activation, heads.
    n_layers: u32,
    hidden: u32,
    n_heads: u32,
    /// Tokens per sequence, sequences per microbatch.
    seq_len: u32,
    micro_batch: u32,
    /// Rows of the matrices that are multiplied.
    matrix: usize,
}

/// Large enough to fill a GPU for a few seconds.
const ON_GPU: Size = Size { n_layers: 8, hidden: 1024, n_heads: 16, seq_len: 1024, micro_batch: 8, matrix: 8192 };
/// Small enough to rehearse.
const ON_CPU: Size = Size { n_layers: 4, hidden: 64, n_heads: 4, seq_len: 32, micro_batch: 2, matrix: 256 };

const N_STEPS: u32 = 8;
/// Steps that are not counted: memory is allocated, kernels are loaded.
const N_WARM: usize = 3;
const MICROBATCHES: u32 = 4;
/// Of one run of the trainer.
const LIMIT: Duration = Duration::from_secs(30);
/// How long products are measured.
const PRODUCTS: Duration = Duration::from_millis(800);

impl Size {
    fn flags(&self, pp: u32, dtype: &str) -> Vec<String> {
        let number = |flag: &str, value: u32| [flag.to_owned(), value.to_string()];
        let mut flags = vec!["--mock-data".to_owned(), "--tied".to_owned(), "--dtype".to_owned(), dtype.to_owned()];
        for pair in [
            number("--num-layers", self.n_layers),
            number("--hidden-size", self.hidden),
            number("--num-heads", self.n_heads),
            number("--seq-length", self.seq_len),
            number("--micro-batch-size", self.micro_batch),
            number("--microbatches", MICROBATCHES),
            number("--train-iters", N_STEPS),
            number("--eval-iters", 1),
        ] {
            flags.extend(pair);
        }
        if pp > 1 {
            flags.extend(number("--vp", 2));
        }
        flags
    }

    /// Floating-point operations per token, forward and backward: 6 per weight of a matrix (12 h^2 of each layer, h times the
    /// vocabulary of the head), and 12 s h per layer for attention over s positions, none left out (Narayanan et al. 2021,
    /// "Efficient Large-Scale Language Model Training on GPU Clusters", appendix, without recomputation).
    fn operations_per_token(&self) -> f64 {
        let (layers, h, s) = (f64::from(self.n_layers), f64::from(self.hidden), f64::from(self.seq_len));
        6.0 * (12.0 * layers * h * h + h * pp_train::VOCAB as f64) + 12.0 * layers * s * h
    }
}

pub(super) fn run(plan: Plan<'_>) -> Result<()> {
    let size = if plan.ground == Ground::Cuda { &ON_GPU } else { &ON_CPU };
    let types: &[(DType, &str)] = match plan.ground {
        Ground::Cuda => &[(DType::BF16, "bf16"), (DType::F32, "f32")],
        _ => &[(DType::F32, "f32")],
    };
    for &(dtype, name) in types {
        let mut rate = None;
        check(&format!("products of matrices, {name}"), || {
            let measured = product_rate(&device(plan)?, dtype, size.matrix)?;
            rate = Some(measured);
            let how = format!("{n} x {n} x {n}, 2 n^3 operations each, over {PRODUCTS:?}", n = size.matrix);
            figure(&format!("matmul, {name}"), measured / 1e12, "Tflop/s", &how)?;
            Ok(Verdict::Passed(format!("{:.1} Tflop/s", measured / 1e12)))
        })?;
        check(&format!("tokens per second, {name}, pp 1"), || tokens(plan, size, name, 1, None, rate))?;
    }
    let (_, name) = types[0];
    check(&format!("tokens per second, {name}, pp 2 vp 2 on one GPU"), || match (plan.ground, Way::told()) {
        (Ground::Cuda, None) => Ok(Verdict::Skipped("two ranks cannot share this GPU, or it was not tried".to_owned())),
        (_, way) => tokens(plan, size, name, 2, way, None),
    })?;
    Ok(())
}

fn tokens(plan: Plan<'_>, size: &Size, name: &str, pp: u32, way: Option<Way>, rate: Option<f64>) -> Result<Verdict> {
    let flags = size.flags(pp, name);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let steps = Job { on_cpu: false, pp, way, flags: &flags, limit: LIMIT }.steps(plan)?;
    let per_second = median_rate(&steps)?;
    let how = format!(
        "median of steps {} to {N_STEPS}; {} layers, hidden {}, sequences of {}, {MICROBATCHES} microbatches of {}",
        N_WARM + 1,
        size.n_layers,
        size.hidden,
        size.seq_len,
        size.micro_batch
    );
    figure(&format!("tokens per second, {name}, pp {pp}"), per_second, "1/s", &how)?;
    let mut said = format!("{per_second:.0} tokens/s");
    if let Some(rate) = rate {
        let share = per_second * size.operations_per_token() / rate;
        figure(
            &format!("share of the matmul rate, {name}, pp {pp}"),
            share,
            "1",
            "operations of the model by formula",
        )?;
        said += &format!(", {:.1} % of the matmul rate", 100.0 * share);
    }
    Ok(Verdict::Passed(said))
}

/// Tokens per second of the steps after the first few.
fn median_rate(steps: &[Step]) -> Result<f64> {
    ensure!(steps.len() == N_STEPS as usize, "the trainer wrote {} steps of {N_STEPS}", steps.len());
    let mut rates: Vec<f64> = steps[N_WARM..].iter().map(|step| 1e3 * step.tokens / step.step_ms).collect();
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}

/// Operations per second of products of square matrices.
fn product_rate(device: &Device, dtype: DType, n: usize) -> Result<f64> {
    let matrix = || Tensor::rand(-1.0f32, 1.0, (n, n), device)?.to_dtype(dtype);
    let (a, b) = (matrix()?, matrix()?);
    let mut n_done = 0u32;
    // Once unmeasured: the library is loaded, and chooses its kernel.
    a.matmul(&b)?;
    device.synchronize()?;
    let start = Instant::now();
    while start.elapsed() < PRODUCTS {
        for _ in 0..4 {
            a.matmul(&b)?;
        }
        device.synchronize()?;
        n_done += 4;
    }
    Ok(f64::from(n_done) * 2.0 * (n as f64).powi(3) / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_follow_from_the_sizes() {
        let size = Size { n_layers: 2, hidden: 10, n_heads: 1, seq_len: 3, micro_batch: 1, matrix: 1 };
        let vocab = pp_train::VOCAB as f64;
        assert_eq!(size.operations_per_token(), 6.0 * (2400.0 + 10.0 * vocab) + 720.0);
    }

    #[test]
    fn the_first_steps_do_not_count() {
        let step = |step_ms: f64| Step { loss: 1.0, grad_norm: 1.0, tokens: 100.0, step_ms };
        let steps: Vec<Step> = [1e9, 1e9, 1e9, 10.0, 20.0, 20.0, 20.0, 1e6].map(step).into();
        assert_eq!(median_rate(&steps).unwrap(), 5000.0);
        assert!(median_rate(&steps[1..]).is_err());
    }

    #[test]
    fn a_rate_of_products_is_measured_on_the_processor() {
        assert!(product_rate(&Device::Cpu, DType::F32, 32).unwrap() > 0.0);
    }
}
