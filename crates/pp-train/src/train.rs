//! The whole run on one rank, from the initial weights to the last validation.

use std::time::Instant;

use anyhow::Result;
use pp_comm::{Member, StepReport};
use pp_schedule::SlotClass;

use crate::config::TrainConfig;
use crate::data::Text;
use crate::programs::Programs;
use crate::report::{IterationRecord, Report, ValidationRecord};
use crate::trainer::Trainer;
use crate::{eval, step, sync};

/// What a run gives; the same on every rank, wall times aside.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The training steps.
    pub iterations: Vec<IterationRecord>,
    /// The validations, the last one included.
    pub validations: Vec<ValidationRecord>,
    /// Loss of the last validation.
    pub validation_loss: f64,
    /// Entropy of the text's bytes one by one.
    pub unigram_entropy: f64,
    /// Hash of the weights before the first step.
    pub initial_fingerprint: u128,
    /// Hash of the weights after the last step.
    pub weights_fingerprint: u128,
    /// By rank.
    pub ranks: Vec<RankFigures>,
}

/// What a rank did with its time and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankFigures {
    /// Peak resident memory of its process, where the system tells it.
    pub peak_rss_mib: Option<f64>,
    /// Seconds of all its training steps.
    pub total_s: f64,
    /// Seconds in computations of the program.
    pub busy_s: f64,
    /// Seconds in which the program waited for messages.
    pub wait_s: f64,
    /// The most activations that were kept for their backward at once, in microbatches of one chunk.
    pub peak_in_flight: usize,
}

impl RankFigures {
    fn add(&mut self, report: &StepReport) {
        self.busy_s += report.compute.as_secs_f64();
        self.wait_s += (report.wait_send + report.wait_receive).as_secs_f64();
        self.peak_in_flight = self.peak_in_flight.max(report.peak(SlotClass::Saved));
    }

    /// The share of its training steps that it computed.
    pub fn busy_share(&self) -> f64 {
        share(self.busy_s, self.total_s)
    }

    /// The share of its training steps that it waited.
    pub fn wait_share(&self) -> f64 {
        share(self.wait_s, self.total_s)
    }
}

impl Outcome {
    /// Tokens per second of the median step.
    pub fn median_tokens_per_s(&self) -> f64 {
        let mut rates: Vec<f64> = self.iterations.iter().map(|record| record.tokens_per_s).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let middle = rates.len() / 2;
        match rates.len() {
            0 => 0.0,
            len if len % 2 == 1 => rates[middle],
            _ => f64::midpoint(rates[middle - 1], rates[middle]),
        }
    }

    /// All tokens over the time of all training steps, validation not counted.
    pub fn overall_tokens_per_s(&self) -> f64 {
        let tokens: u64 = self.iterations.iter().map(|record| record.tokens).sum();
        let seconds: f64 = self.iterations.iter().map(|record| record.step_ms / 1e3).sum();
        share(tokens as f64, seconds)
    }

    /// The share of all ranks' training time that was spent waiting for another.
    pub fn wait_share(&self) -> f64 {
        let sum = |part: fn(&RankFigures) -> f64| self.ranks.iter().map(part).sum::<f64>();
        share(sum(|rank| rank.wait_s), sum(|rank| rank.total_s))
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Trains as one rank among `member`'s others, who must all do the same.
///
/// # Errors
/// When a rank is lost, training diverges, or the report cannot be written.
pub fn train(
    config: &TrainConfig,
    text: &Text,
    programs: Programs,
    member: &mut Member,
    report: &mut Report,
) -> Result<Outcome> {
    let mut trainer = Trainer::new(config, text, programs, member)?;
    let initial_fingerprint = sync::weights_fingerprint(&mut trainer.member.control, &trainer.stage)?;
    let mut iterations = Vec::with_capacity(config.train_iters as usize);
    let mut validations = Vec::new();
    let mut figures = RankFigures::default();
    for iteration in 0..config.train_iters {
        let start = Instant::now();
        let done = step::train_step(&mut trainer, iteration)?;
        let seconds = start.elapsed().as_secs_f64();
        figures.add(&done.report);
        let record = IterationRecord {
            iteration: iteration + 1,
            loss: done.loss,
            grad_norm: done.grad_norm,
            lr: done.lr,
            tokens: done.tokens,
            step_ms: seconds * 1e3,
            tokens_per_s: done.tokens as f64 / seconds,
        };
        report.iteration(&record)?;
        iterations.push(record);
        if config.validates_after(iteration) {
            validations.push(validate(&mut trainer, iteration + 1, report)?);
        }
    }
    let last = validate(&mut trainer, config.train_iters, report)?;
    validations.push(last);
    let weights_fingerprint = sync::weights_fingerprint(&mut trainer.member.control, &trainer.stage)?;
    figures.total_s = iterations.iter().map(|record| record.step_ms / 1e3).sum();
    figures.peak_rss_mib = peak_rss_mib();
    let outcome = Outcome {
        iterations,
        validations,
        validation_loss: last.validation_loss,
        unigram_entropy: text.unigram_entropy(),
        initial_fingerprint,
        weights_fingerprint,
        ranks: gather_figures(&mut trainer, figures)?,
    };
    report.end(&outcome)?;
    Ok(outcome)
}

fn validate(trainer: &mut Trainer<'_>, iteration: u32, report: &mut Report) -> Result<ValidationRecord> {
    let record = ValidationRecord { iteration, validation_loss: eval::validate(trainer)? };
    report.validation(&record)?;
    Ok(record)
}

fn gather_figures(trainer: &mut Trainer<'_>, mine: RankFigures) -> Result<Vec<RankFigures>> {
    let RankFigures { peak_rss_mib, total_s, busy_s, wait_s, peak_in_flight } = mine;
    let part = [peak_rss_mib.unwrap_or(f64::NAN), total_s, busy_s, wait_s, peak_in_flight as f64];
    let parts = trainer.member.control.all_gather_f64(&part)?;
    let figures = |part: &Vec<f64>| match part[..] {
        [peak, total_s, busy_s, wait_s, peak_in_flight] => RankFigures {
            peak_rss_mib: (!peak.is_nan()).then_some(peak),
            total_s,
            busy_s,
            wait_s,
            peak_in_flight: peak_in_flight as usize,
        },
        _ => RankFigures::default(),
    };
    Ok(parts.iter().map(figures).collect())
}

/// The most memory this process ever held, as Linux tells it.
fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}
