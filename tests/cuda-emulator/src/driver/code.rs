//! The driver's result codes.

/// A result code of the driver: only those that every version of the binding knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// An argument is out of range.
    InvalidValue = 1,
    /// The device's memory is used up.
    OutOfMemory = 2,
    /// `cuInit` was not called.
    NotInitialized = 3,
    /// The context is going away.
    Deinitialized = 4,
    /// No device.
    NoDevice = 100,
    /// There is no device of that number.
    InvalidDevice = 101,
    /// No context is current, or it is not that of the object.
    InvalidContext = 201,
    /// The context was destroyed.
    ContextIsDestroyed = 709,
    /// No such stream or event.
    InvalidHandle = 400,
    /// Work is under way still.
    NotReady = 600,
    /// Memory was touched where there is none.
    IllegalAddress = 700,
    /// A rule was broken on the device: a race, a read of what was never written.
    Assert = 710,
    /// Work failed.
    LaunchFailed = 719,
    /// The emulator does not do this.
    NotSupported = 801,
    /// A fault of the emulator.
    Unknown = 999,
}

impl Code {
    const ALL: [Self; 15] = [
        Self::InvalidValue,
        Self::OutOfMemory,
        Self::NotInitialized,
        Self::Deinitialized,
        Self::NoDevice,
        Self::InvalidDevice,
        Self::InvalidContext,
        Self::ContextIsDestroyed,
        Self::InvalidHandle,
        Self::NotReady,
        Self::IllegalAddress,
        Self::Assert,
        Self::LaunchFailed,
        Self::NotSupported,
        Self::Unknown,
    ];

    /// That of a number.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&code| code as u32 == number)
    }

    /// Its C name, and what it says.
    pub const fn texts(self) -> (&'static std::ffi::CStr, &'static std::ffi::CStr) {
        match self {
            Self::InvalidValue => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
            Self::OutOfMemory => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
            Self::NotInitialized => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
            Self::Deinitialized => (c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
            Self::NoDevice => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
            Self::InvalidDevice => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
            Self::InvalidContext => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
            Self::ContextIsDestroyed => (c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed"),
            Self::InvalidHandle => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
            Self::NotReady => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
            Self::IllegalAddress => (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
            Self::Assert => (c"CUDA_ERROR_ASSERT", c"device-side assert triggered"),
            Self::LaunchFailed => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
            Self::NotSupported => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
            Self::Unknown => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What the caller gets.
    pub code: Code,
    /// What is wrong, for people.
    pub text: String,
}

impl Error {
    /// With a code and a text.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.texts().0.to_string_lossy(), self.text)
    }
}

impl std::error::Error for Error {}
