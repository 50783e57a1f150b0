//! A step written down for Perfetto: every rank tells rank 0 what it did when, by the machine's clock, and rank 0 writes the
//! file.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pp_comm::{Control, Did, Recording};
use pp_schedule::format::chrome::{self, Extra};
use pp_schedule::simulate::{After, Span, Timeline};
use pp_schedule::{Direction, Message, Order, Rank};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::config::TrainConfig;
use crate::files;
use crate::step::StepTimes;

/// Something of a rank in a step, by the machine's clock: `(start, end)` in nanoseconds.
type Times = (u64, u64);

/// What one rank did in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    /// Computations, in turn.
    computes: Vec<Times>,
    /// The other things: lane, name, times.
    extra: Vec<(String, String, Times)>,
}

/// Lanes of what is no computation.
const RECEIVES: &str = "wait for messages";
const SENDS: &str = "wait for sends";
const STEP: &str = "rest of the step";
/// What waits for less does not wait: everything was there.
const SHORTEST_WAIT: Duration = Duration::from_micros(1);

impl Part {
    fn of(recording: &Recording, after: &StepTimes, clock: Clock) -> Self {
        let ns = |instant: Instant| u64::try_from(clock.time_of(instant).as_nanos()).unwrap_or(u64::MAX);
        let mut part = Self::default();
        for span in recording.spans() {
            let times = (ns(recording.began() + span.start), ns(recording.began() + span.end));
            let waits = span.end - span.start >= SHORTEST_WAIT;
            let mut wait = |lane: &str, name: String| {
                if waits {
                    part.extra.push((lane.to_owned(), name, times));
                }
            };
            match span.did {
                Did::Compute(_) => part.computes.push(times),
                Did::WaitReceive(message, _) => wait(RECEIVES, format!("wait for {}", token(message))),
                Did::WaitSend(message, _) => wait(SENDS, format!("wait until {} has left", token(message))),
            }
        }
        for (name, start, end) in after.spans() {
            part.extra.push((STEP.to_owned(), name.to_owned(), (ns(start), ns(end))));
        }
        part
    }
}

/// A message as torch names the send of it: by the stage that makes it.
fn token(message: Message) -> String {
    let kind = match message.direction {
        Direction::Forward => 'F',
        Direction::Backward => 'B',
    };
    format!("{}SEND_{kind}{}", message.made_by(), message.microbatch)
}

/// Gathers the step that was just done and, on rank 0, writes it. All ranks have to call it.
pub(crate) fn write(
    config: &TrainConfig,
    path: &Path,
    iteration: u32,
    control: &mut Control,
    (recording, after, clock): (&Recording, &StepTimes, Clock),
) -> Result<()> {
    let mine = serde_json::to_vec(&Part::of(recording, after, clock))?;
    let parts = control.all_gather(&mine)?;
    if control.rank() != Rank(0) {
        return Ok(());
    }
    let parts = parts.iter().map(|part| serde_json::from_slice(part));
    let parts: Vec<Part> = parts.collect::<Result<_, _>>().context("a rank's part of the trace cannot be read")?;
    let number = iteration + 1;
    let (timeline, extra) = put_together(&config.plan.order(), parts, number)?;
    let mut trace = chrome::Trace::measured(format!("{}, iteration {number}", config.plan.title()));
    trace.steps.push(chrome::Step { number, start: 0, timeline: &timeline });
    trace.extra = extra;
    files::write_whole(path, |out| chrome::write(&trace, out))
        .with_context(|| format!("cannot write --trace {}", path.display()))
}

/// All ranks' times, from the first of them on.
fn put_together(order: &Order, parts: Vec<Part>, step: u32) -> Result<(Timeline, Vec<Extra>)> {
    let all = parts.iter().flat_map(|part| part.computes.iter().chain(part.extra.iter().map(|(_, _, times)| times)));
    let zero = all.map(|&(start, _)| start).min().unwrap_or(0);
    let (mut rows, mut extra) = (Vec::new(), Vec::new());
    for ((rank, works), part) in (0..).map(Rank).zip(order.rows()).zip(parts) {
        ensure!(part.computes.len() == works.len(), "rank {rank} tells of {} computations", part.computes.len());
        let span = |(&work, &(start, end)): (_, &Times)| Span {
            work,
            start: start - zero,
            end: end - zero,
            after: After::Nothing,
        };
        rows.push(works.iter().zip(&part.computes).map(span).collect());
        extra.extend(part.extra.into_iter().map(|(lane, name, (start, end))| Extra {
            step,
            rank,
            lane,
            name,
            start: start - zero,
            end: end - zero,
        }));
    }
    Ok((Timeline::measured(order.extent(), rows), extra))
}
