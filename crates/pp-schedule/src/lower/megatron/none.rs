//! `forward_backward_no_pipelining`: gradients are synchronised by the last microbatch alone.

use super::emitter::Emitter;
use crate::ids::{Chunk, Microbatch};
use crate::program::Mark;

pub(super) fn emit(e: &mut Emitter<'_>) {
    let last = e.config.microbatches() - 1;
    e.sync_off();
    for microbatch in 0..=last {
        if microbatch == last {
            e.sync_on();
        }
        let chunks = || (0..e.config.vp()).map(|chunk| (Chunk(chunk), Microbatch(microbatch)));
        let (forwards, backwards) = (chunks().collect::<Vec<_>>(), chunks().rev().collect::<Vec<_>>());
        forwards.into_iter().for_each(|piece| e.forward(piece));
        if !e.config.forward_only() {
            backwards.into_iter().for_each(|piece| e.backward(piece));
        }
    }
    if !e.config.forward_only() {
        e.mark(Mark::Finalize);
    }
}
