//! `forward_backward_pipelining_with_interleaving`, with its three ways to wait.

use std::collections::{HashSet, VecDeque};

use super::emitter::{Emitter, Exchange, Handles, Piece};
use super::options::Overlap;
use super::view::{Method, Phase};
use crate::counts::Counts;
use crate::figures;
use crate::ids::{Chunk, Direction, Microbatch};
use crate::program::Mark;
use crate::receive::receive_after;
use crate::table::ScheduleTable;

pub(super) fn emit(e: &mut Emitter<'_>) {
    let table = ScheduleTable::new(e.config.microbatches(), e.config.vp(), e.config.groups());
    let counts = figures::counts(e.config, e.rank);
    let mut run = Run { e, table, counts, pending: Pending::default(), synchronized: HashSet::new(), output: None };
    run.start();
    for k in 0..run.counts.warmup as usize {
        run.warmup(k);
    }
    run.e.phase(Phase::Steady);
    for k in 0..run.counts.remaining as usize {
        match run.e.options.overlap {
            Overlap::Off => run.steady(k),
            Overlap::Steady | Overlap::WarmupFlush => run.steady_overlapped(k),
        }
    }
    let output = run.output;
    run.e.free(output);
    run.e.phase(Phase::Cooldown);
    if !run.e.config.forward_only() {
        run.cooldown();
    }
    run.e.phase(Phase::Misc);
    if !run.e.config.forward_only() {
        run.e.mark(Mark::Finalize);
    }
}

/// Transfers of calls that returned early.
#[derive(Default)]
struct Pending {
    send_next: Option<u32>,
    send_previous: Option<u32>,
    receive_previous: VecDeque<u32>,
    receive_next: VecDeque<u32>,
}

struct Run<'e, 'a> {
    e: &'e mut Emitter<'a>,
    table: ScheduleTable,
    counts: Counts,
    pending: Pending,
    /// Chunks whose gradients have been synchronised.
    synchronized: HashSet<Chunk>,
    /// The last forward's output, if it was to be sent.
    output: Option<Piece>,
}

impl Run<'_, '_> {
    fn start(&mut self) {
        self.e.sync_off();
        if self.e.syncs() {
            self.e.mark(Mark::SyncParameters(Chunk(0)));
            self.e.mark(Mark::SyncParameters(Chunk(1)));
        }
        self.e.phase(Phase::Warmup);
        let receive_previous = (!self.e.is_first()).then_some((Chunk(0), Microbatch(0)));
        self.e.call(Method::RecvForward, Exchange { receive_previous, ..Exchange::default() });
    }

    fn piece(&self, direction: Direction, k: usize) -> Piece {
        // `k` is always within the table: it counts its rows.
        self.table.get(direction, k).map_or((Chunk(0), Microbatch(0)), |(microbatch, chunk)| (chunk, microbatch))
    }

    /// What is received after step `k` of a direction.
    fn received(&self, direction: Direction, k: usize) -> Option<Piece> {
        let received = receive_after(&self.table, direction, self.e.config.pp(), self.e.rank, k);
        received.map(|(microbatch, chunk)| (chunk, microbatch))
    }

    fn flushes(&self) -> bool {
        self.e.options.overlap == Overlap::WarmupFlush
    }

    /// Whether backwards follow the warmup in a steady phase.
    fn backward_follows(&self) -> bool {
        !self.e.config.forward_only() && !self.counts.all_in_warmup
    }

    /// The gradient of the last chunk's first microbatch, the first there is, unless this rank owns the loss.
    fn first_gradient(&self) -> Option<Piece> {
        (!self.e.is_last()).then(|| (Chunk(self.e.config.vp() - 1), Microbatch(0)))
    }

