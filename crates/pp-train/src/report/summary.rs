//! What is said after the run: speed, loss, ranks, stages, measured beside predicted.

use crate::measure::SLOW_FROM;
use crate::outcome::{Outcome, StepFigures};
use crate::records::FinalRecord;

pub(super) fn final_record(outcome: &Outcome) -> FinalRecord {
    let StepFigures { measured, predicted, slow } = &outcome.steps;
    FinalRecord {
        r#final: true,
        stopped_by: outcome.stopped.map(|stopped| stopped.by.name()),
        device: outcome.compute.device.name(),
        dtype: outcome.compute.dtype.name(),
        nccl: outcome.nccl.clone(),
        validation_loss: outcome.validation_loss,
        unigram_entropy: outcome.unigram_entropy,
        tokens_per_s: outcome.median_tokens_per_s(),
        weights_fingerprint: format!("{:032x}", outcome.weights_fingerprint),
        peak_rss_mib: outcome.ranks.iter().map(|rank| rank.peak_rss_mib).collect(),
        peak_saved: outcome.ranks.iter().map(|rank| rank.peak_saved).collect(),
        peak_deferred: outcome.ranks.iter().map(|rank| rank.peak_deferred).collect(),
        peak_message_bytes: outcome.ranks.iter().map(|rank| rank.peak_message_bytes).collect(),
        program_ms: measured.program_ms,
        bubble: measured.bubble,
        longest_stage_bubble: measured.longest_stage_bubble,
        predicted_program_ms: predicted.map(|predicted| predicted.program_ms),
        predicted_bubble: predicted.map(|predicted| predicted.bubble),
        predicted_longest_stage_bubble: predicted.map(|predicted| predicted.longest_stage_bubble),
        stages: measured.stages.clone(),
        slow_stages: slow.iter().map(|slow| slow.stage.0).collect(),
    }
}

pub(super) fn summary(outcome: &Outcome) -> String {
    let entropy = outcome.unigram_entropy;
    let mut lines = vec![String::new()];
    lines.extend(outcome.stopped.map(|stopped| stopped.to_string()));
    lines.extend([
        format!(
            "{:.0} tokens/s in the median step, {:.0} overall",
            outcome.median_tokens_per_s(),
            outcome.overall_tokens_per_s()
        ),
        match outcome.validation_loss {
            Some(loss) => format!("validation loss {loss:.4}, unigram entropy {entropy:.4}{}", ratio(loss, entropy)),
            None => format!("no validation yet, unigram entropy {entropy:.4}"),
        },
    ]);
    for (rank, figures) in outcome.ranks.iter().enumerate() {
        let memory = figures.peak_rss_mib.map_or("unknown".to_owned(), |mib| format!("{mib:.0} MiB"));
        let deferred = match figures.peak_deferred {
            0 => String::new(),
            n => format!(" ({n} weight gradients put off at most)"),
        };
        lines.push(format!(
            "rank {rank}: computing {:.0}% of its training steps, waiting {:.0}%, {} activations saved at most{deferred}, peak memory {memory}",
            100.0 * figures.busy_share(),
            100.0 * figures.wait_share(),
            figures.peak_saved
        ));
    }
    lines.push(format!("waiting for other ranks: {:.1}% of all ranks' time", 100.0 * outcome.wait_share()));
    lines.extend(steps(&outcome.steps));
    lines.push(format!("weights fingerprint {:032x}", outcome.weights_fingerprint));
    lines.join("\n")
}

/// None where the entropy is 0, which is that of one byte over and over.
fn ratio(loss: f64, entropy: f64) -> String {
    if entropy > 0.0 { format!(", ratio {:.3}", loss / entropy) } else { String::new() }
}

/// Stage by stage, then the step beside what the simulator makes of the stages.
fn steps(figures: &StepFigures) -> Vec<String> {
    let StepFigures { measured, predicted, slow } = figures;
    let steps = match measured.n_steps {
        1 => "the only step".to_owned(),
        n => format!("median of {n} steps"),
    };
    let mut lines =
        vec![format!("stages, {steps}, in ms: a microbatch's computations; of the whole step, busy and waiting")];
    for stage in &measured.stages {
        let kinds = [
            ("forward", stage.forward_ms),
            ("backward", stage.backward_ms),
            ("input gradient", stage.backward_input_ms),
            ("weight gradient", stage.backward_weight_ms),
        ];
        let kinds = kinds.into_iter().filter_map(|(name, ms)| Some(format!("{name} {:.3}", ms?)));
        let (busy, wait) = (stage.busy_ms, stage.wait_ms);
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        lines.push(format!(
            "  stage {} on rank {}: {kinds}; busy {busy:.2}, waiting {wait:.2}",
            stage.stage, stage.rank
        ));
    }
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    let beside = |of: &dyn Fn(&crate::measure::Predicted) -> String| {
        predicted.as_ref().map_or_else(String::new, |predicted| format!(", predicted {}", of(predicted)))
    };
    lines.push(format!(
        "step, first to last computation: measured {:.2} ms{} (from these costs, messages free)",
        measured.program_ms,
        beside(&|predicted| format!("{:.2} ms", predicted.program_ms))
    ));
    lines.push(format!(
        "bubble, idle share of the step: measured {}{}",
        percent(measured.bubble),
        beside(&|predicted| percent(predicted.bubble))
    ));
    lines.push(format!(
        "bubble, idle share of the longest rank's time: measured {}{}",
        percent(measured.longest_stage_bubble),
        beside(&|predicted| percent(predicted.longest_stage_bubble))
    ));
    for slow in slow {
        let others = if slow.n_peers == 1 { "other stage" } else { "others" };
        let like = if slow.alike { "with as many layers" } else { "with other numbers of layers" };
        lines.push(format!(
            "stage {} is slow: busy for {:.2} ms of a step, {:.2} times the median of the {} {others} {like} (said from \
             {SLOW_FROM} times on)",
            slow.stage,
            slow.ms,
            slow.times(),
            slow.n_peers
        ));
    }
    lines
}
