//! `cargo xtask cuda-build`: the binaries with the feature `cuda`, on machines with and without an installed toolkit.
//!
//! The way through: [`tools`] finds programs, [`installed`] looks for a toolkit; where there is none, [`space`] is checked and
//! [`wheels`] get one, which [`links`] completes; [`stub`] makes what is linked in place of the driver; [`stamp`] remembers that
//! all this is done; [`compile`] calls cargo, [`linked`] says what came of it.

mod command;
mod compile;
mod installed;
pub(crate) mod linked;
mod links;
#[cfg(test)]
pub(crate) mod scratch;
mod space;
mod stamp;
mod stub;
mod toolkit;
pub(crate) mod tools;
mod wheels;

use std::path::PathBuf;

use anyhow::Context;

use crate::workspace::root;
pub(crate) use command::{CudaBuildArgs, run};
use installed::Found;
use toolkit::Toolkit;
use wheels::Laid;

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

/// The installed toolkit, or that of an earlier run, or a new one.
fn toolkit(options: &Options, say: &mut dyn FnMut(&str)) -> anyhow::Result<Toolkit> {
    let folder = &options.folder;
    let found = if options.only_wheels { Found::Nothing } else { installed::look(|name| std::env::var_os(name)) };
    match found {
        Found::Usable { home, libraries, release } => {
            say(&format!("CUDA {release} is installed in {}", home.display()));
            // A toolkit brings a stub of the driver, but hardly ever NCCL.
            let own = folder.join("stubs");
            let mut stubs = vec![libraries.join("stubs")];
            if !stubs[0].join("libcuda.so").exists() {
                stub::driver(&home, &own)?;
                stubs = vec![own.clone()];
            }
            if !libraries.join("libnccl.so").exists() {
                say("it brings no NCCL: that is looked for when a binary runs");
                stub::nccl(&own)?;
                stubs.push(own);
            }
            stubs.dedup();
            return Ok(Toolkit { home, libraries: vec![libraries], stubs });
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
        let laid = wheels::laid(folder)?;
        links::lay(&laid)?;
        // Before the first build: what is compiled against the toolkit links against it.
        stub::driver(&laid.home, &stubs_of(&laid))?;
        stamp::put(folder)?;
    }
    let laid = wheels::laid(folder)?;
    let stubs = vec![stubs_of(&laid)];
    Ok(Toolkit { libraries: vec![laid.home.join("lib"), laid.nccl.join("lib")], home: laid.home, stubs })
}

/// Where toolkits have theirs.
fn stubs_of(laid: &Laid) -> PathBuf {
    laid.home.join("lib").join("stubs")
}