    fn warmup(&mut self, k: usize) {
        let piece = self.piece(Direction::Forward, k);
        let last = k + 1 == self.counts.warmup as usize;
        if self.flushes() && self.takes_input(piece) && k != 0 {
            let receive = self.pending.receive_previous.pop_front();
            self.e.wait(receive);
        }
        let last_of_all = k + 1 == self.table.len();
        let receive_previous = if last_of_all { None } else { self.received(Direction::Forward, k) };
        if self.flushes() && !self.e.is_first() {
            self.exchange_forward_early(Exchange { receive_previous, ..Exchange::default() }, false);
        }
        self.forward(k);
        let send_next = self.e.output(piece);
        self.output = send_next;
        if self.flushes() {
            // Ranks other than the first have asked for their next input already.
            let receive_previous = receive_previous.filter(|_| self.e.is_first());
            self.exchange_forward_early(Exchange { send_next, receive_previous, ..Exchange::default() }, true);
        } else if last && self.e.options.overlap == Overlap::Off && self.backward_follows() {
            let receive_next = self.first_gradient();
            let exchange = Exchange { send_next, receive_previous, receive_next, send_previous: None };
            self.e.call(Method::SendBothRecvBoth, exchange);
        } else {
            let exchange = Exchange { send_next, receive_previous, ..Exchange::default() };
            self.e.call(Method::SendForwardRecvForward, exchange);
        }
        self.e.free(send_next);
        if last && self.e.options.overlap != Overlap::Off && self.backward_follows() {
            let receive_next = self.first_gradient();
            self.exchange_backward_early(Exchange { receive_next, ..Exchange::default() }, true);
        }
    }

    fn steady(&mut self, k: usize) {
        let forward_k = k + self.counts.warmup as usize;
        let (forward, backward) = (self.piece(Direction::Forward, forward_k), self.piece(Direction::Backward, k));
        self.forward(forward_k);
        self.backward(k);
        let exchange = Exchange {
            send_next: self.e.output(forward),
            receive_previous: self.received_in_steady(k),
            send_previous: self.e.gradient(backward),
            receive_next: self.received(Direction::Backward, k),
        };
        self.e.call(Method::SendBothRecvBoth, exchange);
        self.output = exchange.send_next;
        self.e.free(self.output);
    }

    fn steady_overlapped(&mut self, k: usize) {
        let forward_k = k + self.counts.warmup as usize;
        let (forward, backward) = (self.piece(Direction::Forward, forward_k), self.piece(Direction::Backward, k));
        if self.takes_input(forward) {
            let receive = self.pending.receive_previous.pop_front();
            self.e.wait(receive);
        }
        self.e.free(self.output);
        self.forward(forward_k);
        self.output = self.e.output(forward);
        let (send_next, receive_previous) = (self.output, self.received_in_steady(k));
        self.exchange_forward_early(Exchange { send_next, receive_previous, ..Exchange::default() }, true);
        if self.takes_gradient(backward) {
            let receive = self.pending.receive_next.pop_front();
            self.e.wait(receive);
        }
        self.backward(k);
        let (send_previous, receive_next) = (self.e.gradient(backward), self.received(Direction::Backward, k));
        self.exchange_backward_early(Exchange { send_previous, receive_next, ..Exchange::default() }, true);
    }

    /// The last steady step receives no input: one more was received before the first.
    fn received_in_steady(&self, k: usize) -> Option<Piece> {
        let last = k + 1 == self.counts.remaining as usize;
        if last { None } else { self.received(Direction::Forward, k + self.counts.warmup as usize) }
    }

    fn cooldown(&mut self) {
        if self.counts.all_in_warmup {
            let receive_next = self.first_gradient();
            self.e.call(Method::RecvBackward, Exchange { receive_next, ..Exchange::default() });
        }
        for k in self.counts.remaining as usize..self.table.len() {
            self.cooldown_step(k);
        }
        let send = self.pending.send_previous.take();
        self.e.wait(send);
        self.e.sync_on();
        if self.e.syncs() {
            for chunk in (0..self.e.config.vp()).map(Chunk) {
                if self.synchronized.insert(chunk) {
                    self.e.mark(Mark::SyncGradients(chunk));
                }
            }
        }
    }

