//! The command: what was typed, and what is said of the build.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;

use super::{Built, Options, build, lazy, size};

/// What there is to build: packages with a feature `cuda` and a binary of their own name.
const PACKAGES: [&str; 2] = ["pp-train", "pp-gpu-check"];
/// The lowest capability that the compiler of CUDA 13 knows, Turing's, and one above all that there are.
const CAPABILITIES: std::ops::Range<u32> = 75..200;

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
    #[arg(long, value_name = "N", default_value_t = Options::CAPABILITY, value_parser = capability)]
    capability: u32,
    /// Make a toolkit from wheels also where one is installed
    #[arg(long)]
    wheels: bool,
    /// Packages to build
    #[arg(long, short, value_name = "NAME", default_values = PACKAGES, value_parser = PACKAGES)]
    package: Vec<String>,
    /// Write what is done, what cargo says and how long each took to a file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// A capability as it was typed, `90` or `9.0`. What cannot be one is found before a toolkit is fetched and minutes go into a build.
fn capability(typed: &str) -> Result<u32, String> {
    let digits = match typed.split_once('.') {
        Some((major, minor)) if minor.len() == 1 => format!("{major}{minor}"),
        _ => typed.to_owned(),
    };
    let known = digits.parse().ok().filter(|number| CAPABILITIES.contains(number));
    known.ok_or_else(|| {
        format!(
            "it is a GPU's compute capability, {} or more with CUDA 13: 80 for 8.0 (A100), 90 for 9.0 (H100, H200)",
            CAPABILITIES.start
        )
    })
}

impl CudaBuildArgs {
    fn options(&self) -> Options {
        let names: Vec<&str> = self.package.iter().map(String::as_str).collect();
        let mut options = Options::of(&names);
        options.capability = self.capability;
        options.only_wheels = self.wheels;
        if let Some(folder) = &self.dir {
            options.folder.clone_from(folder);
        }
        options
    }
}

/// Builds, and says what came of it.
pub(crate) fn run(args: &CudaBuildArgs) -> anyhow::Result<u8> {
    let mut log = args.log.as_ref().map(Log::open).transpose()?;
    let start = Instant::now();
    let mut say = |line: &str| {
        crate::say(line);
        if let Some(log) = &mut log {
            log.note(start, line);
        }
    };
    let options = args.options();
    let done = build(&options, &mut say).and_then(|built| report(&options, &built, &mut say));
    match &done {
        Ok(()) => say(&format!("done in {:.0} s", start.elapsed().as_secs_f64())),
        // The caller says it once more, as the last line.
        Err(error) => {
            if let Some(log) = &mut log {
                log.note(start, &format!("error: {error:#}"));
            }
        }
    }
    done.map(|()| 0)
}

/// Sizes, what is linked, and how to take it elsewhere.
fn report(options: &Options, built: &Built, say: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let carry = options.folder.join("carry");
    for binary in &built.binaries {
        say(&format!("{}: {:.1} MiB", binary.display(), size::mib(binary)?));
        say(&format!(
            "  calls {} functions of CUDA's libraries, which it opens when it runs",
            lazy::left_open(binary)?
        ));
        let copy = size::strip(binary, &carry)?;
        say(&format!("  to be carried: {}: {:.1} MiB without symbols", copy.display(), size::mib(&copy)?));
    }
    let folders: Vec<String> = built.library_folders.iter().map(|folder| folder.display().to_string()).collect();
    say(&format!("to run them here: LD_LIBRARY_PATH={}", folders.join(":")));
    say(&format!(
        "elsewhere {} and libnccl.so.2 must be there; the first comes with the driver, and `cargo xtask gpu-check` finds \
         those of a toolkit or of PyTorch's wheels",
        lazy::OPENED.join(", ")
    ));
    Ok(())
}

/// Lines with the seconds since the start.
struct Log(File);

impl Log {
    fn open(file: &PathBuf) -> anyhow::Result<Self> {
        File::create(file).map(Self).with_context(|| format!("cannot write {}", file.display()))
    }

    fn note(&mut self, start: Instant, line: &str) {
        // A log that cannot be written is no reason to end a build.
        let _ = writeln!(self.0, "[{:7.1} s] {line}", start.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_taken_with_and_without_its_point() {
        for (typed, number) in [("90", 90), ("9.0", 90), ("75", 75), ("12.0", 120), ("121", 121)] {
            assert_eq!(capability(typed), Ok(number), "{typed}");
        }
        for typed in ["", "9", "12", "70", "7.0", "900", "9.00", "9.", "sm_90", "-90", "4294967386"] {
            assert!(capability(typed).is_err_and(|error| error.contains("75 or more")), "{typed}");
        }
    }
}
