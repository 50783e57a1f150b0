//! Linking without CUDA's libraries: the binaries leave their functions open, and open the libraries themselves when they run
//! (`nccl_rs::open_cuda_libraries`). So they link on machines that have neither driver nor libraries, start on machines that lack
//! some, and say in a line of their own what is missing, where the loader would end them.
//!
//! cudarc and candle ask the linker for each library by name; what it finds here is empty. The runtime, `libcudart`, is linked in:
//! compiled kernels register with it before `main`.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::tools;

/// What the linker is asked for, and gets nothing of.
const EMPTY: [&str; 6] = ["cuda", "cublas", "cublasLt", "curand", "nvrtc", "nccl"];

/// What binaries open when they run, the driver first, by the names of CUDA 13; `nccl-rs` opens these and NCCL.
pub(crate) const OPENED: [&str; 5] =
    ["libcuda.so.1", "libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10", "libnvrtc.so.13"];

/// What the names of open functions may begin with: driver, cuBLAS, cuRAND, NVRTC.
const OPEN: [&str; 4] = ["cu", "cublas", "curand", "nvrtc"];

/// The runtime, as a part of the binary.
const RUNTIME: &str = "libcudart_static.a";

/// A folder for the linker to look in first, where the toolkit's libraries are in another.
///
/// # Errors
/// In one line: a toolkit without a runtime to link in, or what the system says.
pub(super) fn lay(folder: &Path, libraries: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for name in EMPTY {
        let file = folder.join(format!("lib{name}.so"));
        // A script of the linker's own language.
        fs::write(&file, "/* opened when the program runs */\nINPUT()\n")
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let runtime = libraries.join(RUNTIME);
    if !runtime.is_file() {
        bail!("{} has no {RUNTIME}", libraries.display());
    }
    let link = folder.join("libcudart.a");
    match fs::remove_file(&link) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", link.display()));
        }
        _ => {}
    }
    std::os::unix::fs::symlink(&runtime, &link).with_context(|| format!("cannot link {}", link.display()))
}

/// What rustc is told: to look in that folder, to let functions stay open, and to bind them at their first call.
pub(super) fn flags(folder: &Path) -> Vec<OsString> {
    let mut search = OsString::from("native=");
    search.push(folder);
    let told = ["-C", "relro-level=partial", "-C", "link-arg=-Wl,--unresolved-symbols=ignore-all"];
    ["-L".into(), search].into_iter().chain(told.map(OsString::from)).collect()
}

/// How many functions a binary leaves open.
///
/// # Errors
/// Where it leaves one open that none of CUDA's libraries has by its name; that there is no nm, or what it says.
pub(super) fn left_open(binary: &Path) -> anyhow::Result<usize> {
    let nm = tools::on_path("nm").context("there is no nm (binutils) to see what a binary leaves open")?;
    let said = tools::said(Command::new(nm).args(["-D", "--undefined-only"]).arg(binary).env("LC_ALL", "C"), "nm")?;
    let names = open_names(&said);
    match names.iter().find(|name| !is_cudas(name)) {
        Some(name) => bail!("{} leaves {name} open, which is no function of CUDA's libraries", binary.display()),
        None => Ok(names.len()),
    }
}

/// `                 U cuInit`; what is another library's has a version (`U malloc@GLIBC_2.2.5`) and what may be missing is weak.
fn open_names(said: &str) -> Vec<&str> {
    let undefined = said.lines().filter_map(|line| line.trim().strip_prefix("U "));
    undefined.filter(|name| !name.contains('@')).collect()
}

fn is_cudas(name: &str) -> bool {
    OPEN.iter()
        .any(|begin| name.strip_prefix(begin).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase())))
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use std::path::PathBuf;

    use super::*;

    fn laid() -> Scratch {
        let scratch = Scratch::new();
        fs::write(scratch.path().join(RUNTIME), "!<arch>\n").unwrap();
        // The second time over what is there.
        for _ in 0..2 {
            lay(&scratch.path().join("lazy"), scratch.path()).unwrap();
        }
        scratch
    }

    /// A program that calls a function of a library that there is not.
    fn link(scratch: &Scratch, called: &str) -> PathBuf {
        let (source, program) = (scratch.path().join("p.rs"), scratch.path().join(called));
        let text = format!(
            "#[link(name = \"cuda\")] unsafe extern \"C\" {{ fn {called}(x: u32) -> i32; }}\n\
             fn main() {{ if std::env::args().count() > 1 {{ unsafe {{ {called}(0) }}; }} println!(\"up\"); }}"
        );
        fs::write(&source, text).unwrap();
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition", "2024"]).arg(&source).arg("-o").arg(&program);
        rustc.args(flags(&scratch.path().join("lazy")));
        tools::said(&mut rustc, "rustc").unwrap();
        program
    }

    #[test]
    fn a_program_links_without_the_library_starts_without_it_and_only_falls_where_it_calls() {
        let scratch = laid();
        let program = link(&scratch, "cuInit");
        assert_eq!(left_open(&program).unwrap(), 1);
        let up = Command::new(&program).output().unwrap();
        assert!(up.status.success() && up.stdout == b"up\n", "{up:?}");
        assert!(!Command::new(&program).arg("call").output().unwrap().status.success());
    }

    #[test]
    fn a_function_of_no_library_does_not_stay_open_unseen() {
        let scratch = laid();
        let error = left_open(&link(&scratch, "cumulate")).unwrap_err().to_string();
        assert!(error.contains("leaves cumulate open"), "{error}");
    }

    #[test]
    fn a_toolkit_needs_the_runtime() {
        let scratch = Scratch::new();
        let error = lay(&scratch.path().join("lazy"), scratch.path()).unwrap_err().to_string();
        assert!(error.ends_with("has no libcudart_static.a"), "{error}");
    }
}
