//! The metrics file: a JSON object a line, each written through as it happens.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::files;

/// The file, open.
#[derive(Debug)]
pub(crate) struct Metrics {
    file: File,
    path: PathBuf,
}

impl Metrics {
    /// Starts the file afresh: what an earlier run wrote there is gone.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        // What can be found out was found out before the start; this is for what has changed since.
        files::check_writable("--metrics", path).map_err(|error| anyhow::anyhow!("{error}"))?;
        let file = File::create(path).with_context(|| format!("cannot write --metrics {}", path.display()))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Adds a line. Numbers stand in their shortest form that reads back as the same number.
    pub(crate) fn write(&mut self, record: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_string(record)?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).with_context(|| format!("cannot write --metrics {}", self.path.display()))
    }
}
