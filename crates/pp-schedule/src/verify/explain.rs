//! Refusals for people: the error, and a small drawing of where in the program it stands.

use std::fmt::Write as _;
use std::ops::Range;

use super::{ChannelError, Deadlock, VerifyError};
use crate::ids::{Direction, Rank};
use crate::program::{Action, Mark, Program, RankProgram, Role, Step, Transfer};

/// The actions drawn before and after the one it is about.
const AROUND: usize = 2;

const LEGEND: &str =
    "(> where it stands, + posts, ? waits for; transfers by the stage on that rank, as torch writes them)";

/// Says why a program was refused: the error, and the actions around it on every rank that it names.
///
/// ```
/// use pp_schedule::verify::{Queues, Semantics, check_under, explain};
/// use pp_schedule::{ScheduleConfig, ScheduleSpec, lower::lanes};
///
/// let program = lanes::lower(&ScheduleConfig::new(&ScheduleSpec::new(2, 1, 4))?);
/// let one_queue = Semantics { queues: Queues::OnePerRank, capacity: 0 };
/// let error = check_under(&program, one_queue).unwrap_err();
/// let text = explain(&program, &error);
/// assert!(text.contains("the circle: rank 1 -> rank 0 -> rank 1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn explain(program: &Program, error: &VerifyError) -> String {
    let mut text = error.to_string();
    match error {
        VerifyError::Deadlock(deadlock) => explain_deadlock(&mut text, program, deadlock),
        VerifyError::Channels(error) => explain_channel(&mut text, program, error),
        VerifyError::Slots(error) => {
            text.push_str("\naround it ");
            text.push_str(LEGEND);
            draw(&mut text, program, error.rank, &[error.step]);
        }
        VerifyError::Coverage(_) => {}
    }
    text
}

/// The actions that an error is about, by rank and step; none for one that is about what is missing.
pub fn places(program: &Program, error: &VerifyError) -> Vec<(Rank, usize)> {
    match error {
        VerifyError::Deadlock(deadlock) => deadlock.cycle.iter().map(|blocked| (blocked.rank, blocked.step)).collect(),
        VerifyError::Slots(error) => vec![(error.rank, error.step)],
        VerifyError::Channels(error) => {
            ends(program, error).into_iter().filter_map(|(rank, at)| Some((rank, at?))).collect()
        }
        VerifyError::Coverage(_) => Vec::new(),
    }
}

// Writing to a string cannot fail, so the results of `write!` are dropped in this file.

