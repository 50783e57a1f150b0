//! Tokens and labels where an operation reads them: in memory of the host, or beside the tensors.

use candle_core::{DType, Device, Tensor};
use pp_kernels::loss::IGNORE;

use super::way::{Way, wide};
use crate::error::{ModelError, Result};

/// Tokens `[batch * seq]`, each below the vocabulary's size.
#[derive(Clone, Debug)]
pub(crate) enum Tokens {
    /// For kernels.
    Host(Vec<u32>),
    /// For the tensor library: `u32`, `[batch * seq]`.
    Device(Tensor),
}

/// Labels `[batch * seq]`, each below the vocabulary's size or [`IGNORE`].
#[derive(Clone, Debug)]
pub(crate) enum Labels {
    /// For kernels.
    Host(Vec<i64>),
    /// For the tensor library.
    Device {
        /// `u32`, `[batch * seq, 1]`; 0 where ignored.
        index: Tensor,
        /// `[batch * seq, 1]`: 1 where the loss counts, else 0, in the number type of losses.
        counts: Tensor,
        /// How many count.
        n_counted: u64,
    },
}

impl Tokens {
    /// Puts tokens where operations of that way read them. Those that stay in memory of the host are moved; none at all stay.
    pub(crate) fn new(tokens: Vec<u32>, way: Way, device: &Device) -> Result<Self> {
        let len = tokens.len();
        if way == Way::Kernels || len == 0 {
            return Ok(Self::Host(tokens));
        }
        Ok(Self::Device(Tensor::from_vec(tokens, len, device)?))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Host(tokens) => tokens.len(),
            Self::Device(tokens) => tokens.elem_count(),
        }
    }

    /// Those in memory of the host.
    pub(crate) fn on_host(&self, op: &'static str) -> Result<&[u32]> {
        match self {
            Self::Host(tokens) => Ok(tokens),
            Self::Device(tokens) => Err(ModelError::unsupported(op, tokens.device(), tokens.dtype())),
        }
    }

    /// Those in a tensor.
    pub(crate) fn tensor(&self, op: &'static str) -> Result<&Tensor> {
        match self {
            Self::Host(_) => Err(ModelError::unsupported(op, &Device::Cpu, DType::U32)),
            Self::Device(tokens) => Ok(tokens),
        }
    }
}

impl Labels {
    /// Puts labels where operations of that way read them, beside logits of `dtype`. Those that stay in memory of the host
    /// are moved; none at all stay.
    pub(crate) fn new(labels: Vec<i64>, way: Way, dtype: DType, device: &Device) -> Result<Self> {
        if way == Way::Kernels || labels.is_empty() {
            return Ok(Self::Host(labels));
        }
        let shape = (labels.len(), 1);
        // Labels were checked: what is not a token is to be ignored.
        let index = labels.iter().map(|&label| u32::try_from(label).unwrap_or(0)).collect();
        let counts = labels.iter().map(|&label| f32::from(u8::from(label != IGNORE))).collect();
        Ok(Self::Device {
            index: Tensor::from_vec::<_, u32>(index, shape, device)?,
            counts: Tensor::from_vec::<_, f32>(counts, shape, device)?.to_dtype(wide(dtype))?,
            n_counted: labels.iter().filter(|&&label| label != IGNORE).count() as u64,
        })
    }

    /// Those in memory of the host.
    pub(crate) fn on_host(&self, op: &'static str) -> Result<&[i64]> {
        match self {
            Self::Host(labels) => Ok(labels),
            Self::Device { index, .. } => Err(ModelError::unsupported(op, index.device(), index.dtype())),
        }
    }

    /// Which element of each row, whether it counts, both `[rows, 1]`, and how many do.
    pub(crate) fn tensors(&self, op: &'static str) -> Result<(&Tensor, &Tensor, u64)> {
        match self {
            Self::Host(_) => Err(ModelError::unsupported(op, &Device::Cpu, DType::I64)),
            Self::Device { index, counts, n_counted } => Ok((index, counts, *n_counted)),
        }
    }
}
