//! What is linked in place of libraries that a machine without a GPU lacks: the driver, and NCCL.
//!
//! The linker asks for a `libcuda.so`, which comes with the driver. A stub has the same names and the driver's own soname, so a
//! binary linked against it loads the real driver where it runs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::tools;

/// `CUDA_ERROR_NO_DEVICE`: what every function of the stub returns, should it ever be loaded.
const NO_DEVICE: u32 = 100;

/// Makes the driver's stub in a folder, with the functions that the toolkit's `cuda.h` names.
///
/// # Errors
/// In one line: no C compiler, or what it says.
pub(super) fn driver(home: &Path, stubs: &Path) -> anyhow::Result<()> {
    let header = home.join("include").join("cuda.h");
    let text = fs::read(&header).with_context(|| format!("cannot read {}", header.display()))?;
    let text = String::from_utf8_lossy(&text);
    let names = names(&text);
    if names.is_empty() {
        bail!("{} declares no functions", header.display());
    }
    compile(stubs, "cuda", "libcuda.so.1", &source(&names))?;
    // By its soname it can be loaded too, to see what a binary says without a device.
    let by_soname = stubs.join("libcuda.so.1");
    if fs::symlink_metadata(&by_soname).is_err() {
        std::os::unix::fs::symlink("libcuda.so", &by_soname).context("cannot link the driver's stub")?;
    }
    Ok(())
}

/// Makes an empty NCCL: its functions are looked up when a program runs, but the linker is told of it all the same.
///
/// # Errors
/// As [`driver`].
pub(super) fn nccl(stubs: &Path) -> anyhow::Result<()> {
    compile(stubs, "nccl", "libnccl.so.2", "")
}

/// The functions of the driver: every word `cu[A-Z]...`. Some are types; a function too many does no harm.
fn names(header: &str) -> BTreeSet<&str> {
    let words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| is_function(word)).collect()
}

fn is_function(word: &str) -> bool {
    word.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

fn source(names: &BTreeSet<&str>) -> String {
    names.iter().fold(String::new(), |mut text, name| {
        let _ = writeln!(text, "int {name}(void) {{ return {NO_DEVICE}; }}");
        text
    })
}

fn compile(folder: &Path, name: &str, soname: &str, source: &str) -> anyhow::Result<()> {
    let compiler = tools::on_path("cc").context("there is no C compiler: no cc on the PATH")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join(format!("{name}.c"));
    fs::write(&file, source).with_context(|| format!("cannot write {}", file.display()))?;
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-o"]).arg(folder.join(format!("lib{name}.so")));
    command.arg(format!("-Wl,-soname,{soname}")).arg(&file);
    tools::said(&mut command, "cc").with_context(|| format!("cannot make a stub of lib{name}.so"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    const HEADER: &str = "#define cuMemAlloc cuMemAlloc_v2\nCUresult CUDAAPI cuInit(unsigned int Flags);\n\
        typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult; /* cuda, cu, cumulative */\n";

    #[test]
    fn functions_are_read_from_the_header_also_those_behind_a_macro() {
        assert_eq!(names(HEADER).into_iter().collect::<Vec<_>>(), ["cuInit", "cuMemAlloc", "cuMemAlloc_v2"]);
    }

    #[test]
    fn a_stub_has_the_drivers_soname_and_functions() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path().join("include")).unwrap();
        fs::write(scratch.path().join("include/cuda.h"), HEADER).unwrap();
        let stubs = scratch.path().join("stubs");
        // The second time over what is there.
        for _ in 0..2 {
            driver(scratch.path(), &stubs).unwrap();
            nccl(&stubs).unwrap();
        }
        let object = fs::read(stubs.join("libcuda.so.1")).unwrap();
        let has = |name: &[u8]| object.windows(name.len()).any(|part| part == name);
        assert!(has(b"libcuda.so.1") && has(b"cuMemAlloc_v2"));
        assert!(stubs.join("libnccl.so").is_file());
    }
}
