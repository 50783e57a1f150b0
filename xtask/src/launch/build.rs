//! Builds the trainer that a job needs and finds where cargo put it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;

use anyhow::Context;
use serde_json::Value;

use super::failure::Ended;
use super::gpu;
use super::helper::{self, Hear};
use super::program::Program;
use super::signals::Signals;
use super::voice::{Stream, Voice};
use crate::cuda_build;
use crate::workspace::cargo;

const TRAINER: &str = "pp-train";
/// The profile of what is built for GPUs.
const RELEASE: &str = "release";

/// What a trainer has to have in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// What every machine can build.
    Nothing,
    /// NCCL, which is looked for when it runs.
    Nccl,
    /// CUDA.
    Cuda,
}

/// Builds `pp-train`. When it does not build, cargo has said why.
pub(crate) fn trainer(needs: Needs, profile: &str, signals: &Signals, voice: &Voice) -> anyhow::Result<Program> {
    match needs {
        Needs::Nothing => with_cargo(&[], profile, signals, voice),
        Needs::Nccl => with_cargo(&["--features", "nccl"], profile, signals, voice),
        Needs::Cuda => with_cuda(profile, signals, voice),
    }
}

fn with_cargo(features: &[&str], profile: &str, signals: &Signals, voice: &Voice) -> anyhow::Result<Program> {
    let mut command = cargo();
    command
        .args(["build", "--package", TRAINER, "--bin", TRAINER, "--profile", profile])
        .args(features)
        .arg("--message-format=json-render-diagnostics");
    let (found, executables) = mpsc::channel();
    let hear = Hear {
        stdout: Box::new(move |line| {
            if let Some(executable) = executable_in(&String::from_utf8_lossy(&line)) {
                let _ = found.send(executable);
            }
        }),
        stderr: Box::new(forward_unless_fresh(voice.clone())),
    };
    // A build takes as long as it takes.
    let status = helper::follow(&mut command, "cargo", None, signals, hear)?;
    anyhow::ensure!(status.success(), "{TRAINER} does not build with profile {profile}");
    let binary = executables.try_iter().last().context("cargo built pp-train but named no executable")?;
    Ok(Program::plain(binary))
}

/// By `cargo xtask cuda-build`, in a process that can be ended with all it has started.
fn with_cuda(profile: &str, signals: &Signals, voice: &Voice) -> anyhow::Result<Program> {
    if profile != RELEASE {
        let reason =
            format!("--profile {profile} does not go with --device cuda, which is built with {RELEASE}; leave it out");
        return Err(Ended::refused(reason).into());
    }
    if let Some(reason) = gpu::why_none() {
        return Err(Ended { code: 1, reason }.into());
    }
    let this = std::env::current_exe().context("cannot tell where this program is")?;
    let mut command = Command::new(this);
    command.args(["cuda-build", "--package", TRAINER]);
    let forward = |stream| {
        let voice = voice.clone();
        Box::new(move |line: Vec<u8>| voice.say(stream, String::from_utf8_lossy(&line).into_owned()))
    };
    let hear = Hear { stdout: forward(Stream::Stdout), stderr: forward(Stream::Stderr) };
    let status = helper::follow(&mut command, "cargo xtask cuda-build", None, signals, hear)?;
    anyhow::ensure!(status.success(), "{TRAINER} does not build with CUDA; see above");
    // All is up to date: this says where it is.
    let built = cuda_build::build(&cuda_build::Options::of(&[TRAINER]), &mut |_| {})?;
    let binary = built.binaries.into_iter().next().context("cuda-build built pp-train but named no executable")?;
    Ok(Program { binary, library_folders: built.library_folders })
}

/// Shows cargo's lines as they come, but none at all when there was nothing to build.
fn forward_unless_fresh(voice: Voice) -> impl FnMut(Vec<u8>) {
    let mut is_fresh = None;
    move |line| {
        let line = String::from_utf8_lossy(&line).into_owned();
        if !*is_fresh.get_or_insert_with(|| line.trim_start().starts_with("Finished")) {
            voice.say(Stream::Stderr, line);
        }
    }
}

fn executable_in(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_trainer = message["reason"] == "compiler-artifact" && message["target"]["name"] == TRAINER;
    is_trainer.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_read_from_cargos_messages() {
        let library = r#"{"reason":"compiler-artifact","target":{"name":"pp-train"},"executable":null}"#;
        let binary = r#"{"reason":"compiler-artifact","target":{"name":"pp-train"},"executable":"/t/pp-train"}"#;
        assert_eq!(executable_in(library), None);
        assert_eq!(executable_in(binary), Some(PathBuf::from("/t/pp-train")));
        assert_eq!(executable_in("not a message"), None);
    }
}
