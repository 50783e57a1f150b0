//! `cargo xtask cuda-build`: the binaries with the feature `cuda`, on machines with and without an installed toolkit.
//!
//! The way through: [`tools`] finds programs, [`installed`] looks for a toolkit; where there is none, [`space`] is checked and
//! [`wheels`] get one, which [`links`] completes; [`stub`] makes what is linked in place of the driver; [`stamp`] remembers that
//! all this is done; [`compile`] calls cargo, [`linked`] says what came of it.

mod compile;
mod installed;
mod linked;
mod links;
mod space;
mod stamp;
mod stub;
mod toolkit;
mod tools;
mod wheels;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;

use crate::workspace::root;
use toolkit::Toolkit;

/// Build pp-train and pp-gpu-check with the feature `cuda`
///
/// Needs no GPU. Uses the CUDA toolkit that is installed (CUDA_HOME, or nvcc on the PATH) where it is recent enough. Where
/// there is none, one is made under target/cuda from NVIDIA's Python wheels: that needs python3 with venv, the network and disk
/// space, once. See docs/gpu.md.
///
/// Exit codes: 0 built, 1 not built, 2 bad arguments.
#[derive(clap::Args, Debug)]
pub(crate) struct CudaBuildArgs {
    /// Where the toolkit and the build go [default: target/cuda]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Compute capability that kernels are compiled for, such as 90 for 9.0 (H100, H200)
    #[arg(long, value_name = "N", default_value_t = Options::CAPABILITY)]
    capability: u32,
    /// Make a toolkit from wheels also where one is installed
    #[arg(long)]
    wheels: bool,
    /// Packages to build
    #[arg(long, short, value_name = "NAME", default_values = ["pp-train", "pp-gpu-check"])]
    package: Vec<String>,
    /// Write what is done, what cargo says and how long each took to a file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// What to build, and where.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Where the toolkit and the build go.
    pub(crate) folder: PathBuf,
    /// Compute capability, as `CUDA_COMPUTE_CAP` has it: 90 is 9.0.
    pub(crate) capability: u32,
    /// Not even look for an installed toolkit.
    pub(crate) only_wheels: bool,
    /// Each has a feature `cuda` and a binary of its own name.
    pub(crate) packages: Vec<String>,
}

impl Options {
    /// H100, H200.
    pub(crate) const CAPABILITY: u32 = 90;

    /// What `cargo xtask cuda-build` builds without flags, of these packages.
    pub(crate) fn of(packages: &[&str]) -> Self {
        Self {
            folder: root().join("target").join("cuda"),
            capability: Self::CAPABILITY,
            only_wheels: false,
            packages: packages.iter().map(|&name| name.to_owned()).collect(),
        }
    }
}

/// What was built.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// The binaries, in the order of [`Options::packages`].
    pub(crate) binaries: Vec<PathBuf>,
    /// Folders with the CUDA libraries that the binaries were linked against: for `LD_LIBRARY_PATH` where the system's own loader
    /// does not find them. The driver is in none of them.
    pub(crate) library_folders: Vec<PathBuf>,
}

/// Gets a toolkit ready and builds; within seconds where all is up to date. `say` is told each step as a line. cargo's own words
/// go to this process's standard error.
///
/// # Errors
/// In one line: what is missing, or that a package does not build, which cargo has explained.
pub(crate) fn build(options: &Options, say: &mut dyn FnMut(&str)) -> anyhow::Result<Built> {
    let _ = (options, say);
    anyhow::bail!("not written yet")
}
