//! What the crate answers on any machine, with or without the libraries: a value or a typed error, never a panic.

#![cfg(feature = "nccl")]

use nccl_rs::{Device, NcclError, UniqueId, Version, require_version, runtime_version};

#[test]
fn without_nccl_every_entry_says_so() {
    match runtime_version() {
        Ok(version) => assert!(version >= Version { major: 2, minor: 0, patch: 0 }, "{version}"),
        Err(error) => {
            let NcclError::NotPresent { ref looked_for } = error else { panic!("{error:?}") };
            assert_eq!(looked_for, "libnccl.so.2 and libnccl.so");
            assert_eq!(UniqueId::new().unwrap_err(), error);
            assert_eq!(require_version(Version { major: 2, minor: 14, patch: 0 }).unwrap_err(), error);
        }
    }
}

#[test]
fn without_a_driver_every_entry_says_so() {
    match Device::count() {
        // Where there are some, one beyond is refused.
        Ok(n_devices) => assert!(matches!(Device::new(n_devices), Err(NcclError::Cuda { .. }))),
        Err(error) => {
            let is_typed = matches!(
                error,
                NcclError::NoDriver | NcclError::MissingDriverSymbol { .. } | NcclError::Cuda { call: "cuInit", .. }
            );
            assert!(is_typed, "{error:?}");
            assert_eq!(Device::new(0).unwrap_err(), error);
        }
    }
}