    fn cooldown_step(&mut self, k: usize) {
        let piece = self.piece(Direction::Backward, k);
        if self.takes_gradient(piece) && k != 0 {
            let receive = self.pending.receive_next.pop_front();
            self.e.wait(receive);
        }
        let last_of_all = k + 1 == self.table.len();
        let receive_next = if last_of_all { None } else { self.received(Direction::Backward, k) };
        if self.flushes() && !self.e.is_last() {
            self.exchange_backward_early(Exchange { receive_next, ..Exchange::default() }, false);
        }
        self.backward(k);
        let send_previous = self.e.gradient(piece);
        if self.flushes() {
            // Ranks other than the last have asked for their next gradient already.
            let receive_next = receive_next.filter(|_| self.e.is_last());
            self.exchange_backward_early(Exchange { send_previous, receive_next, ..Exchange::default() }, true);
        } else {
            let exchange = Exchange { send_previous, receive_next, ..Exchange::default() };
            self.e.call(Method::SendBackwardRecvBackward, exchange);
        }
    }

    fn takes_input(&self, (chunk, _): Piece) -> bool {
        !(self.e.is_first() && chunk.0 == 0)
    }

    fn takes_gradient(&self, (chunk, _): Piece) -> bool {
        !(self.e.is_last() && chunk.0 + 1 == self.e.config.vp())
    }

    /// An exchange of activations that returns early; with `sends`, it takes the place of the send before it.
    fn exchange_forward_early(&mut self, exchange: Exchange, sends: bool) {
        let Handles { send_next, receive_previous, .. } = self.e.call_early(Method::SendForwardRecvForward, exchange);
        self.pending.receive_previous.extend(receive_previous);
        if sends {
            let before = std::mem::replace(&mut self.pending.send_next, send_next);
            self.e.wait(before);
            if self.e.waits_before_free() {
                let send = self.pending.send_next.take();
                self.e.wait(send);
            }
        }
    }

    /// The same for gradients, whose buffers are not freed early.
    fn exchange_backward_early(&mut self, exchange: Exchange, sends: bool) {
        let Handles { send_previous, receive_next, .. } = self.e.call_early(Method::SendBackwardRecvBackward, exchange);
        self.pending.receive_next.extend(receive_next);
        if sends {
            let before = std::mem::replace(&mut self.pending.send_previous, send_previous);
            self.e.wait(before);
        }
    }

    /// The forward of step `k`. With sync functions the parameters of the next chunk are fetched ahead, by all ranks of a
    /// pipeline at the same time.
    fn forward(&mut self, k: usize) {
        if self.e.syncs() {
            let aligned = k + self.e.rank.idx();
            if let Some((Microbatch(0), chunk)) = self.table.get(Direction::Forward, aligned) {
                let next = chunk.0 + 1;
                if 1 < next && next < self.e.config.vp() {
                    self.e.mark(Mark::SyncParameters(Chunk(next)));
                }
            }
        }
        self.e.forward(self.piece(Direction::Forward, k));
    }

    /// The backward of step `k`. A chunk's gradients are synchronised by its last microbatch, or with sync functions a
    /// step later per rank, so that all ranks of a pipeline do so at the same time.
    fn backward(&mut self, k: usize) {
        let last = Microbatch(self.e.config.microbatches() - 1);
        let piece @ (chunk, microbatch) = self.piece(Direction::Backward, k);
        if !self.e.syncs() && microbatch == last {
            self.e.sync_on();
            self.synchronized.insert(chunk);
        }
        self.e.backward(piece);
        let aligned = k.checked_sub(self.e.rank.idx()).filter(|_| self.e.syncs());
        if let Some((chunk, microbatch)) = aligned.map(|aligned| self.piece(Direction::Backward, aligned))
            && microbatch == last
        {
            self.e.sync_on();
            self.e.mark(Mark::SyncGradients(chunk));
            self.synchronized.insert(chunk);
        }
        self.e.sync_off();
    }
}
