//! A parameter: value, main gradient, and the update that turns one into the other.

use candle_core::{DType, Device, Tensor};
use pp_kernels::AdamW;

use crate::catalog::ParamSpec;
use crate::error::{ModelError, Result};
use crate::ops;

/// A parameter with its value and the gradient that microbatches accumulate into, both of the spec's shape.
///
/// Beside a value of `bf16`, gradient, moments and the value that the optimizer updates (the *master*) are `f32`: an update is often
/// smaller than the last of the 8 bits of a weight, and would be lost. The value is the master, rounded.
#[derive(Debug)]
pub struct Param {
    spec: ParamSpec,
    value: Tensor,
    /// Where the value is rounded: what it is rounded from.
    master: Option<Tensor>,
    grad: Tensor,
}

impl Param {
    /// Draws first values from the parameter's own stream of `seed`, on the CPU, so that they are the same for every device; a
    /// copy draws what it copies. The gradient is zero.
    pub fn new(spec: ParamSpec, seed: u64, dtype: DType, device: &Device) -> Result<Self> {
        let stream = spec.copy_of.unwrap_or(spec.index) as u64;
        let values = spec.init.values(seed, stream, spec.len());
        let shape = spec.shape.as_slice();
        let drawn = match dtype {
            DType::F32 | DType::BF16 => Tensor::from_vec(values.map(|value| value as f32).collect(), shape, device)?,
            DType::F64 => Tensor::from_vec(values.collect(), shape, device)?,
            _ => return Err(ModelError::unsupported("initialisation", device, dtype)),
        };
        let grad = drawn.zeros_like()?;
        let (value, master) =
            if drawn.dtype() == dtype { (drawn, None) } else { (drawn.to_dtype(dtype)?, Some(drawn)) };
        Ok(Self { spec, value, master, grad })
    }

    /// Canonical name, as GPT-2's: `h.0.ln_1.weight`.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Place in canonical order, the same however the model is cut.
    pub fn index(&self) -> usize {
        self.spec.index
    }

    /// Whether weight decay applies: to matrices, not to biases and norms.
    pub fn decays(&self) -> bool {
        self.spec.decays()
    }

    /// Whether this is the head's copy of a tied weight: it is trained like any other, but norms, counts and
    /// checkpoints have it once already.
    pub fn is_copy(&self) -> bool {
        self.spec.copy_of.is_some()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.spec.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.spec.is_empty()
    }

    /// The value, of the spec's shape. A handle, not a copy: updates show through it.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// The value as the optimizer has it, not rounded: of the main gradient's number type. A handle, as [`Param::value`], and the
    /// same where that is not rounded. Checkpoints and hashes are of this one.
    pub fn master(&self) -> &Tensor {
        self.master.as_ref().unwrap_or(&self.value)
    }

    /// The main gradient: the sum over microbatches since it was last zeroed. A handle, not a copy.
    pub fn grad(&self) -> &Tensor {
        &self.grad
    }

    /// Replaces the value, as when a checkpoint is loaded; takes a tensor of the same shape and of the [master](Param::master)'s
    /// number type.
    pub fn set_value(&mut self, value: Tensor) -> Result<()> {
        self.check(value.dims(), value.dtype())?;
        // Its own memory, so that an update in place reaches nobody else's tensor.
        let value = value.detach().force_contiguous()?;
        if let Some(master) = &mut self.master {
            self.value = value.to_dtype(self.value.dtype())?;
            *master = value;
        } else {
            self.value = value;
        }
        Ok(())
    }

    /// Sets the gradient to zero, in place.
    pub fn zero_grad(&mut self) -> Result<()> {
        ops::fill_zero(&self.grad)
    }

    /// Adds to the gradient, in place.
    pub fn add_grad(&mut self, more: &Tensor) -> Result<()> {
        self.check(more.dims(), more.dtype())?;
        ops::add_assign(&self.grad, more)
    }

    /// The sum of the gradient's squares, in `f64`. Waits for the device; of many parameters,
    /// [`GptStage::grad_norm_partials`](crate::GptStage::grad_norm_partials) waits once.
    pub fn grad_sum_squares(&self) -> Result<f64> {
        Ok(ops::fetch([&ops::sum_of_squares(&self.grad)?])?.into_iter().sum())
    }

    /// One AdamW update of the value and its moments, in place. `hyper` is taken as it is: whether this parameter
    /// decays is for the caller to ask ([`Param::decays`]).
    pub fn adamw(&mut self, moments: &mut Moments, hyper: AdamW) -> Result<()> {
        self.check(moments.first.dims(), moments.first.dtype())?;
        ops::adamw(self.master(), &self.grad, &moments.first, &moments.second, hyper)?;
        match &self.master {
            Some(master) => ops::assign(&self.value, master),
            None => Ok(()),
        }
    }

    fn check(&self, shape: &[usize], dtype: DType) -> Result<()> {
        if shape == self.value.dims() && dtype == self.grad.dtype() {
            return Ok(());
        }
        Err(ModelError::ParamMismatch {
            name: self.spec.name.clone(),
            shape: self.spec.shape.clone(),
            dtype: self.grad.dtype(),
            found_shape: shape.to_vec(),
            found_dtype: dtype.as_str().to_owned(),
        })
    }
}

/// The optimizer's state for one parameter: means of its gradients and of their squares.
#[derive(Debug)]
pub struct Moments {
    first: Tensor,
    second: Tensor,
}

impl Moments {
    /// Zeros of the shape and number type of the parameter's gradient.
    pub fn zeros_like(param: &Param) -> Result<Self> {
        Ok(Self { first: param.grad.zeros_like()?, second: param.grad.zeros_like()? })
    }

    /// The mean of gradients, of the parameter's shape.
    pub fn first(&self) -> &Tensor {
        &self.first
    }

    /// The mean of squared gradients, of the parameter's shape.
    pub fn second(&self) -> &Tensor {
        &self.second
    }
}
