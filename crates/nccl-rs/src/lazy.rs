//! CUDA's libraries for programs that do not name them.
//!
//! A program linked in the usual way names the libraries that it needs, and the loader ends it before its first line where one is
//! missing. One that is linked lazily (its functions left open, bound at their first call) starts everywhere and says itself what
//! is missing; but it must open the libraries before it calls anything of them.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::error::NcclError;

/// What a program over cudarc and candle calls, by the names of CUDA 13. The runtime (`libcudart`) is not among them: its functions
/// are called before `main`, so that it can only be linked in.
const LIBRARIES: [&str; 5] =
    ["libcuda.so.1", "libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10", "libnvrtc.so.13"];

/// Opens the libraries of CUDA 13 (driver, cuBLAS, cuRAND, NVRTC) for the whole process, for good: functions that were linked
/// lazily are found there from then on. In a program that names them itself nothing changes. To be called before anything of
/// CUDA is.
///
/// # Errors
/// [`NcclError::NoDriver`], or [`NcclError::NoLibrary`] for the first of the others that cannot be opened.
pub fn open_cuda_libraries() -> Result<(), NcclError> {
    LIBRARIES.iter().try_for_each(|&name| {
        // SAFETY: these are NVIDIA's own libraries, as every program that is linked in the usual way has them loaded.
        unsafe { open(name) }.map_err(|error| if name == LIBRARIES[0] { NcclError::NoDriver } else { error })
    })
}

/// # Safety
/// What the library does when it is loaded may be done in this process.
unsafe fn open(name: &'static str) -> Result<(), NcclError> {
    // SAFETY: the caller vouches for its initialisers.
    match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
        Ok(library) => {
            // Its functions are called by address from now on.
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => Err(NcclError::NoLibrary { name, reason: reason_of(&error) }),
    }
}

/// What the loader said, which is behind the words of libloading.
fn reason_of(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_opened_and_what_is_not_is_named_with_the_loaders_reason() {
        // SAFETY: it is loaded already.
        assert_eq!(unsafe { open("libc.so.6") }, Ok(()));
        // SAFETY: there is none.
        let text = unsafe { open("libnothing.so.9") }.expect_err("there is none").to_string();
        for part in ["libnothing.so.9", "cannot open shared object file", "LD_LIBRARY_PATH"] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
}
