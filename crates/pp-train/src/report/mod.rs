//! What rank 0 tells: tables before the first step, lines or a bar during, a summary after, and the metrics file.

mod metrics;
mod summary;
mod tables;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::config::TrainConfig;
use crate::outcome::Outcome;
use crate::records::{IterationRecord, ValidationRecord};

pub(crate) use metrics::Metrics;
use summary::{final_record, summary};
pub(crate) use tables::before;

/// Where progress goes.
#[derive(Debug)]
enum Progress {
    /// Nowhere.
    Silent,
    /// A line per step.
    Lines,
    /// A bar on a terminal.
    Bar(ProgressBar),
}

/// Tells how the run goes.
#[derive(Debug)]
pub struct Report {
    progress: Progress,
    metrics_path: Option<PathBuf>,
    /// The file at that path, once training starts.
    metrics: Option<Metrics>,
    n_iterations: u32,
    unigram_entropy: f64,
}

impl Report {
    /// Tells nobody.
    pub fn silent() -> Self {
        let progress = Progress::Silent;
        Self { progress, metrics_path: None, metrics: None, n_iterations: 0, unigram_entropy: 0.0 }
    }

    /// Tells the metrics file, and standard output: a bar where that is a terminal of this process alone, else lines.
    pub fn new(config: &TrainConfig, unigram_entropy: f64) -> Self {
        if config.place.rank() != 0 {
            return Self::silent();
        }
        let alone = config.place.is_alone();
        let progress = if alone && std::io::stdout().is_terminal() { bar(config.train_iters) } else { Progress::Lines };
        let metrics_path = config.metrics.clone();
        Self { progress, metrics_path, metrics: None, n_iterations: config.train_iters, unigram_entropy }
    }

    /// Every rank is there and step 0 is next. Only now a metrics file of an earlier run is overwritten.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.metrics = self.metrics_path.as_deref().map(Metrics::create).transpose()?;
        Ok(())
    }

    /// A training step is done.
    pub(crate) fn iteration(&mut self, record: &IterationRecord) -> Result<()> {
        if let Some(metrics) = &mut self.metrics {
            metrics.write(record)?;
        }
        let line = iteration_line(record, self.n_iterations);
        match &self.progress {
            Progress::Silent => Ok(()),
            Progress::Lines => say(&line),
            Progress::Bar(bar) => {
                bar.set_message(figures(record));
                bar.inc(1);
                Ok(())
            }
        }
    }

    /// A validation is done.
    pub(crate) fn validation(&mut self, record: &ValidationRecord) -> Result<()> {
        if let Some(metrics) = &mut self.metrics {
            metrics.write(record)?;
        }
        let ValidationRecord { iteration, validation_loss } = *record;
        let line = format!(
            "validation after {iteration}/{} | loss {validation_loss:.4} | unigram entropy {:.4}",
            self.n_iterations, self.unigram_entropy
        );
        match &self.progress {
            Progress::Silent => Ok(()),
            Progress::Lines => say(&line),
            Progress::Bar(bar) => {
                bar.println(line);
                Ok(())
            }
        }
    }

    /// The run is done.
    pub(crate) fn end(&mut self, outcome: &Outcome) -> Result<()> {
        if let Some(metrics) = &mut self.metrics {
            metrics.write(&final_record(outcome))?;
        }
        match &self.progress {
            Progress::Silent => return Ok(()),
            Progress::Lines => {}
            Progress::Bar(bar) if outcome.stopped.is_some() => bar.abandon(),
            Progress::Bar(bar) => bar.finish(),
        }
        say(&summary(outcome))
    }
}

fn bar(n_iterations: u32) -> Progress {
    let bar = ProgressBar::with_draw_target(Some(u64::from(n_iterations)), ProgressDrawTarget::stdout());
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {eta}") {
        bar.set_style(style);
    }
    Progress::Bar(bar)
}

/// Writes to standard output. A launcher that no longer reads is an error, not a panic.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("cannot write to standard output")
}

fn figures(record: &IterationRecord) -> String {
    let IterationRecord { loss, grad_norm, lr, tokens_per_s, .. } = record;
    format!("loss {loss:.4} | grad norm {grad_norm:.2} | lr {lr:.1e} | {tokens_per_s:.0} tokens/s")
}

fn iteration_line(record: &IterationRecord, n_iterations: u32) -> String {
    format!("iteration {}/{n_iterations} | {}", record.iteration, figures(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_step_has_its_form() {
        let record = IterationRecord {
            iteration: 12,
            loss: 3.12341,
            grad_norm: 1.234,
            lr: 1e-3,
            tokens: 4096,
            step_ms: 331.8,
            tokens_per_s: 12345.2,
        };
        assert_eq!(
            iteration_line(&record, 80),
            "iteration 12/80 | loss 3.1234 | grad norm 1.23 | lr 1.0e-3 | 12345 tokens/s"
        );
    }
}
