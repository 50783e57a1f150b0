//! A fresh directory for a test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Removed with all it holds on drop, also by a panic.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory that nothing else uses.
    ///
    /// # Panics
    /// When it cannot be created.
    #[expect(clippy::new_without_default, reason = "it creates a directory")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pp-test-{}-{count}", std::process::id()));
        // Left behind by a test that was killed, whose process id came round again.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("the temporary directory can be written");
        Self(path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it, as text for a command line.
    ///
    /// # Panics
    /// When the temporary directory's name is no text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).into_os_string().into_string().expect("the temporary directory's name is text")
    }

    /// A file with these bytes; returns its path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.file(name);
        std::fs::write(&path, bytes).expect("the temporary directory can be written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
