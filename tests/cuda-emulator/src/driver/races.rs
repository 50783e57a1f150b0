//! Reports of races.

use std::sync::{Arc, MutexGuard};

use super::code::{Code, Error};
use super::context::Context;
use super::memory::indent;
use super::state::State;
use crate::clock::Clock;
use crate::job::Kind;
use crate::race::{Race, Touch};

/// Reports races, each with the buffer and both places; gives the last. Unlocks the state before it writes, as resolving
/// places takes long. `learnt` is what any host thread had learnt as the later piece was queued.
pub(super) fn report(
    state: MutexGuard<'_, State>,
    context: &Context,
    races: &[Race],
    learnt: Option<&Clock>,
) -> Option<Error> {
    if races.is_empty() {
        return None;
    }
    let buffers: Vec<_> = races.iter().map(|race| state.memory.at(race.first.allocation).cloned()).collect();
    drop(state);
    let mut last = None;
    for (race, buffer) in races.iter().zip(buffers) {
        let buffer = buffer.map_or_else(|| "a buffer that is gone".to_owned(), |buffer| buffer.describe());
        last = Some(context.violate("race", Code::Assert, &text(race, &buffer, learnt)));
    }
    last
}

fn text(race: &Race, buffer: &str, learnt: Option<&Clock>) -> String {
    let Race { first, second } = race;
    let start = first.range.start.max(second.range.start);
    let end = first.range.end.min(second.range.end);
    let mut text =
        format!("{buffer}\nbytes {start}..{end} of it are touched by two pieces of work that nothing orders:\n");
    text.push_str(&format!("first queued:\n{}\n", of_touch(first)));
    text.push_str(&format!("later queued:\n{}", of_touch(second)));
    if learnt.is_some_and(|clock| first.piece.is_before(clock)) {
        text.push_str(
            "\nnote: another thread of this process had waited for the first before the second was queued. If this thread \
             learnt of it from that one, run with CUDA_EMULATOR_HOST=process",
        );
    }
    text
}

fn of_touch(touch: &Arc<Touch>) -> String {
    let how = match touch.kind {
        Kind::Read => "reads",
        Kind::Write => "writes",
    };
    let (start, end) = (touch.range.start, touch.range.end);
    format!("  {} {how} bytes {start}..{end}\n{}", touch.piece.what, indent(&touch.piece.place.to_string()))
}
