//! NCCL's path on the emulated driver: builds `tests/cuda-emulator`, puts it where the loader looks for CUDA and NCCL, and
//! runs the tests that need it. A test double on host memory: it shows nothing about real hardware.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use serde_json::Value;

use super::{Passed, succeeds};
use crate::workspace::cargo;

const PACKAGE: &str = "cuda-emulator";

/// All names by which CUDA's driver and NCCL are looked for. One object behind them: two would not share what they know.
const NAMES: [&str; 4] = ["libcuda.so", "libcuda.so.1", "libnccl.so", "libnccl.so.2"];

/// What is tested with the emulator in the loader's way.
const TESTS: [&[&str]; 5] = [
    &["--package", PACKAGE],
    &["--package", "nccl-rs", "--features", "nccl,emulated"],
    &["--package", "pp-comm", "--features", "nccl"],
    &["--package", "pp-gpu-check", "--features", "nccl", "--test", "emulated"],
    &["--package", "pp-train", "--features", "nccl", "--test", "emulated"],
];

pub(super) fn check() -> anyhow::Result<Passed> {
    let library = build()?;
    let folder = lay_links(&library)?;
    let path = library_path(&folder, env::var_os("LD_LIBRARY_PATH"))?;
    let features = ["--features", "nccl-rs/nccl,nccl-rs/emulated,pp-comm/nccl,pp-train/nccl"];
    let packages = [PACKAGE, "nccl-rs", "pp-comm", "pp-train"].map(|package| ["--package", package]);
    let mut results = vec![succeeds(
        cargo()
            .arg("clippy")
            .args(packages.concat())
            .arg("--all-targets")
            .args(features)
            .args(["--", "-D", "warnings"]),
    )];
    for test in TESTS {
        results.push(succeeds(cargo().args(["test", "--no-fail-fast"]).args(test).env("LD_LIBRARY_PATH", &path)));
    }
    // All of them are run, also after one has failed.
    let failed: Vec<String> =
        results.iter().filter_map(|result| Some(format!("{:#}", result.as_ref().err()?))).collect();
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    println!(
        "emulator: clippy with NCCL's features, and the tests of {PACKAGE}, nccl-rs, pp-comm, pp-gpu-check and pp-train with {} as {}",
        library.display(),
        NAMES.join(", ")
    );
    Ok(Passed::Plainly)
}

/// Builds the emulator and gives the shared library.
fn build() -> anyhow::Result<PathBuf> {
    let arguments = ["build", "--package", PACKAGE, "--message-format", "json-render-diagnostics"];
    let output = cargo().args(arguments).stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo build --package {PACKAGE} failed ({})", output.status);
    }
    let messages = String::from_utf8(output.stdout).context("cargo's messages are UTF-8")?;
    shared_library(&messages).with_context(|| format!("cargo names no shared library of {PACKAGE}"))
}

/// The emulator's shared library among cargo's messages.
fn shared_library(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files: Vec<PathBuf> = messages
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == "cuda_emulator")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|name| name.as_str().map(PathBuf::from))
        .collect();
    files.into_iter().find(|file| file.extension().is_some_and(|extension| extension == "so"))
}

/// Makes the folder with the emulator's names, beside what cargo builds.
fn lay_links(library: &Path) -> anyhow::Result<PathBuf> {
    let built = library.parent().and_then(Path::parent).context("the shared library is in no folder of a profile")?;
    let folder = built.join(PACKAGE);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for name in NAMES {
        let link = folder.join(name);
        if fs::read_link(&link).is_ok_and(|target| target == library) {
            continue;
        }
        match fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", link.display()));
            }
            _ => symlink(library, &link).with_context(|| format!("cannot make {}", link.display()))?,
        }
    }
    Ok(folder)
}

/// The folder before whatever the loader looked in.
fn library_path(folder: &Path, before: Option<OsString>) -> anyhow::Result<OsString> {
    let before = before.filter(|path| !path.is_empty());
    let folders = std::iter::once(folder.to_path_buf()).chain(before.iter().flat_map(env::split_paths));
    env::join_paths(folders).with_context(|| format!("{} cannot be in LD_LIBRARY_PATH", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_library_is_found_among_the_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"name":"half"},"filenames":["/t/debug/libhalf.so"]}
{"reason":"compiler-artifact","target":{"name":"cuda_emulator"},"filenames":["/t/debug/libcuda_emulator.rlib","/t/debug/libcuda_emulator.so"]}
{"reason":"build-finished","success":true}"#;
        assert_eq!(shared_library(messages), Some(PathBuf::from("/t/debug/libcuda_emulator.so")));
        assert_eq!(shared_library("{\"reason\":\"build-finished\"}"), None);
    }

    #[test]
    fn the_emulator_comes_before_what_was_there() {
        let path = |before: Option<&str>| library_path(Path::new("/e"), before.map(OsString::from)).unwrap();
        assert_eq!(path(None), "/e");
        assert_eq!(path(Some("")), "/e");
        assert_eq!(path(Some("/a:/b")), "/e:/a:/b");
    }

    #[test]
    fn links_lead_to_the_library_also_where_others_were() {
        let target = env::temp_dir().join(format!("xtask-emulator-{}", std::process::id()));
        let library = target.join("debug/libcuda_emulator.so");
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        fs::write(&library, "it").unwrap();
        let folder = lay_links(&library).unwrap();
        fs::remove_file(folder.join(NAMES[0])).unwrap();
        symlink("/nowhere", folder.join(NAMES[0])).unwrap();
        assert_eq!(lay_links(&library).unwrap(), folder);
        let read = NAMES.map(|name| fs::read_to_string(folder.join(name)).unwrap_or_default());
        fs::remove_dir_all(&target).unwrap();
        assert_eq!(read, ["it"; 4]);
    }
}
