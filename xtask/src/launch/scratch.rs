//! A fresh directory that is gone when its owner is.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getuid, test_kill_process};

const PREFIX: &str = "pp-launch-";

/// Removed with all it holds on drop.
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Creates a directory that did not exist before and that only this user can read.
    pub(crate) fn new() -> io::Result<Self> {
        // Nothing depends on it.
        let _ = sweep(&std::env::temp_dir());
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        let pid = std::process::id();
        let mut attempt = 0;
        loop {
            let path = std::env::temp_dir().join(format!("{PREFIX}{pid}-{attempt}"));
            match builder.create(&path) {
                // A launcher that was killed left it behind, and its process id came round again.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
                Err(error) => return Err(error),
                Ok(()) => return Ok(Self(path)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and nothing depends on it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes what launchers of this user left in `folder` that could not clean up: they were killed.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)?.flatten() {
        let owner = entry.file_name().to_str().and_then(owner);
        // Of the entry itself, not of what a link leads to.
        let is_ours = || entry.metadata().is_ok_and(|entry| entry.is_dir() && entry.uid() == getuid().as_raw());
        if owner.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH)) && is_ours() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// The process that made a directory of this name.
fn owner(name: &str) -> Option<Pid> {
    let (pid, attempt) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(pid) && is_number(attempt)).then(|| Pid::from_raw(pid.parse().ok()?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_fresh_and_goes_with_its_contents() {
        let (a, b) = (ScratchDir::new().unwrap(), ScratchDir::new().unwrap());
        assert_ne!(a.path(), b.path());
        let file = a.path().join("file");
        std::fs::write(&file, "x").unwrap();
        drop(a);
        assert!(!file.exists() && b.path().exists());
    }

    #[test]
    fn what_dead_launchers_left_is_swept_and_nothing_else() {
        let folder = ScratchDir::new().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let alive = std::process::id();
        let kept = [format!("pp-launch-{alive}-0"), format!("pp-launch-{dead}"), format!("pp-launch-{dead}-x")];
        let kept = kept.into_iter().chain([format!("other-{dead}-0"), "pp-launch--1-0".into(), "pp-launch-0-0".into()]);
        let mut kept: Vec<String> = kept.collect();
        let left = folder.path().join(format!("pp-launch-{dead}-0"));
        for folder in kept.iter().map(|name| folder.path().join(name)).chain([left.clone()]) {
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("rank0"), "x").unwrap();
        }
        for (number, is_link) in [(1, false), (2, true)] {
            let name = format!("pp-launch-{dead}-{number}");
            let path = folder.path().join(&name);
            match is_link {
                true => std::os::unix::fs::symlink(folder.path(), path).unwrap(),
                false => std::fs::write(path, "a file").unwrap(),
            }
            kept.push(name);
        }
        sweep(folder.path()).unwrap();
        assert!(!left.exists());
        for name in kept {
            assert!(folder.path().join(&name).exists(), "{name}");
        }
    }
}
