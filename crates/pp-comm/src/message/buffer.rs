//! A typed, owned tensor on the host: what a stage hands to the executor, and the executor to an endpoint.

use super::boundary::{Boundary, BufferError, DType};

/// The elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
}

/// A contiguous row-major tensor. Its data always fits its [`Boundary`].
///
/// ```
/// use pp_comm::{Buffer, DType};
/// let buffer = Buffer::f32(&[2, 2], vec![1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(buffer.boundary().dtype(), DType::F32);
/// assert!(buffer.clone().into_i64().is_err());
/// assert_eq!(buffer.into_f32()?, [1.0, 2.0, 3.0, 4.0]);
/// assert!(Buffer::f32(&[3], vec![1.0]).is_err());
/// # Ok::<(), pp_comm::BufferError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    boundary: Boundary,
    data: Data,
}

macro_rules! typed {
    ($variant:ident, $element:ty, $name:literal, $new:ident, $view:ident, $into:ident) => {
        #[doc = concat!("A buffer of ", $name, ".\n\n# Errors\n[`BufferError`] unless the shape has as many elements as `data`, and fits a message.")]
        pub fn $new(shape: &[usize], data: Vec<$element>) -> Result<Self, BufferError> {
            let boundary = Boundary::new(DType::$variant, shape)?;
            if boundary.n_elements() != data.len() {
                return Err(BufferError::Length { boundary, given: data.len() });
            }
            Ok(Self { boundary, data: Data::$variant(data) })
        }

        #[doc = concat!("Its elements.\n\n# Errors\n[`BufferError::DType`] unless they are ", $name, ".")]
        pub fn $view(&self) -> Result<&[$element], BufferError> {
            match &self.data {
                Data::$variant(data) => Ok(data),
                _ => Err(BufferError::DType { asked: DType::$variant, found: self.boundary.clone() }),
            }
        }

        #[doc = concat!("Its elements, without a copy.\n\n# Errors\n[`BufferError::DType`] unless they are ", $name, ".")]
        pub fn $into(self) -> Result<Vec<$element>, BufferError> {
            match self.data {
                Data::$variant(data) => Ok(data),
                _ => Err(BufferError::DType { asked: DType::$variant, found: self.boundary }),
            }
        }
    };
}

impl Buffer {
    typed!(F32, f32, "`f32`", f32, as_f32, into_f32);
    typed!(F64, f64, "`f64`", f64, as_f64, into_f64);
    typed!(I64, i64, "`i64`", i64, as_i64, into_i64);

    /// Its element type and shape.
    pub const fn boundary(&self) -> &Boundary {
        &self.boundary
    }

    /// Its elements as bytes, in the order of this machine.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.data {
            Data::F32(data) => bytemuck::cast_slice(data),
            Data::F64(data) => bytemuck::cast_slice(data),
            Data::I64(data) => bytemuck::cast_slice(data),
        }
    }

    /// Its elements' memory.
    pub(super) fn into_data(self) -> Data {
        self.data
    }

    /// Data with the boundary that it fits.
    pub(super) const fn of(boundary: Boundary, data: Data) -> Self {
        Self { boundary, data }
    }
}
