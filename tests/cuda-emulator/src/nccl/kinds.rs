//! NCCL's numbers: result codes, types of elements, ways to reduce; and a call that is refused.

use std::fmt;

/// A result code (`ncclResult_t` in nccl.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// It worked.
    Success = 0,
    /// The driver said no.
    CudaError = 1,
    /// The system said no.
    SystemError = 2,
    /// NCCL itself is at fault.
    InternalError = 3,
    /// An argument cannot be.
    InvalidArgument = 4,
    /// The call cannot be made now, or not so.
    InvalidUsage = 5,
    /// Another rank failed.
    RemoteError = 6,
    /// Not done yet.
    InProgress = 7,
}

impl Code {
    /// The code of that number.
    pub fn of(number: i32) -> Option<Self> {
        use Code::{
            CudaError, InProgress, InternalError, InvalidArgument, InvalidUsage, RemoteError, Success, SystemError,
        };
        [Success, CudaError, SystemError, InternalError, InvalidArgument, InvalidUsage, RemoteError, InProgress]
            .into_iter()
            .find(|&code| code as i32 == number)
    }

    /// What `ncclGetErrorString` says of it.
    pub const fn text(self) -> &'static std::ffi::CStr {
        match self {
            Self::Success => c"no error",
            Self::CudaError => c"a call of the CUDA driver failed",
            Self::SystemError => c"a call of the system failed",
            Self::InternalError => c"internal error",
            Self::InvalidArgument => c"invalid argument",
            Self::InvalidUsage => c"invalid usage",
            Self::RemoteError => c"another rank failed or is gone",
            Self::InProgress => c"in progress",
        }
    }
}

/// Why a call is refused: what it returns, and what `ncclGetLastError` says then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The result.
    pub code: Code,
    /// In words.
    pub text: String,
}

impl Refusal {
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self { code: Code::InvalidArgument, text: text.into() }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: Code::InvalidUsage, text: text.into() }
    }

    pub(crate) fn system(text: impl Into<String>) -> Self {
        Self { code: Code::SystemError, text: text.into() }
    }
}

/// The type of elements (`ncclDataType_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum DataType {
    /// Bytes.
    U8 = 1,
    /// 32-bit integers.
    I32 = 2,
    /// 64-bit integers.
    I64 = 4,
    /// Half precision.
    F16 = 6,
    /// Single precision.
    F32 = 7,
    /// Double precision.
    F64 = 8,
    /// Brain floats.
    Bf16 = 9,
}

impl DataType {
    /// The type of that number, if the emulator knows it.
    pub fn of(number: i32) -> Option<Self> {
        [Self::U8, Self::I32, Self::I64, Self::F16, Self::F32, Self::F64, Self::Bf16]
            .into_iter()
            .find(|&dtype| dtype as i32 == number)
    }

    /// Bytes per element.
    pub const fn n_bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bf16 => "bf16",
        })
    }
}

/// How elements are reduced (`ncclRedOp_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ReduceOp {
    /// The sum.
    Sum = 0,
    /// The product.
    Product = 1,
    /// The largest.
    Max = 2,
    /// The smallest.
    Min = 3,
    /// The mean.
    Average = 4,
}

impl ReduceOp {
    /// That of a number.
    pub fn of(number: i32) -> Option<Self> {
        [Self::Sum, Self::Product, Self::Max, Self::Min, Self::Average].into_iter().find(|&op| op as i32 == number)
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Product => "product",
            Self::Max => "maximum",
            Self::Min => "minimum",
            Self::Average => "mean",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, DataType, ReduceOp};

    #[test]
    fn numbers_are_those_of_the_header() {
        assert_eq!(
            (0..9).map(|n| Code::of(n).is_some()).collect::<Vec<_>>(),
            [[true; 8].as_slice(), &[false]].concat()
        );
        let known: Vec<i32> = (-1..12).filter(|&n| DataType::of(n).is_some()).collect();
        assert_eq!(known, [1, 2, 4, 6, 7, 8, 9]);
        assert_eq!((-1..7).filter(|&n| ReduceOp::of(n).is_some()).count(), 5);
    }
}
