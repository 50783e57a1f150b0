//! The launcher and the trainer, built once in the profile of the test that runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the binaries are.
#[derive(Debug)]
pub struct Binaries {
    /// `cargo xtask`.
    pub xtask: PathBuf,
    /// The trainer.
    pub trainer: PathBuf,
}

/// Builds the binaries, the first time it is called, and says where they are.
///
/// # Panics
/// When they do not build.
pub fn binaries() -> &'static Binaries {
    static BUILT: OnceLock<Binaries> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> Binaries {
    // A test is target/PROFILE/deps/NAME-HASH; the folder of the profile `dev` is called `debug`.
    let test = std::env::current_exe().expect("a running test has a path");
    let folder = test.ancestors().nth(2).expect("a test is in target/PROFILE/deps").to_path_buf();
    let target = folder.parent().expect("a profile's folder is in the target folder");
    let profile = match folder.file_name().and_then(|name| name.to_str()).expect("profiles are named in ASCII") {
        "debug" => "dev",
        other => other,
    };
    // The whole workspace, as in `cargo test --workspace`: of another selection cargo would build dependencies anew.
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()))
        .args(["build", "--quiet", "--workspace", "--bins", "--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(workspace_root())
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "the binaries do not build: {status}");
    Binaries { xtask: folder.join("xtask"), trainer: folder.join("pp-train") }
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a folder of the workspace")
}
