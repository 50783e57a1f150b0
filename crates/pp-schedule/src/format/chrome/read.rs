//! Text to what was recorded.

use serde::Deserialize;

use super::error::ChromeError;
use super::events::{Compute, Events};
use super::header::{Header, Raw};
use super::recorded::{Recorded, RecordedSpan, RecordedStep};

/// The longest step that is read, in nanoseconds, about 13 days: so that sums over all stages stay within 64 bits.
const MAX_STEP: u64 = 1 << 50;

/// The file. Whatever else is in it is skipped.
#[derive(Deserialize)]
#[serde(expecting = "an object with `traceEvents` and `otherData`")]
struct File {
    #[serde(rename = "otherData", default)]
    header: Raw,
    #[serde(rename = "traceEvents")]
    events: Events,
}

/// Reads a trace: its header and computations strictly, every other event not at all. The parts of the format that are
/// needed are listed in the [module](super).
///
/// # Errors
/// [`ChromeError`] with the place: not JSON, no header or another version's, a computation that is wrong or stands on
/// another rank than its stage's, or two at a time on one rank.
pub fn read(text: &str) -> Result<Recorded, ChromeError> {
    // It would be read as the fields of the object, in turn.
    if text.trim_start().starts_with('[') {
        return Err(ChromeError::Array);
    }
    let File { header, events: Events { computes, extra, wrong } } = serde_json::from_str(text)?;
    let header = header.check()?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    if computes.is_empty() {
        return Err(ChromeError::Empty);
    }
    for compute in &computes {
        check(&header, compute)?;
    }
    let steps = steps(&header, computes)?;
    let Header { title, extent, scale, .. } = header;
    Ok(Recorded { title, extent, scale, steps, extra })
}

/// Whether a computation is one of the schedule's, on its own rank.
fn check(header: &Header, compute: &Compute) -> Result<(), ChromeError> {
    let extent = header.extent;
    let (work, placement) = (compute.work, extent.placement);
    let wrong = |what: String| Err(ChromeError::Event { index: compute.index, name: work.to_string(), what });
    if work.stage.0 >= placement.n_stages() || work.microbatch.0 >= extent.microbatches {
        let (n_stages, microbatches) = (placement.n_stages(), extent.microbatches);
        return wrong(format!("the trace is of stages 0..{n_stages} and microbatches 0..{microbatches}"));
    }
    let owner = placement.rank_of(work.stage);
    if owner != compute.rank {
        return wrong(format!("its pid is {}, but stage {} lives on rank {owner}", compute.rank, work.stage));
    }
    Ok(())
}

/// The computations by step and rank, in the order of time.
fn steps(header: &Header, mut computes: Vec<Compute>) -> Result<Vec<RecordedStep>, ChromeError> {
    computes.sort_by_key(|compute| (compute.step, compute.rank, compute.start, compute.end));
    for pair in computes.windows(2) {
        let [first, second] = [pair[0], pair[1]];
        if (first.step, first.rank) == (second.step, second.rank) && second.start < first.end {
            let (step, rank, end, start) = (first.step, first.rank, first.end, second.start);
            return Err(ChromeError::Overlap { step, rank, first: first.work, end, second: second.work, start });
        }
    }
    let steps = computes.chunk_by(|one, other| one.step == other.step);
    steps.map(|computes| step(header, computes)).collect()
}

/// One step: at least one computation.
fn step(header: &Header, computes: &[Compute]) -> Result<RecordedStep, ChromeError> {
    let number = computes[0].step;
    let earliest = computes.iter().map(|compute| compute.start).min().unwrap_or(0);
    let named = header.steps.iter().find(|(named, _)| *named == number).map(|(_, start)| *start);
    // A step cannot begin after its first computation.
    let start = named.unwrap_or(earliest).min(earliest);
    let length = computes.iter().map(|compute| compute.end).max().unwrap_or(0) - start;
    if length > MAX_STEP.min(u64::MAX / 4 / u64::from(header.extent.placement.n_ranks())) {
        return Err(ChromeError::TooLong { step: number, length });
    }
    let spans = computes.iter().map(|&Compute { rank, work, start, end, .. }| RecordedSpan { rank, work, start, end });
    Ok(RecordedStep { number, start, spans: spans.collect() })
}
