//! A typed, owned tensor: what a stage hands to the executor, and the executor to an endpoint. Its elements are on the host or,
//! with the feature `nccl`, in a device's memory.

#[cfg(feature = "nccl")]
use std::sync::Arc;

#[cfg(feature = "nccl")]
use nccl_rs::DeviceMemory;

use super::boundary::{Boundary, BufferError, DType};

/// The elements.
#[derive(Clone, Debug)]
pub(super) enum Data {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    Bf16(Vec<u16>),
    #[cfg(feature = "nccl")]
    Device(Arc<dyn DeviceMemory>),
}

impl PartialEq for Data {
    /// Those of the host by value. Of device memory only the same is equal: nobody here can look into it.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::F32(one), Self::F32(other)) => one == other,
            (Self::F64(one), Self::F64(other)) => one == other,
            (Self::I64(one), Self::I64(other)) => one == other,
            (Self::Bf16(one), Self::Bf16(other)) => one == other,
            #[cfg(feature = "nccl")]
            (Self::Device(one), Self::Device(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
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
///
/// With the feature `nccl` it may be in a device's memory instead (`Buffer::on_device`). A clone is then the same memory, and
/// whoever asks for its elements on the host gets [`BufferError::OnDevice`].
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

        #[doc = concat!("Its elements.\n\n# Errors\n[`BufferError::DType`] unless they are ", $name, ", [`BufferError::OnDevice`] unless they are on the host.")]
        pub fn $view(&self) -> Result<&[$element], BufferError> {
            match &self.data {
                Data::$variant(data) => Ok(data),
                _ => Err(self.not_here(DType::$variant)),
            }
        }

        #[doc = concat!("Its elements, without a copy.\n\n# Errors\n[`BufferError::DType`] unless they are ", $name, ", [`BufferError::OnDevice`] unless they are on the host.")]
        pub fn $into(self) -> Result<Vec<$element>, BufferError> {
            match self.data {
                Data::$variant(data) => Ok(data),
                _ => Err(self.not_here(DType::$variant)),
            }
        }
    };
}

impl Buffer {
    typed!(F32, f32, "`f32`", f32, as_f32, into_f32);
    typed!(F64, f64, "`f64`", f64, as_f64, into_f64);
    typed!(I64, i64, "`i64`", i64, as_i64, into_i64);
    typed!(Bf16, u16, "`bf16`, as their bits", bf16, as_bf16, into_bf16);

    /// Its element type and shape.
    pub const fn boundary(&self) -> &Boundary {
        &self.boundary
    }

    /// Its elements as bytes, in the order of this machine.
    ///
    /// # Errors
    /// [`BufferError::OnDevice`] unless they are on the host.
    pub fn as_bytes(&self) -> Result<&[u8], BufferError> {
        match &self.data {
            Data::F32(data) => Ok(bytemuck::cast_slice(data)),
            Data::F64(data) => Ok(bytemuck::cast_slice(data)),
            Data::I64(data) => Ok(bytemuck::cast_slice(data)),
            Data::Bf16(data) => Ok(bytemuck::cast_slice(data)),
            #[cfg(feature = "nccl")]
            Data::Device(_) => Err(BufferError::OnDevice { found: self.boundary.clone() }),
        }
    }

    /// Whether its elements are in a device's memory.
    pub const fn is_on_device(&self) -> bool {
        match &self.data {
            Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bf16(_) => false,
            #[cfg(feature = "nccl")]
            Data::Device(_) => true,
        }
    }

    /// Why there are no elements of that type on the host.
    fn not_here(&self, asked: DType) -> BufferError {
        let found = self.boundary.clone();
        if self.is_on_device() { BufferError::OnDevice { found } } else { BufferError::DType { asked, found } }
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

#[cfg(feature = "nccl")]
impl Buffer {
    /// A tensor in a device's memory: all of `memory` is its elements.
    ///
    /// # Errors
    /// [`BufferError::DeviceBytes`] unless it has as many bytes as the boundary says.
    pub fn on_device(boundary: Boundary, memory: Arc<dyn DeviceMemory>) -> Result<Self, BufferError> {
        match memory.n_bytes() {
            given if given != boundary.n_bytes() => Err(BufferError::DeviceBytes { boundary, given }),
            _ => Ok(Self { boundary, data: Data::Device(memory) }),
        }
    }

    /// Its memory on the device.
    ///
    /// # Errors
    /// [`BufferError::OnHost`] unless it is there.
    pub fn as_device(&self) -> Result<&Arc<dyn DeviceMemory>, BufferError> {
        match &self.data {
            Data::Device(memory) => Ok(memory),
            _ => Err(BufferError::OnHost { found: self.boundary.clone() }),
        }
    }

    /// Its memory on the device, as it was given to [`Buffer::on_device`].
    ///
    /// # Errors
    /// [`BufferError::OnHost`] unless it is there.
    pub fn into_device(self) -> Result<Arc<dyn DeviceMemory>, BufferError> {
        match self.data {
            Data::Device(memory) => Ok(memory),
            _ => Err(BufferError::OnHost { found: self.boundary }),
        }
    }
}
