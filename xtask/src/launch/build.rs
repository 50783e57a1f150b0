//! Builds the trainer and finds where cargo put it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

use anyhow::Context;
use serde_json::Value;

use crate::workspace::cargo;

/// Builds `pp-train`; None when it does not build, for a reason that cargo has printed.
pub(crate) fn trainer(profile: &str) -> anyhow::Result<Option<PathBuf>> {
    let mut child = cargo()
        .args(["build", "--package", "pp-train", "--bin", "pp-train", "--profile", profile])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let stderr = child.stderr.take().context("cargo's stderr is piped")?;
    let talk = thread::spawn(move || forward_unless_fresh(stderr));
    let stdout = BufReader::new(child.stdout.take().context("cargo's stdout is piped")?);
    let mut executable = None;
    for line in stdout.lines() {
        executable = executable_in(&line?).or(executable);
    }
    let status = child.wait()?;
    let _ = talk.join();
    if !status.success() {
        return Ok(None);
    }
    executable.map(Some).context("cargo built pp-train but named no executable")
}

/// Shows cargo's output as it comes, but nothing at all when there was nothing to build.
fn forward_unless_fresh(stderr: impl Read) {
    let mut stderr = BufReader::new(stderr);
    let mut first = Vec::new();
    let _ = stderr.read_until(b'\n', &mut first);
    if String::from_utf8_lossy(&first).trim_start().starts_with("Finished") {
        return;
    }
    let mut ours = std::io::stderr();
    let _ = ours.write_all(&first);
    let _ = std::io::copy(&mut stderr, &mut ours);
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