fn explain_deadlock(text: &mut String, program: &Program, deadlock: &Deadlock) {
    text.push_str("\nthe circle: ");
    for blocked in &deadlock.cycle {
        let _ = write!(text, "rank {} -> ", blocked.rank);
    }
    if let Some(last) = deadlock.cycle.last() {
        let _ = write!(text, "rank {}", last.waits_for);
    }
    let _ = write!(text, "\naround it {LEGEND}");
    let mut ranks: Vec<Rank> = deadlock.cycle.iter().map(|blocked| blocked.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    for rank in ranks {
        let on_rank = deadlock.cycle.iter().filter(|blocked| blocked.rank == rank);
        draw(text, program, rank, &on_rank.map(|blocked| blocked.step).collect::<Vec<_>>());
    }
}

fn explain_channel(text: &mut String, program: &Program, error: &ChannelError) {
    let _ = write!(text, "\naround it {LEGEND}");
    for (rank, at) in ends(program, error) {
        match at {
            Some(step) => draw(text, program, rank, &[step]),
            None => {
                let _ = write!(text, "\n  rank {rank}   posts no more on this channel");
            }
        }
    }
}

/// The ranks at the two ends of a channel, and where each posts the transfer of the place that they disagree about.
fn ends(program: &Program, error: &ChannelError) -> [(Rank, Option<usize>); 2] {
    let (source, destination) = (error.channel.source, error.channel.destination);
    let post =
        |rank: Rank, role| program.ranks.get(rank.idx()).and_then(|ranked| nth_post(program, ranked, role, error));
    [(source, post(source, Role::Send)), (destination, post(destination, Role::Receive))]
}

fn nth_post(program: &Program, ranked: &RankProgram, role: Role, error: &ChannelError) -> Option<usize> {
    let on_channel = |transfer: &&Transfer| {
        transfer.role == role && program.channels.get(transfer.channel.idx()) == Some(&error.channel)
    };
    let mut place = 0;
    for (step, action) in ranked.actions.iter().enumerate() {
        let Action::Post(first) = *action else { continue };
        place += ranked.posted(first).unwrap_or_default().iter().filter(on_channel).count();
        if place > error.position {
            return Some(step);
        }
    }
    None
}

/// A line of a rank's actions around some steps, which are marked.
fn draw(text: &mut String, program: &Program, rank: Rank, steps: &[usize]) {
    let Some(ranked) = program.ranks.get(rank.idx()) else { return };
    let len = ranked.actions.len();
    let _ = write!(text, "\n  rank {rank} ");
    for (index, window) in windows(steps, len).into_iter().enumerate() {
        if index > 0 || window.start > 0 {
            text.push_str("  ..");
        }
        for step in window.clone() {
            let mark = if steps.contains(&step) { ">" } else { " " };
            let _ = write!(text, "  {mark}{step} {}", short(ranked, step));
        }
        if window.end < len && window.end > steps.iter().copied().max().unwrap_or(0) {
            text.push_str("  ..");
        }
    }
    if steps.iter().any(|step| *step >= len) {
        text.push_str("  >end");
    }
}

/// The windows around some steps, joined where they touch.
fn windows(steps: &[usize], len: usize) -> Vec<Range<usize>> {
    let mut sorted = steps.to_vec();
    sorted.sort_unstable();
    let mut windows: Vec<Range<usize>> = Vec::new();
    for step in sorted {
        let window = step.saturating_sub(AROUND).min(len)..(step + AROUND + 1).min(len);
        match windows.last_mut() {
            Some(last) if window.start <= last.end => last.end = last.end.max(window.end),
            _ => windows.push(window),
        }
    }
    windows
}

/// An action in as few characters as tell it apart.
fn short(ranked: &RankProgram, step: usize) -> String {
    match ranked.step(step) {
        None => "(refers to nothing)".to_owned(),
        Some(Step::Compute(compute)) => compute.work.to_string(),
        Some(Step::Wait(_, transfer)) => format!("?{}", token(transfer)),
        Some(Step::Post(_, [transfer])) => format!("+{}", token(transfer)),
        Some(Step::Post(_, transfers)) => {
            let tokens: Vec<String> = transfers.iter().map(token).collect();
            format!("+({})", tokens.join(" "))
        }
        Some(Step::Free(slot)) => format!("free {}", slot.idx()),
        Some(Step::Mark(Mark::SyncOff)) => "sync off".to_owned(),
        Some(Step::Mark(Mark::SyncOn)) => "sync on".to_owned(),
        Some(Step::Mark(Mark::SyncGradients(chunk))) => format!("gradients {chunk}"),
        Some(Step::Mark(Mark::SyncParameters(chunk))) => format!("parameters {chunk}"),
        Some(Step::Mark(Mark::Finalize)) => "finalize".to_owned(),
    }
}

/// A transfer as torch writes it, by the stage at this rank's end; any message gets some text, also one there is not.
fn token(transfer: &Transfer) -> String {
    let message = transfer.message;
    let (verb, stage) = match (transfer.role, message.direction) {
        (Role::Send, Direction::Forward) => ("SEND_F", message.stage.0.wrapping_sub(1)),
        (Role::Receive, Direction::Forward) => ("RECV_F", message.stage.0),
        (Role::Send, Direction::Backward) => ("SEND_B", message.stage.0.wrapping_add(1)),
        (Role::Receive, Direction::Backward) => ("RECV_B", message.stage.0),
    };
    format!("{stage}{verb}{}", message.microbatch)
}
