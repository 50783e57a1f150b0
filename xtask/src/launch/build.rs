//! Builds the trainer and finds where cargo put it.

use std::path::PathBuf;
use std::sync::mpsc;

use anyhow::Context;
use serde_json::Value;

use super::helper::{self, Hear};
use super::signals::Signals;
use super::voice::{Stream, Voice};
use crate::workspace::cargo;

/// Builds `pp-train`. When it does not build, cargo has said why.
pub(crate) fn trainer(profile: &str, signals: &Signals, voice: &Voice) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command
        .args(["build", "--package", "pp-train", "--bin", "pp-train", "--profile", profile])
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
    anyhow::ensure!(status.success(), "pp-train does not build with profile {profile}");
    executables.try_iter().last().context("cargo built pp-train but named no executable")
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
    let is_trainer = message["reason"] == "compiler-artifact" && message["target"]["name"] == "pp-train";
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
