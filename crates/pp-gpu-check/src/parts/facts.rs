//! The GPU, its driver, NCCL.

use std::fs;

use anyhow::{Result, ensure};
use nccl_rs::{Device, NcclError, Version, runtime_version};

use crate::conduct::Plan;
use crate::report::DeviceFacts;
use crate::tell::{self, Verdict, check};

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: u32 = 100;
/// Where Linux tells which driver is loaded.
const DRIVER: &str = "/proc/driver/nvidia/version";
/// What number formats and kernels need: bf16 in hardware.
const LEAST_CAPABILITY: (i32, i32) = (8, 0);
/// The oldest NCCL that is supported.
const LEAST_NCCL: Version = pp_comm::NcclSpec::MINIMUM;

pub(super) fn count() -> Result<usize> {
    Ok(match Device::count() {
        Err(NcclError::NoDriver | NcclError::Cuda { code: NO_DEVICE, .. }) => 0,
        counted => counted?,
    })
}

pub(super) fn run(plan: Plan<'_>) -> Result<()> {
    let nccl = runtime_version();
    check("the GPU", || {
        let device = Device::new(plan.device as usize)?;
        let context = device.context();
        let (major, minor) = context.compute_capability()?;
        let facts = DeviceFacts {
            name: context.name()?,
            n_devices: Device::count()?,
            capability: format!("{major}.{minor}"),
            memory_bytes: context.total_mem()? as u64,
            driver: fs::read_to_string(DRIVER).ok().and_then(|text| Some(text.lines().next()?.trim().to_owned())),
            nccl: nccl.as_ref().map(ToString::to_string).map_err(ToString::to_string),
        };
        let seen = format!("{}, capability {}, {} MiB", facts.name, facts.capability, facts.memory_bytes >> 20);
        tell::device(facts)?;
        let (least_major, least_minor) = LEAST_CAPABILITY;
        ensure!((major, minor) >= LEAST_CAPABILITY, "{seen}, but {least_major}.{least_minor} is needed for bf16");
        Ok(Verdict::Passed(seen))
    })?;
    check("NCCL's version", || {
        let version = nccl.clone()?;
        ensure!(version >= LEAST_NCCL, "{version} is loaded, but {LEAST_NCCL} is needed");
        Ok(Verdict::Passed(version.to_string()))
    })?;
    Ok(())
}
