//! The metrics file: a JSON object a line, each written through as it happens.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::config::Invalid;

/// One training step. `iteration` counts from 1, like the lines on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IterationRecord {
    /// The step.
    pub iteration: u32,
    /// Mean loss over its tokens, in nats.
    pub loss: f64,
    /// Norm of the whole gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// Tokens that the loss counted.
    pub tokens: u64,
    /// Wall time on rank 0, in milliseconds.
    pub step_ms: f64,
    /// Tokens per second.
    pub tokens_per_s: f64,
}

/// One validation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ValidationRecord {
    /// The training steps done before it.
    pub iteration: u32,
    /// Mean loss over the tokens validated on, in nats.
    pub validation_loss: f64,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FinalRecord {
    /// Always true: what marks the line.
    pub r#final: bool,
    /// Loss of the last validation.
    pub validation_loss: f64,
    /// Entropy of the text's bytes one by one, in nats.
    pub unigram_entropy: f64,
    /// Median over the steps.
    pub tokens_per_s: f64,
    /// Hash of all weights.
    pub weights_fingerprint: String,
    /// Peak resident memory of each rank, where the system tells it.
    pub peak_rss_mib: Vec<Option<f64>>,
}

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
