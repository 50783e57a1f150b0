//! The whole run on one rank, from the initial weights to the last validation.

use std::time::Instant;

use anyhow::Result;
use pp_comm::Member;
use pp_schedule::Rank;

use crate::clock::Clock;
use crate::config::TrainConfig;
use crate::data::Text;
use crate::machine::Machine;
use crate::measure::{KeptSteps, Predicted, slow_stages};
use crate::outcome::{Outcome, RankFigures, StepFigures};
use crate::programs::Programs;
use crate::records::{IterationRecord, ValidationRecord};
use crate::report::Report;
use crate::stop::{Stop, StopSignal, Stopped};
use crate::trainer::Trainer;
use crate::{eval, step, sync, trace};

/// Trains on `machine` as one rank among `member`'s others, who must all do the same, to the end or until one of them is asked to stop.
///
/// # Errors
/// When a rank is lost, training diverges, or the report cannot be written.
pub fn train(
    config: &TrainConfig,
    text: &Text,
    machine: &Machine,
    programs: Programs,
    member: &mut Member,
    stop: &Stop,
    report: &mut Report,
) -> Result<Outcome> {
    let mut trainer = Trainer::new(config, text, machine, programs, member, stop)?;
    let initial_fingerprint = sync::weights_fingerprint(&mut trainer.member.control, &trainer.stage)?;
    report.start()?;
    stop.steps_begin();
    let mut stopped = None;
    let mut iterations = Vec::new();
    let mut validations = Vec::new();
    let mut figures = RankFigures::default();
    let clock = Clock::new();
    let mut kept = KeptSteps::new(clock, config.plan.placement());
    for iteration in 0..config.train_iters {
        let traced = config.trace.as_ref().filter(|trace| trace.iteration == iteration);
        if traced.is_some() {
            // Nothing of an earlier step is to be seen in it.
            trainer.member.control.barrier()?;
        }
        let start = Instant::now();
        let done = step::train_step(&mut trainer, iteration)?;
        let seconds = start.elapsed().as_secs_f64();
        figures.add(&done.report);
        kept.add(&trainer.recording);
        if let Some(trace) = traced {
            let did = (&trainer.recording, &done.times, clock);
            trace::write(config, &trace.path, iteration, &mut trainer.member.control, did)?;
        }
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
        let mut stop = done.stop;
        if stop.is_none() && config.validates_after(iteration) {
            let (validation, asked) = validate(&mut trainer, iteration + 1, report)?;
            validations.extend(validation);
            stop = asked;
        }
        if let Some(by) = stop {
            stopped = Some(Stopped { by, after: iteration + 1, of: config.train_iters });
            break;
        }
    }
    if stopped.is_none() {
        let (validation, asked) = validate(&mut trainer, config.train_iters, report)?;
        validations.extend(validation);
        let of = config.train_iters;
        stopped = asked.map(|by| Stopped { by, after: of, of });
    }
    let weights_fingerprint = sync::weights_fingerprint(&mut trainer.member.control, &trainer.stage)?;
    figures.total_s = iterations.iter().map(|record| record.step_ms / 1e3).sum();
    figures.peak_rss_mib = peak_rss_mib();
    let outcome = Outcome {
        iterations,
        validation_loss: validations.last().map(|record: &ValidationRecord| record.validation_loss),
        validations,
        stopped,
        compute: config.compute,
        nccl: machine.nccl_version(),
        unigram_entropy: text.unigram_entropy(),
        initial_fingerprint,
        weights_fingerprint,
        ranks: gather_figures(&mut trainer, figures)?,
        steps: compare(&mut trainer, &kept)?,
    };
    report.end(&outcome)?;
    if stopped.is_some() {
        // Rank 0 has told it. All leave together, so that whoever started them sees them end as one.
        trainer.member.control.barrier()?;
    }
    Ok(outcome)
}

/// What stages took, and on rank 0 what the simulator makes of it.
fn compare(trainer: &mut Trainer<'_>, kept: &KeptSteps) -> Result<StepFigures> {
    let measured = kept.gather(&mut trainer.member.control)?;
    let config = trainer.config;
    let is_told = trainer.member.control.rank() == Rank(0);
    let predicted = match is_told {
        true => Some(Predicted::of(config.plan.training_program()?.as_ref(), &measured)?),
        false => None,
    };
    Ok(StepFigures { slow: slow_stages(&measured.stages, &config.layers), measured, predicted })
}

fn validate(
    trainer: &mut Trainer<'_>,
    iteration: u32,
    report: &mut Report,
) -> Result<(Option<ValidationRecord>, Option<StopSignal>)> {
    let (validation_loss, stop) = eval::validate(trainer, iteration)?;
    let record = validation_loss.map(|validation_loss| ValidationRecord { iteration, validation_loss });
    if let Some(record) = &record {
        report.validation(record)?;
    }
    Ok((record, stop))
}

fn gather_figures(trainer: &mut Trainer<'_>, mine: RankFigures) -> Result<Vec<RankFigures>> {
    let RankFigures { peak_rss_mib, total_s, busy_s, wait_s, peak_saved, peak_deferred, peak_message_bytes } = mine;
    let peaks = [peak_saved, peak_deferred, peak_message_bytes].map(|peak| peak as f64);
    let part = [peak_rss_mib.unwrap_or(f64::NAN), total_s, busy_s, wait_s, peaks[0], peaks[1], peaks[2]];
    let parts = trainer.member.control.all_gather_f64(&part)?;
    let figures = |part: &Vec<f64>| match part[..] {
        [peak, total_s, busy_s, wait_s, peak_saved, peak_deferred, peak_message_bytes] => RankFigures {
            peak_rss_mib: (!peak.is_nan()).then_some(peak),
            total_s,
            busy_s,
            wait_s,
            peak_saved: peak_saved as usize,
            peak_deferred: peak_deferred as usize,
            peak_message_bytes: peak_message_bytes as usize,
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
