//! `cargo xtask gpu-check`: what only a machine with a GPU can show, in under 8 minutes.
//!
//! [`driver`] finds out whether there is a GPU, [`libraries`] finds what the binary is linked against, [`watch`] runs it and ends
//! it when its time is up. What is checked the binary knows: `crates/pp-gpu-check`.

mod driver;
mod libraries;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::cuda_build::{self, Options};
use driver::Seen;

/// Check on a GPU what can only be checked there
///
/// Every operation against the CPU, NCCL on one GPU, ten training steps against the CPU's, and how fast that is; in under 8
/// minutes, by the binary pp-gpu-check, which `cargo xtask cuda-build` builds on any machine. Without a GPU it says so and runs
/// nothing: that counts as nothing.
///
/// Exit codes: 0 all passed, or there is no GPU; 1 something failed; 2 bad arguments.
#[derive(clap::Args, Debug)]
pub(crate) struct GpuCheckArgs {
    /// A pp-gpu-check that was carried here [default: it is built]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Write the results as JSON to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Which GPU, of those that the process may see
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
}

/// The binary ends by itself before; this is for one that hangs in the driver.
const LIMIT: Duration = Duration::from_secs(490);

pub(crate) fn run(args: &GpuCheckArgs) -> anyhow::Result<u8> {
    if let Some(binary) = args.binary.as_deref().filter(|binary| !binary.is_file()) {
        crate::say(&format!("error: --binary {} is no file", binary.display()));
        return Ok(2);
    }
    if !driver::is_installed() {
        return Ok(nothing(&driver::absent()));
    }
    let carried = match &args.binary {
        Some(binary) => Some((binary.clone(), libraries::search_path(&libraries::known_folders())?)),
        None => None,
    };
    let seen = driver::count(carried.as_ref().map(|(binary, path)| (binary.as_path(), path.as_deref())))?;
    match seen {
        Seen::Nothing(why) => return Ok(nothing(&why)),
        Seen::Devices(n) if u64::from(args.device) >= n => {
            let last = n - 1;
            crate::say(&format!("error: --device {}: the last GPU that this process may see is {last}", args.device));
            return Ok(2);
        }
        Seen::Devices(n) => println!("{n} GPU{} found", if n == 1 { "" } else { "s" }),
    }
    let (binary, path) = match carried {
        Some(carried) => carried,
        None => {
            let (binary, mut folders) = built()?;
            folders.extend(libraries::known_folders());
            let path = libraries::search_path(&folders)?;
            (binary, path)
        }
    };
    check(&binary, args, path)
}

/// Says that there is no GPU; the exit code.
fn nothing(why: &str) -> u8 {
    println!("no GPU: {why}; nothing was run, and this counts as nothing");
    0
}

/// The binary, and where its libraries are.
fn built() -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
    let built = cuda_build::build(&Options::of(&["pp-gpu-check"]), &mut crate::say)?;
    let binary = built.binaries.into_iter().next().context("nothing was built")?;
    Ok((binary, built.library_folders))
}

fn check(binary: &Path, args: &GpuCheckArgs, path: Option<OsString>) -> anyhow::Result<u8> {
    let mut command = Command::new(binary);
    command.args(["--device".into(), args.device.to_string()]);
    if let Some(json) = &args.json {
        command.arg("--json").arg(json);
    }
    if let Some(path) = path {
        command.env(libraries::VARIABLE, path);
    }
    match watch::to_end(&mut command, LIMIT)? {
        Some(0) => Ok(0),
        Some(code) => bail!("pp-gpu-check found failures (exit code {code}); they are listed above"),
        None => bail!("pp-gpu-check was ended by a signal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_is_not_there_is_a_bad_argument() {
        let args = GpuCheckArgs { binary: Some("/no/such/file".into()), json: None, device: 0 };
        assert_eq!(run(&args).unwrap(), 2);
    }
}
