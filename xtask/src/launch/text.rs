//! The default data: Rust sources of a few dependencies. Real text, on every machine that has built the workspace, and
//! the same bytes wherever `Cargo.lock` is the same.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::failure::Ended;
use super::helper;
use super::signals::Signals;
use super::voice::{Stream, Voice};
use crate::workspace::{cargo, rust_files};

/// Direct dependencies of the workspace's binaries, so `Cargo.lock` has them and a build has downloaded them.
const PACKAGES: [&str; 3] = ["clap_builder", "indicatif", "rayon"];
/// Room for all three today; a bound on what a later version may bring.
const MAX_BYTES: usize = 4 << 20;

/// How long cargo may take, which may have to download something.
const LIMIT: Duration = Duration::from_secs(120);

/// A package as cargo has unpacked it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    folder: PathBuf,
}

/// Writes the text, says where it comes from, and returns its path.
pub(crate) fn write_default(signals: &Signals, voice: &Voice) -> anyhow::Result<PathBuf> {
    write(signals, voice).map_err(|error| match error.is::<Ended>() {
        // Interrupted: the text is not to blame.
        true => error,
        false => error.context("no default text; give one with --data FILE, or train with --mock-data"),
    })
}

fn write(signals: &Signals, voice: &Voice) -> anyhow::Result<PathBuf> {
    let metadata = metadata(signals)?;
    let packages = packages(&metadata)?;
    let text = text(&packages)?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    let names: Vec<String> = packages.iter().map(|p| format!("{}-{}", p.name, p.version)).collect();
    let path = Path::new(target).join("pp-data").join(format!("{}.txt", names.join("+")));
    write_atomically(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    let origin = format!("data: Rust sources of {}, {} bytes ({})\n", names.join(", "), text.len(), path.display());
    voice.say(Stream::Stdout, origin);
    Ok(path)
}

/// What cargo knows of the packages built for this machine: those are sure to be downloaded.
fn metadata(signals: &Signals) -> anyhow::Result<Value> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = helper::output(Command::new(rustc).arg("-vV"), "rustc", Some(LIMIT), signals)?;
    let version = String::from_utf8_lossy(&version.stdout);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    let ask = |network: &[&str]| {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", host]).args(network);
        helper::output(&mut command, "cargo metadata", Some(LIMIT), signals)
    };
    let mut answer = ask(&["--offline"])?;
    if !answer.status.success() {
        answer = ask(&[])?;
    }
    if !answer.status.success() {
        let stderr = String::from_utf8_lossy(&answer.stderr);
        bail!("cargo metadata failed: {}", stderr.trim());
    }
    Ok(serde_json::from_slice(&answer.stdout)?)
}

fn packages(metadata: &Value) -> anyhow::Result<Vec<Package>> {
    let all = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut found: Vec<Package> = all.iter().filter_map(locked_package).collect();
    found.sort();
    // Of several versions, the lowest: which one matters less than that it is always the same.
    found.dedup_by(|later, kept| later.name == kept.name);
    if found.is_empty() {
        bail!("none of {} is a locked dependency", PACKAGES.join(", "));
    }
    Ok(found)
}

fn locked_package(package: &Value) -> Option<Package> {
    let name = package["name"].as_str().filter(|name| PACKAGES.contains(name))?;
    // A package by path or git is not held fixed by a checksum in Cargo.lock.
    package["source"].as_str().filter(|source| source.starts_with("registry+") || source.starts_with("sparse+"))?;
    let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_path_buf();
    Some(Package { name: name.into(), version: package["version"].as_str()?.into(), folder })
}

/// The packages' sources one after another, each package's files in the order of their paths, cut after whole lines.
fn text(packages: &[Package]) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    for package in packages {
        let folder = package.folder.join("src");
        for file in rust_files(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let source = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            if std::str::from_utf8(&source).is_ok() {
                text.extend_from_slice(&source);
            }
        }
    }
    if text.len() > MAX_BYTES {
        let lines_end = text[..MAX_BYTES].iter().rposition(|&byte| byte == b'\n').map_or(MAX_BYTES, |at| at + 1);
        text.truncate(lines_end);
    }
    Ok(text)
}

/// Leaves a whole file at `path` at every moment, also with another launcher at the same work.
fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let unfinished = folder.join(format!(".unfinished-{}", std::process::id()));
    let mut file = fs::File::create(&unfinished)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::super::scratch::ScratchDir;
    use super::*;

    fn package(scratch: &ScratchDir, name: &str, files: &[(&str, &[u8])]) -> Package {
        let folder = scratch.path().join(name);
        for (path, bytes) in files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        Package { name: name.into(), version: "1.0.0".into(), folder }
    }

    #[test]
    fn sources_come_in_the_order_of_their_paths_and_nothing_else_does() {
        let scratch = ScratchDir::new().unwrap();
        let b = package(
            &scratch,
            "b",
            &[
                ("src/z.rs", b"z\n"),
                ("src/a/m.rs", b"m\n"),
                ("src/not.txt", b"no"),
                ("build.rs", b"no"),
                ("src/bad.rs", &[0xff]),
            ],
        );
        let c = package(&scratch, "c", &[("src/lib.rs", b"c\n")]);
        assert_eq!(text(&[b, c]).unwrap(), b"m\nz\nc\n");
    }

    #[test]
    fn a_long_text_is_cut_after_a_whole_line() {
        let scratch = ScratchDir::new().unwrap();
        let line = [b'x'; 99].iter().chain(b"\n").copied();
        let long: Vec<u8> = line.collect::<Vec<u8>>().repeat(MAX_BYTES / 100 + 2);
        let text = text(&[package(&scratch, "long", &[("src/lib.rs", &long)])]).unwrap();
        assert_eq!(text.len(), MAX_BYTES / 100 * 100);
    }

    #[test]
    fn locked_registry_packages_are_picked_in_a_fixed_order() {
        let entry = |name: &str, version: &str, source: Option<&str>| serde_json::json!({"name": name, "version": version, "source": source, "manifest_path": format!("/r/{name}-{version}/Cargo.toml")});
        let registry = Some("registry+https://example.org");
        let metadata = serde_json::json!({"packages": [
            entry("rayon", "1.2.0", registry),
            entry("indicatif", "0.9.0", None),
            entry("clap_builder", "4.1.0", registry),
            entry("serde", "1.0.0", registry),
            entry("rayon", "1.1.0", registry),
        ]});
        let picked: Vec<_> = packages(&metadata).unwrap().into_iter().map(|p| p.folder).collect();
        assert_eq!(picked, [Path::new("/r/clap_builder-4.1.0"), Path::new("/r/rayon-1.1.0")]);
        assert!(packages(&serde_json::json!({"packages": []})).is_err());
    }

    #[test]
    fn this_workspaces_text_is_the_same_every_time_and_long_enough() {
        let packages = packages(&metadata(&Signals::catch().unwrap()).unwrap()).unwrap();
        assert_eq!(packages.len(), PACKAGES.len());
        let once = text(&packages).unwrap();
        assert_eq!(once, text(&packages).unwrap());
        assert!(once.len() > 1 << 20, "{} bytes", once.len());
    }

    #[test]
    fn writing_leaves_one_whole_file() {
        let scratch = ScratchDir::new().unwrap();
        let path = scratch.path().join("deep").join("text.txt");
        for bytes in [&b"first"[..], b"second", b"second"] {
            write_atomically(&path, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
