//! `cargo xtask cuda-build`: the binaries with the feature `cuda`, on machines with and without an installed toolkit.
//!
//! The way through: [`tools`] finds programs, [`installed`] looks for a toolkit; where there is none, [`space`] is checked and
//! [`wheels`] get one; [`stamp`] remembers that this is done; [`lazy`] makes what is linked in place of CUDA's libraries;
//! [`compile`] calls cargo, [`linked`] says what came of it.

mod command;
mod compile;
mod installed;
pub(crate) mod lazy;
#[cfg(test)]
pub(crate) mod scratch;
mod size;
mod space;
mod stamp;
mod toolkit;
pub(crate) mod tools;
mod wheels;

use std::path::PathBuf;

use anyhow::Context;

use crate::workspace::root;
pub(crate) use command::{CudaBuildArgs, run};
use installed::Found;
use toolkit::Toolkit;

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
    /// Folders with the CUDA libraries that the binaries open: for `LD_LIBRARY_PATH` where the system's own loader does not find
    /// them. The driver is in none of them.
    pub(crate) library_folders: Vec<PathBuf>,
}

/// Gets a toolkit ready and builds; within seconds where all is up to date. `say` is told each step and cargo's words, a line at a
/// time.
///
/// # Errors
/// In one line: what is missing, or that a package does not build, which cargo has explained.
pub(crate) fn build(options: &Options, say: &mut dyn FnMut(&str)) -> anyhow::Result<Built> {
    let folder = &options.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    let options = Options { folder: folder.clone(), ..options.clone() };
    for (compiler, why) in [("cc", "links the binaries"), ("c++", "nvcc calls it for host code")] {
        anyhow::ensure!(tools::on_path(compiler).is_some(), "there is no {compiler} on the PATH: it {why}");
    }
    let toolkit = toolkit(&options, say)?;
    let binaries = compile::run(&options, &toolkit, say)?;
    Ok(Built { binaries, library_folders: toolkit.libraries })
}

/// The installed toolkit, or that of an earlier run, or a new one; with the folder that the linker looks in first.
fn toolkit(options: &Options, say: &mut dyn FnMut(&str)) -> anyhow::Result<Toolkit> {
    let (home, libraries) = found(options, say)?;
    let lazy = options.folder.join("lazy");
    let folder = Toolkit::library_folder(&home).with_context(|| format!("{} has no libraries", home.display()))?;
    lazy::lay(&lazy, &folder)?;
    Ok(Toolkit { home, libraries, lazy })
}

/// Where a toolkit is, and its libraries.
fn found(options: &Options, say: &mut dyn FnMut(&str)) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
    let folder = &options.folder;
    let found = if options.only_wheels { Found::Nothing } else { installed::look(|name| std::env::var_os(name)) };
    match found {
        Found::Usable { home, libraries, release } => {
            say(&format!("CUDA {release} is installed in {}", home.display()));
            return Ok((home, vec![libraries]));
        }
        Found::Unusable(why) => say(&format!("the installed CUDA will not do: {why}")),
        Found::Nothing => {}
    }
    if stamp::is_current(folder) {
        say(&format!("the toolkit in {} is up to date", folder.display()));
    } else {
        space::check(folder)?;
        stamp::take(folder);
        wheels::install(folder, say)?;
        wheels::laid(folder)?.complete()?;
        stamp::put(folder)?;
    }
    let laid = wheels::laid(folder)?;
    Ok((laid.home.clone(), vec![laid.home.join("lib"), laid.nccl.join("lib")]))
}
