//! `forward_backward_pipelining_without_interleaving`: every exchange is waited for at once.

use super::emitter::{Emitter, Exchange, Piece};
use super::view::Method;
use crate::ids::{Chunk, Microbatch};
use crate::program::Mark;

pub(super) fn emit(e: &mut Emitter<'_>) {
    let m = e.config.microbatches();
    let warmup = (e.config.pp() - e.rank.0 - 1).min(m);
    e.sync_off();
    for microbatch in 0..warmup {
        receive_forward(e, microbatch);
        e.forward(piece(microbatch));
        send_forward(e, microbatch);
        if !e.config.forward_only() {
            e.free(Some(piece(microbatch)));
        }
    }
    if warmup < m {
        receive_forward(e, warmup);
    }
    for microbatch in warmup..m {
        e.forward(piece(microbatch));
        if e.config.forward_only() {
            send_forward(e, microbatch);
            if microbatch + 1 < m {
                receive_forward(e, microbatch + 1);
            }
        } else {
            steady_backward(e, microbatch, warmup);
        }
    }
    if !e.config.forward_only() {
        cooldown(e, warmup);
        e.mark(Mark::Finalize);
    }
}

const fn piece(microbatch: u32) -> Piece {
    (Chunk(0), Microbatch(microbatch))
}

fn receive_forward(e: &mut Emitter<'_>, microbatch: u32) {
    let receive_previous = input(e, microbatch);
    e.call(Method::RecvForward, Exchange { receive_previous, ..Exchange::default() });
}

fn send_forward(e: &mut Emitter<'_>, microbatch: u32) {
    let send_next = e.output(piece(microbatch));
    e.call(Method::SendForward, Exchange { send_next, ..Exchange::default() });
}

/// The input that a forward has to receive.
fn input(e: &Emitter<'_>, microbatch: u32) -> Option<Piece> {
    (!e.is_first()).then_some(piece(microbatch))
}

/// After the forward of `forward`: the backward of the oldest microbatch in flight.
fn steady_backward(e: &mut Emitter<'_>, forward: u32, warmup: u32) {
    let last = forward + 1 == e.config.microbatches();
    let backward = piece(forward - warmup);
    let receive_next = (!e.is_last()).then_some(backward);
    let send_next = e.output(piece(forward));
    e.call(Method::SendForwardRecvBackward, Exchange { send_next, receive_next, ..Exchange::default() });
    e.free(Some(piece(forward)));
    if warmup == 0 && last {
        sync_on_by_itself(e);
    }
    e.backward(backward);
    let send_previous = e.gradient(backward);
    if last {
        e.call(Method::SendBackward, Exchange { send_previous, ..Exchange::default() });
    } else {
        let receive_previous = input(e, forward + 1);
        let exchange = Exchange { send_previous, receive_previous, ..Exchange::default() };
        e.call(Method::SendBackwardRecvForward, exchange);
    }
}

fn cooldown(e: &mut Emitter<'_>, warmup: u32) {
    let m = e.config.microbatches();
    for microbatch in m - warmup..m {
        if microbatch + 1 == m {
            sync_on_by_itself(e);
        }
        let backward = piece(microbatch);
        let receive_next = (!e.is_last()).then_some(backward);
        e.call(Method::RecvBackward, Exchange { receive_next, ..Exchange::default() });
        e.backward(backward);
        let send_previous = e.gradient(backward);
        e.call(Method::SendBackward, Exchange { send_previous, ..Exchange::default() });
    }
    if e.sync_on() && e.syncs() {
        e.mark(Mark::SyncGradients(Chunk(0)));
    }
}

/// Before a rank's last backward. With sync functions only the first rank, which has no bubble to use, does so.
fn sync_on_by_itself(e: &mut Emitter<'_>) {
    if !e.syncs() || e.is_first() {
        e.sync_on();
    }
}
