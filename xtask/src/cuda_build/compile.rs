//! The build itself: cargo, with a folder of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, bail};
use serde_json::Value;

use super::Options;
use super::toolkit::Toolkit;
use crate::workspace::cargo;

/// Builds the packages and finds their binaries, in the order of the packages.
///
/// # Errors
/// That a package does not build, which cargo has explained; that there is no cargo.
pub(super) fn run(options: &Options, toolkit: &Toolkit, say: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<PathBuf>> {
    let mut command = cargo();
    command.args(arguments(&options.packages, &options.folder.join("build")));
    command.envs(toolkit.environment(options.capability, |name| std::env::var_os(name)));
    let built = follow(&mut command, say)?;
    options.packages.iter().map(|package| binary_of(package, &built)).collect()
}

/// `--features cuda` of each package by its name: only with its own feature does each build at all.
fn arguments(packages: &[String], target: &Path) -> Vec<std::ffi::OsString> {
    let mut words: Vec<std::ffi::OsString> =
        ["build", "--release", "--message-format=json-render-diagnostics", "--target-dir"].map(Into::into).into();
    words.push(target.into());
    for package in packages {
        words.extend(["--package".into(), package.into(), "--bin".into(), package.into()]);
        words.extend(["--features".into(), format!("{package}/cuda").into()]);
    }
    words
}

/// Runs cargo to its end: its messages are kept, its words passed on as they come.
fn follow(command: &mut Command, say: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<String>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let messages = child.stdout.take().map(|pipe| thread::spawn(move || lines(pipe).collect::<Vec<_>>()));
    if let Some(pipe) = child.stderr.take() {
        let (send, words) = mpsc::channel();
        thread::spawn(move || lines(pipe).try_for_each(|line| send.send(line)));
        words.iter().for_each(|line| say(&line));
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() {
        bail!("the build with CUDA failed ({status}); cargo says above why");
    }
    Ok(messages.and_then(|reader| reader.join().ok()).unwrap_or_default())
}

fn lines(pipe: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(pipe).split(b'\n').map_while(Result::ok).map(|line| String::from_utf8_lossy(&line).into_owned())
}

fn binary_of(package: &str, messages: &[String]) -> anyhow::Result<PathBuf> {
    let found = messages.iter().rev().find_map(|message| {
        let message: Value = serde_json::from_str(message).ok()?;
        let is_it = message["reason"] == "compiler-artifact" && message["target"]["name"] == package;
        is_it.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    });
    found.with_context(|| format!("cargo built {package} but named no executable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_is_built_with_its_feature() {
        let words = arguments(&["pp-train".into()], Path::new("/t"));
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words[3..],
            ["--target-dir", "/t", "--package", "pp-train", "--bin", "pp-train", "--features", "pp-train/cuda"]
        );
    }

    #[test]
    fn a_binary_is_found_in_cargos_messages() {
        let messages = [
            r#"{"reason":"compiler-artifact","target":{"name":"pp-train"},"executable":null}"#.to_owned(),
            r#"{"reason":"compiler-artifact","target":{"name":"pp-train"},"executable":"/t/pp-train"}"#.to_owned(),
            "no message".to_owned(),
        ];
        assert_eq!(binary_of("pp-train", &messages).unwrap(), Path::new("/t/pp-train"));
        assert!(binary_of("pp-gpu-check", &messages).is_err());
    }

    #[test]
    fn a_failing_build_is_one_line_after_its_words() {
        let mut heard = Vec::new();
        let script = "echo '{}'; echo 'error: no' >&2; exit 101";
        let error =
            follow(Command::new("sh").args(["-c", script]), &mut |line| heard.push(line.to_owned())).unwrap_err();
        assert_eq!(heard, ["error: no"]);
        assert_eq!(error.to_string(), "the build with CUDA failed (exit status: 101); cargo says above why");
    }
}
