//! Both sides of a case, the error, and what it may be.

use candle_core::{DType, Device, Tensor};

use crate::error::Result;
use crate::init::Init;
use crate::ops::set::Set;
use crate::ops::{Labels, Number, Tokens, fetch, wide};

/// One result of one operation at one shape, against the CPU in `f64`.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The operation and its result: `linear dw`.
    pub op: &'static str,
    /// The sizes: `batch 2, seq 5, ..`.
    pub shape: String,
    /// The number type of values; sums and main gradients may be wider.
    pub dtype: DType,
    /// The largest difference, relative to the largest element. Not a number if one of the two results has one.
    pub error: f64,
    /// What the error may be: two units in the last place of the largest element for every time that a value is rounded to `dtype`
    /// on the way, and `32 sqrt(n)` units in the last place of the wider type for sums of `n` terms.
    pub bound: f64,
}

impl Comparison {
    /// Whether the error is within its bound.
    pub fn passes(&self) -> bool {
        self.error <= self.bound
    }
}

/// One result of an operation.
pub(super) struct Output {
    op: &'static str,
    value: Tensor,
    /// How often a value is rounded to the narrow type on the way to an element.
    n_roundings: u32,
    /// Terms of the longest sum behind an element.
    n_terms: usize,
}

impl Output {
    pub(super) fn new(op: &'static str, value: Tensor, n_roundings: u32, n_terms: usize) -> Self {
        Self { op, value, n_roundings, n_terms }
    }
}

/// One side of a comparison.
pub(super) struct Side {
    pub(super) set: Set,
    /// Number type of values.
    dtype: DType,
    /// What values are rounded to first, on both sides.
    rounded: DType,
    device: Device,
}

impl Side {
    /// Seeded normals, rounded to the number type that is checked.
    pub(super) fn values(&self, seed: u64, shape: &[usize], std: f64) -> Result<Tensor> {
        self.normals(seed, shape, std, self.rounded, self.dtype)
    }

    /// Seeded normals of the wide type, as main gradients and moments are.
    pub(super) fn wide(&self, seed: u64, shape: &[usize], std: f64) -> Result<Tensor> {
        self.normals(seed, shape, std, wide(self.rounded), wide(self.dtype))
    }

    /// Seeded numbers below `n`, half of them below a quarter, so that there are many of one kind.
    pub(super) fn below(&self, seed: u64, len: usize, n: usize) -> Vec<u32> {
        let draws = Init::Normal { std: 1e6 }.values(seed, 1, len);
        let draws = draws.map(|x| x.abs() as usize).enumerate();
        draws.map(|(at, x)| (if at % 2 == 0 { x % n } else { x % n.div_ceil(4) }) as u32).collect()
    }

    /// Tokens where the operations read them.
    pub(super) fn tokens(&self, tokens: Vec<u32>) -> Result<Tokens> {
        Tokens::new(tokens, (self.set.way)("check", &self.device, self.dtype)?, &self.device)
    }

    /// Labels where the operations read them.
    pub(super) fn labels(&self, labels: Vec<i64>) -> Result<Labels> {
        Labels::new(labels, (self.set.way)("check", &self.device, self.dtype)?, self.dtype, &self.device)
    }

    /// Numbers as a tensor on the CPU.
    pub(super) fn numbers(&self, numbers: &[&Number]) -> Result<Tensor> {
        let values = fetch(numbers.iter().copied())?;
        let len = values.len();
        Ok(Tensor::from_vec(values, len, &Device::Cpu)?)
    }

    fn normals(&self, seed: u64, shape: &[usize], std: f64, rounded: DType, dtype: DType) -> Result<Tensor> {
        let drawn: Vec<f64> = Init::Normal { std }.values(seed, 0, shape.iter().product()).collect();
        let values = Tensor::from_vec(drawn, shape, &Device::Cpu)?.to_dtype(rounded)?.to_dtype(dtype)?;
        Ok(values.to_device(&self.device)?)
    }
}

/// Runs cases on both sides.
pub(super) struct Bench {
    checked: Side,
    exact: Side,
    comparisons: Vec<Comparison>,
}

impl Bench {
    pub(super) fn new(set: Set, dtype: DType, device: &Device) -> Self {
        Self {
            checked: Side { set, dtype, rounded: dtype, device: device.clone() },
            exact: Side { set: Set::KERNELS, dtype: DType::F64, rounded: dtype, device: Device::Cpu },
            comparisons: Vec::new(),
        }
    }

    /// Runs one case on both sides and compares what comes out.
    pub(super) fn case(&mut self, shape: String, run: impl Fn(&Side) -> Result<Vec<Output>>) -> Result<()> {
        let dtype = self.checked.dtype;
        for (found, expected) in run(&self.checked)?.into_iter().zip(run(&self.exact)?) {
            let Output { op, value, n_roundings, n_terms } = found;
            let narrow = 2.0 * 2.0 * f64::from(n_roundings) * unit_roundoff(dtype);
            let sums = 2.0 * 32.0 * (n_terms as f64).sqrt() * unit_roundoff(wide(dtype));
            let error = difference(&value, &expected.value)?;
            self.comparisons.push(Comparison { op, shape: shape.clone(), dtype, error, bound: narrow + sums });
        }
        Ok(())
    }

    pub(super) fn into_comparisons(self) -> Vec<Comparison> {
        self.comparisons
    }
}

/// Half the distance from 1 to the next number.
fn unit_roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 2_f64.powi(-9),
        DType::F32 => 2_f64.powi(-24),
        _ => 2_f64.powi(-53),
    }
}

/// The largest difference, relative to the largest element of `expected`; not a number where one is none.
fn difference(found: &Tensor, expected: &Tensor) -> Result<f64> {
    let elements = |x: &Tensor| x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
    let (found, expected) = (elements(found)?, elements(expected)?);
    let worst = |worst: f64, x: f64| if worst >= x || worst.is_nan() { worst } else { x };
    let largest = expected.iter().fold(0.0, |largest, x| worst(largest, x.abs()));
    let error = found.iter().zip(&expected).fold(0.0, |error, (a, b)| worst(error, (a - b).abs()));
    Ok(if error == 0.0 { 0.0 } else { error / largest })
}
