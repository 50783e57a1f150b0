//! Every operation of the model against the processor's in double precision.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use candle_core::DType;
use pp_model::check::{Comparison, operations};

use super::tensors::device;
use crate::conduct::Plan;
use crate::tell::{Verdict, check};

pub(super) fn run(plan: Plan<'_>) -> Result<()> {
    let device = device(plan)?;
    for (dtype, name) in [(DType::F32, "f32"), (DType::BF16, "bf16")] {
        let mut by_result = BTreeMap::<&str, Vec<Comparison>>::new();
        check(&format!("operations, {name}"), || {
            let all = operations(dtype, &device)?;
            let n = all.len();
            for comparison in all {
                by_result.entry(comparison.op).or_default().push(comparison);
            }
            Ok(Verdict::Passed(format!("{n} results of {} kinds were computed", by_result.len())))
        })?;
        for (op, comparisons) in &by_result {
            check(&format!("{op}, {name}"), || judge(comparisons))?;
        }
    }
    Ok(())
}

/// One kind of result, over all its shapes.
fn judge(comparisons: &[Comparison]) -> Result<Verdict> {
    let Some(worst) = comparisons.iter().max_by(|a, b| share(a).total_cmp(&share(b))) else {
        bail!("nothing was compared");
    };
    let Comparison { shape, error, bound, .. } = worst;
    let n_over = comparisons.iter().filter(|comparison| !comparison.passes()).count();
    ensure!(
        n_over == 0,
        "{n_over} of {} shapes are off; the most at {shape}: {error:.1e}, allowed {bound:.1e}",
        comparisons.len()
    );
    Ok(Verdict::Passed(format!(
        "{} shapes; the largest error is {error:.1e} of {bound:.1e} allowed",
        comparisons.len()
    )))
}

/// Of what is allowed; what is no number is more than all.
fn share(comparison: &Comparison) -> f64 {
    let share = comparison.error / comparison.bound;
    if share.is_nan() { f64::INFINITY } else { share }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(error: f64) -> Comparison {
        Comparison { op: "matmul", shape: format!("error {error}"), dtype: DType::F32, error, bound: 0.5 }
    }

    #[test]
    fn one_shape_that_is_off_fails_all_and_is_named() {
        assert!(judge(&[comparison(0.1), comparison(0.5)]).is_ok());
        for off in [0.6, f64::NAN] {
            let error = judge(&[comparison(0.1), comparison(off), comparison(0.2)]).unwrap_err().to_string();
            assert!(error.starts_with("1 of 3 shapes are off") && error.contains(&format!("error {off}")), "{error}");
        }
        assert!(judge(&[]).is_err());
    }
}
