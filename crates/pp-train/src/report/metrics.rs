//! The metrics file: a JSON object a line, each written through as it happens.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::invalid::Invalid;

/// The file, open.
#[derive(Debug)]
pub(crate) struct Metrics {
    file: File,
    path: PathBuf,
}

impl Metrics {
    /// Starts the file afresh.
    ///
    /// # Errors
    /// [`Invalid`] when it cannot be written.
    pub(crate) fn create(path: &Path) -> Result<Self, Invalid> {
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Whether the file can be written, without changing it or leaving a new one.
    ///
    /// # Errors
    /// [`Invalid`] when it cannot.
    pub(crate) fn check(path: &Path) -> Result<(), Invalid> {
        let existed = path.exists();
        OpenOptions::new().append(true).create(true).open(path).map_err(|error| unwritable(path, &error))?;
        if !existed {
            std::fs::remove_file(path).map_err(|error| unwritable(path, &error))?;
        }
        Ok(())
    }

    /// Adds a line. Numbers stand in their shortest form that reads back as the same number.
    pub(crate) fn write(&mut self, record: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_string(record)?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).with_context(|| format!("cannot write --metrics {}", self.path.display()))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Invalid {
    Invalid(format!("--metrics {} cannot be written: {error}; give a file in a directory that can", path.display()))
}
