//! Pieces of work as they run.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::bytes::{Bytes, NoBytes};
use super::code::Code;
use super::context::Context;
use super::mark::Mark;
use super::memory::indent;
use super::races;
use super::state::state;
use crate::clock::Clock;
use crate::job::{Access, Kind, Run, Work};
use crate::race::{Piece, Touch};

/// An access that was stated, and found to be fine.
pub(super) struct Stated {
    pub(super) access: Access,
    /// The allocation's bytes, and which of them.
    pub(super) bytes: Arc<Bytes>,
    pub(super) range: Range<usize>,
    pub(super) touch: Arc<Touch>,
}

/// A piece of work, as it is queued.
pub(super) struct Job {
    pub(super) mark: Arc<Mark>,
    /// What it waits for, besides what is before it on the stream.
    pub(super) waits_for: Vec<Arc<Mark>>,
    /// What it may touch.
    pub(super) stated: Vec<Stated>,
    pub(super) run: Run,
}

impl Job {
    /// Runs it on its stream's worker after what `clock` has, and gives what comes after it.
    pub(super) fn run(self, context: &Arc<Context>, mut clock: Clock) -> Clock {
        let Self { mark, waits_for, stated, run } = self;
        clock.join(&mark.piece.known);
        for before in waits_for {
            if let Some(end) = before.wait(|| context.is_over()) {
                clock.join(&end.clock);
            }
        }
        let mut work = OnStream { context, piece: &mark.piece, stated, clock };
        work.begin();
        if !context.is_over() {
            match catch_unwind(AssertUnwindSafe(|| run(&mut work))) {
                Ok(Ok(())) => {}
                Ok(Err(text)) => context.work_failed(&mark.piece.what, &text),
                Err(_) => context.work_failed(&mark.piece.what, "it panicked"),
            }
        }
        let clock = work.end();
        mark.set_end(clock.clone());
        clock
    }
}

/// A piece that runs.
struct OnStream<'a> {
    context: &'a Arc<Context>,
    piece: &'a Arc<Piece>,
    stated: Vec<Stated>,
    clock: Clock,
}

impl OnStream<'_> {
    /// Reads happen with what is known now.
    fn begin(&mut self) {
        self.settle(|stated| stated.access.kind == Kind::Read);
    }

    /// What has not happened does so with what is known now. Gives what is ordered before what comes next.
    fn end(mut self) -> Clock {
        self.settle(|_| true);
        self.clock
    }

    fn settle(&mut self, which: impl Fn(&Stated) -> bool) {
        if self.stated.iter().all(|stated| stated.touch.is_settled() || !which(stated)) {
            return;
        }
        let mut found = Vec::new();
        let mut state = state();
        for Stated { touch, .. } in self.stated.iter().filter(|stated| which(stated)) {
            found.extend(state.tracker.settle(touch, &self.clock));
        }
        // Work that was skipped learnt nothing from peers, so that nothing can be said of its order.
        if !self.context.is_over() {
            let _ = races::report(state, self.context, &found, None);
        }
    }

    /// The stated access that covers a range, and which bytes of the allocation that is.
    fn covering(&self, address: u64, n_bytes: usize, kind: Kind) -> Result<(&Stated, Range<usize>), String> {
        let covers = |stated: &&Stated| {
            let Access { address: start, n_bytes: n_stated, kind: stated_kind } = stated.access;
            let within = address.checked_sub(start).is_some_and(|from| from as usize + n_bytes <= n_stated);
            stated_kind == kind && within
        };
        let Some(stated) = self.stated.iter().find(covers) else {
            let text =
                format!("{}\n{kind:?} of {n_bytes} bytes at {address:#x}, which it did not state", self.piece.what);
            return Err(self.context.violate("access that was not stated", Code::IllegalAddress, &text).text);
        };
        let start = stated.range.start + (address - stated.access.address) as usize;
        Ok((stated, start..start + n_bytes))
    }

    fn no_bytes(&self, stated: &Stated, why: &NoBytes) -> String {
        if self.context.is_over() {
            return "the context has failed".to_owned();
        }
        let (kind, at) = match why {
            NoBytes::Freed => ("use after free", String::new()),
            NoBytes::Uninitialised(at) => ("uninitialised read", format!(", of which byte {at} was never written")),
        };
        let buffer = state().memory.at(stated.touch.allocation).cloned();
        let buffer = buffer.map_or_else(|| "a buffer that is gone".to_owned(), |buffer| buffer.describe());
        let Range { start, end } = stated.range;
        let Piece { what, place, .. } = &**self.piece;
        let text = format!("{what}\n{}\nuses bytes {start}..{end}{at}, of {buffer}", indent(&place.to_string()));
        let code = if *why == NoBytes::Freed { Code::IllegalAddress } else { Code::Assert };
        self.context.violate(kind, code, &text).text
    }
}

impl Work for OnStream<'_> {
    fn before(&self) -> Clock {
        let mut clock = self.clock.clone();
        clock.lower(self.piece.actor, self.piece.number - 1);
        clock
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn join(&mut self, clock: &Clock) {
        self.clock.join(clock);
    }

    fn read(&self, address: u64, n_bytes: usize) -> Result<Vec<u8>, String> {
        let (stated, range) = self.covering(address, n_bytes, Kind::Read)?;
        stated.bytes.read(range).map_err(|why| self.no_bytes(stated, &why))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let (stated, range) = self.covering(address, bytes.len(), Kind::Write)?;
        if !stated.touch.is_settled() {
            let id = Arc::clone(&stated.touch);
            self.settle(|stated| Arc::ptr_eq(&stated.touch, &id));
            if self.context.is_over() {
                return Err("the context has failed".to_owned());
            }
        }
        let (stated, _) = self.covering(address, bytes.len(), Kind::Write)?;
        stated.bytes.write(range.start, bytes).map_err(|why| self.no_bytes(stated, &why))
    }

    fn is_cancelled(&self) -> bool {
        self.context.is_over()
    }
}
