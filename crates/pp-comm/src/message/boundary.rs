//! The contract of a boundary: the element type and shape that both its sides agreed on beforehand.

use std::fmt;
use std::sync::Arc;

/// The most dimensions a shape may have: what the fixed-size header has room for.
pub const MAX_DIMS: usize = 8;

/// The most bytes a message may have (4 GiB). Every length is checked against it before anything is allocated.
pub const MAX_MESSAGE_BYTES: u64 = 1 << 32;

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DType {
    /// 32-bit floats.
    F32 = 1,
    /// 64-bit floats.
    F64 = 2,
    /// 64-bit integers.
    I64 = 3,
    /// 16-bit brain floats: the upper half of a 32-bit float. On the host they are kept as their bits.
    Bf16 = 4,
}

impl DType {
    pub(crate) const ALL: [Self; 4] = [Self::F32, Self::F64, Self::I64, Self::Bf16];

    /// Bytes per element.
    pub const fn n_bytes(self) -> usize {
        match self {
            Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// The type with this number on the wire.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| *dtype as u8 == code)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I64 => "i64",
            Self::Bf16 => "bf16",
        })
    }
}

/// Element type and shape of a message. One that exists fits the wire and the length bound.
///
/// ```
/// use pp_comm::{Boundary, DType};
/// let boundary = Boundary::new(DType::F32, &[4, 128, 256])?;
/// assert_eq!(boundary.n_bytes(), 4 * 128 * 256 * 4);
/// assert_eq!(boundary.to_string(), "f32 [4, 128, 256]");
/// # Ok::<(), pp_comm::BufferError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Boundary {
    dtype: DType,
    /// Shared, as every message in flight has its contract.
    shape: Arc<[usize]>,
}

impl Boundary {
    /// A contract.
    ///
    /// # Errors
    /// [`BufferError::TooManyDims`], [`BufferError::Dim`], [`BufferError::TooLarge`].
    pub fn new(dtype: DType, shape: &[usize]) -> Result<Self, BufferError> {
        if shape.len() > MAX_DIMS {
            return Err(BufferError::TooManyDims { n_dims: shape.len() });
        }
        // Dimensions travel as signed integers too, also those of shapes without elements.
        if let Some(&dim) = shape.iter().find(|&&dim| i64::try_from(dim).is_err()) {
            return Err(BufferError::Dim { dim, shape: shape.to_vec() });
        }
        let elements = if shape.contains(&0) {
            Some(0)
        } else {
            shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim as u64))
        };
        let n_bytes = elements.and_then(|elements| elements.checked_mul(dtype.n_bytes() as u64));
        match n_bytes {
            Some(n_bytes) if n_bytes <= MAX_MESSAGE_BYTES && usize::try_from(n_bytes).is_ok() => {
                Ok(Self { dtype, shape: shape.into() })
            }
            _ => Err(BufferError::TooLarge { dtype, shape: shape.to_vec() }),
        }
    }

    /// The element type.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape, outermost dimension first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many elements.
    pub fn n_elements(&self) -> usize {
        // Of a shape without elements, the other dimensions alone may have a product beyond all numbers.
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }

    /// How many bytes.
    pub fn n_bytes(&self) -> usize {
        self.n_elements() * self.dtype.n_bytes()
    }
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

/// Why there is no such buffer or boundary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// More dimensions than a header holds.
    #[error("a shape of {n_dims} dimensions is given, but a message has at most {MAX_DIMS}")]
    TooManyDims {
        /// Dimensions given.
        n_dims: usize,
    },
    /// A dimension that has no number in a message.
    #[error("dimension {dim} of {shape:?} is given, but a dimension is at most {}", i64::MAX)]
    Dim {
        /// The dimension.
        dim: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// More bytes than a message may have.
    #[error("{dtype} {shape:?} is more than {MAX_MESSAGE_BYTES} bytes, the most a message may have")]
    TooLarge {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Vec<usize>,
    },
    /// Shape and data disagree.
    #[error("{boundary} has {} elements, but {given} are given", boundary.n_elements())]
    Length {
        /// What the data should be.
        boundary: Boundary,
        /// Elements given.
        given: usize,
    },
    /// Another element type than asked for.
    #[error("a buffer of {asked} is asked for, but it is {found}")]
    DType {
        /// What was asked for.
        asked: DType,
        /// What there is.
        found: Boundary,
    },
    /// The allocator said no.
    #[error("no memory for a buffer of {boundary}, {} bytes", boundary.n_bytes())]
    Allocation {
        /// What did not fit.
        boundary: Boundary,
    },
    /// The host's bytes are asked for, but they are not on the host.
    #[error("the elements of {found} are asked for, but they are in a device's memory; copy them to the host first")]
    OnDevice {
        /// What there is.
        found: Boundary,
    },
    /// A device's memory is asked for, but the buffer is on the host.
    #[error("the device memory of {found} is asked for, but it is on the host; copy it to the device first")]
    OnHost {
        /// What there is.
        found: Boundary,
    },
    /// Device memory of another size than the boundary says.
    #[error("{boundary} has {} bytes, but device memory of {given} is given", boundary.n_bytes())]
    DeviceBytes {
        /// What the memory should hold.
        boundary: Boundary,
        /// Bytes given.
        given: usize,
    },
    /// The allocator of device memory said no.
    #[error("no device memory for a buffer of {boundary}, {} bytes: {reason}", boundary.n_bytes())]
    DeviceAllocation {
        /// What did not fit.
        boundary: Boundary,
        /// What the allocator said.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_shape_does_not_depend_on_the_order_of_its_dimensions() {
        let most = i64::MAX as usize;
        for (dims, allowed) in [
            ([0, usize::MAX, usize::MAX], false),
            ([0, most + 1, 1], false),
            ([0, most, most], true),
            ([1, most, most], false),
            ([1, 1, 1 << 30], true),
            ([1, 2, 1 << 30], false),
        ] {
            for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let shape = order.map(|place| dims[place]);
                let boundary = Boundary::new(DType::F32, &shape);
                assert_eq!(boundary.is_ok(), allowed, "{shape:?}: {boundary:?}");
                assert!(boundary.is_err() || dims[0] != 0 || boundary.is_ok_and(|boundary| boundary.n_bytes() == 0));
            }
        }
        let error = Boundary::new(DType::F32, &[3, usize::MAX]).expect_err("too long").to_string();
        assert!(error.contains(&usize::MAX.to_string()) && error.contains("at most 9223372036854775807"), "{error}");
    }
}
