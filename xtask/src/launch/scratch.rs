//! A fresh directory that is gone when its owner is.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Removed with all it holds on drop.
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Creates a directory that did not exist before and that only this user can read.
    pub(crate) fn new() -> io::Result<Self> {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        let pid = std::process::id();
        let mut attempt = 0;
        loop {
            let path = std::env::temp_dir().join(format!("pp-launch-{pid}-{attempt}"));
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
}
