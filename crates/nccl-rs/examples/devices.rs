//! Prints how many GPUs the CUDA driver has for this process: 0 also where there is no driver.

use nccl_rs::{Device, NcclError};

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: u32 = 100;

fn main() -> Result<(), NcclError> {
    let n_devices = match Device::count() {
        Err(NcclError::NoDriver | NcclError::Cuda { code: NO_DEVICE, .. }) => 0,
        counted => counted?,
    };
    println!("{n_devices}");
    Ok(())
}
