//! Types of elements and ways to reduce them.

use std::ffi::c_int;

use cudarc::nccl::sys::{ncclDataType_t, ncclRedOp_t};

/// The type of elements, as NCCL knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Bytes.
    U8,
    /// 32-bit integers.
    I32,
    /// 64-bit integers.
    I64,
    /// Half precision.
    F16,
    /// Brain floats.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl DataType {
    /// Bytes per element.
    pub const fn n_bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// NCCL's number for it.
    pub(crate) const fn code(self) -> c_int {
        let code = match self {
            Self::U8 => ncclDataType_t::ncclUint8,
            Self::I32 => ncclDataType_t::ncclInt32,
            Self::I64 => ncclDataType_t::ncclInt64,
            Self::F16 => ncclDataType_t::ncclFloat16,
            Self::Bf16 => ncclDataType_t::ncclBfloat16,
            Self::F32 => ncclDataType_t::ncclFloat32,
            Self::F64 => ncclDataType_t::ncclFloat64,
        };
        code as c_int
    }
}

/// How elements are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The mean.
    Average,
}

impl ReduceOp {
    /// NCCL's number for it.
    pub(crate) const fn code(self) -> c_int {
        let code = match self {
            Self::Sum => ncclRedOp_t::ncclSum,
            Self::Product => ncclRedOp_t::ncclProd,
            Self::Max => ncclRedOp_t::ncclMax,
            Self::Min => ncclRedOp_t::ncclMin,
            Self::Average => ncclRedOp_t::ncclAvg,
        };
        code as c_int
    }
}
