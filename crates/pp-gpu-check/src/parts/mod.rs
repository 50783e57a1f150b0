//! The checks, part by part. A file uses only what stands above it in this list.
//!
//! | room | what is in it |
//! |---|---|
//! | `way` | how two ranks come to share a GPU |
//! | `tensors` | the device that tensors are on |
//! | `trainer` | the trainer as a process of this program, and what it wrote |
//! | `patterns` | memory on the device with contents that can be told from others |
//! | `facts` | the GPU, its driver, NCCL |
//! | `ops` | every operation against the processor's |
//! | `one` | NCCL with one rank |
//! | `pair/` | two ranks on one GPU: transfers, and whole pipelines |
//! | `training` | training steps against the processor's |
//! | `figures` | how fast it is |

#[cfg(feature = "nccl")]
mod facts;
mod figures;
#[cfg(feature = "nccl")]
mod one;
mod ops;
#[cfg(feature = "nccl")]
mod pair;
#[cfg(feature = "nccl")]
mod patterns;
mod tensors;
mod trainer;
mod training;
mod way;

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::budget::PartName;
use crate::conduct::Plan;
use crate::report::Ground;

/// The trainer, as a part's name.
const TRAINER: &str = "trainer";
/// One rank of two, as a part's name.
#[cfg(feature = "nccl")]
const PAIR_RANK: &str = "pair-rank";

/// How many GPUs the process may see; 0 also where there is no driver.
///
/// # Errors
/// The driver does not open, or this build has none to open.
pub fn count_devices() -> Result<usize> {
    #[cfg(feature = "nccl")]
    return facts::count();
    #[cfg(not(feature = "nccl"))]
    bail!("this build of pp-gpu-check needs the feature `cuda`: `cargo xtask cuda-build` builds it");
}

/// Whether there is what the ground asks for.
///
/// # Errors
/// In one line: what is missing.
pub fn ready(ground: Ground, device: u32) -> Result<()> {
    let lacking = match ground {
        Ground::Cpu => return Ok(()),
        Ground::Cuda => (!cfg!(feature = "cuda")).then_some("cuda"),
        Ground::Emulator => (!cfg!(feature = "nccl")).then_some("nccl"),
    };
    if let Some(feature) = lacking {
        bail!(
            "this build of pp-gpu-check needs the feature `{feature}`: `cargo xtask cuda-build` builds it with CUDA; --on cpu \
             rehearses without"
        );
    }
    match count_devices()? {
        0 => bail!("no GPU: the CUDA driver has no device, or there is no driver; nothing was run"),
        n if device as usize >= n => bail!("--device {device}: the last GPU that this process may see is {}", n - 1),
        _ => Ok(()),
    }
}

/// Makes one part, in this process, and tells what it finds.
///
/// # Errors
/// What keeps the part from being made at all. What a check finds is told, and is no error.
pub fn run(part: &str, ground: Ground, device: u32, rest: &[OsString]) -> Result<()> {
    let plan = Plan { ground, device, parts: &[] };
    if part == TRAINER {
        return trainer::run(rest);
    }
    #[cfg(feature = "nccl")]
    if part == PAIR_RANK {
        return pair::rank(plan);
    }
    let Some(name) = PartName::ALL.into_iter().find(|name| name.name() == part) else {
        bail!("--part {part} is no part");
    };
    match name {
        PartName::Ops => ops::run(plan),
        PartName::Training => training::run(plan),
        PartName::Figures => figures::run(plan),
        #[cfg(feature = "nccl")]
        PartName::Facts => facts::run(plan),
        #[cfg(feature = "nccl")]
        PartName::Nccl => one::run(plan),
        #[cfg(feature = "nccl")]
        PartName::Pair => pair::run(plan),
        #[cfg(not(feature = "nccl"))]
        PartName::Facts | PartName::Nccl | PartName::Pair => bail!("the part {part} needs the feature `nccl`"),
    }
}
