//! Types of elements and ways to reduce them.

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
