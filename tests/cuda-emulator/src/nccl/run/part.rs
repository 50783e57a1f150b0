//! The operations of one launch that are on one stream, as a piece of that stream's work: they progress together, and are
//! complete together with those of the launch's other parts.

use std::sync::Arc;
use std::time::Instant;

use super::exchange::{Broken, Exchange, Launched, News};
use super::stuck::Watch;
use crate::driver;
use crate::fault::{self, Fault};
use crate::job::Work;
use crate::nccl::comm::{Comm, TICK};
use crate::nccl::kinds::Code;
use crate::nccl::state::{Gate, Phase, State};

/// Why a part ends before its operations are complete.
enum End {
    /// The communicator was aborted, or the process or context goes away: as if nothing had been.
    Undone,
    /// A rule was broken.
    Broken(String),
}

/// One part, to be put on its stream.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) comm: Arc<Comm>,
    /// The launch's turn among those of the communicator.
    pub(crate) turn: u64,
    /// How many parts it has.
    pub(crate) n_parts: usize,
    pub(crate) operations: Vec<Launched>,
}

/// Says for as long as it lives that memory may be touched.
struct Touching<'a>(&'a Comm);

impl Drop for Touching<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.running -= 1);
    }
}

impl Part {
    /// In reports.
    pub(crate) fn what(&self) -> String {
        let operations: Vec<String> = self.operations.iter().map(Launched::what).collect();
        format!("{}, {}", operations.join(" + "), self.comm.title())
    }

    /// What the stream's worker does.
    ///
    /// # Errors
    /// A rule was broken: in words, its kind first.
    pub(crate) fn run(self, work: &mut dyn Work) -> Result<(), String> {
        let begun = self.comm.change(|state| {
            state.running += usize::from(state.phase != Phase::Aborted);
            state.phase != Phase::Aborted
        });
        if !begun {
            return Ok(());
        }
        let _touching = Touching(&self.comm);
        match self.all(work) {
            Ok(()) | Err(End::Undone) => Ok(()),
            Err(End::Broken(text)) => Err(text),
        }
    }

    fn all(&self, work: &mut dyn Work) -> Result<(), End> {
        self.gather(work)?;
        self.wait(work, |state| (state.turn == self.turn).then_some(()))?;
        let mut exchanges = Vec::new();
        for launched in &self.operations {
            self.faults(launched, work)?;
            let exchange = Exchange::new(*launched, self.comm.place());
            self.comm.change(|state| state.underway.insert(launched.nth, launched.what()));
            exchange.begin(&self.comm, work, self.operations.len() == 1);
            exchanges.push(exchange);
        }
        while exchanges.iter().any(|exchange| !exchange.is_done()) {
            let news = self.wait(work, |state| {
                let news = exchanges.iter().enumerate().filter(|(_, exchange)| !exchange.is_done());
                let news: Vec<_> = news.filter_map(|(at, exchange)| Some((at, exchange.look(state)?))).collect();
                (!news.is_empty()).then_some(news)
            })?;
            for (at, news) in news {
                self.go_on(&mut exchanges[at], news, work)?;
            }
        }
        self.scatter(work)
    }

    fn go_on(&self, exchange: &mut Exchange, news: News, work: &mut dyn Work) -> Result<(), End> {
        let gone_on = match news {
            News::Matched(begun) => exchange.matched(begun, &self.comm, work),
            News::Complete(data) => exchange.complete(data, &self.comm, work),
            News::Gone(peer) => {
                let what = exchange.launched().what();
                self.comm.fail(Code::RemoteError, format!("{what}: rank {peer} has left the communicator"));
                Ok(())
            }
        };
        if exchange.is_done() {
            self.comm.change(|state| state.underway.remove(&exchange.launched().nth));
        }
        gone_on.map_err(|broken| match broken {
            Broken::Mismatch(sides) => disagree(&self.comm.disagree(&sides)),
            Broken::Memory(text) => {
                self.comm.fail(Code::CudaError, text.clone());
                End::Broken(text)
            }
        })
    }

    /// Waits until all parts run: what is before one of them on its stream is before all of them.
    fn gather(&self, work: &mut dyn Work) -> Result<(), End> {
        if self.n_parts == 1 {
            return Ok(());
        }
        let clock = work.before();
        self.comm.change(|state| {
            let gate = state.gates.entry(self.turn).or_default();
            gate.n_begun += 1;
            gate.before.join(&clock);
        });
        let before = self.wait(work, |state| {
            state.gates.get(&self.turn).filter(|gate| gate.n_begun == self.n_parts).map(|gate| gate.before.clone())
        })?;
        work.join(&before);
        Ok(())
    }

    /// Waits until all parts are done: what is after one of them on its stream is after all of them.
    fn scatter(&self, work: &mut dyn Work) -> Result<(), End> {
        let clock = work.clock();
        let all_done = |gate: &Gate| gate.n_done == self.n_parts;
        self.comm.change(|state| {
            let gate = state.gates.entry(self.turn).or_default();
            gate.n_done += 1;
            gate.after.join(&clock);
            // The next launch may begin as soon as all of this one is done.
            state.turn += u64::from(all_done(gate));
        });
        let after = self.wait(work, |state| {
            let gate = state.gates.get_mut(&self.turn).filter(|gate| all_done(gate))?;
            gate.n_gone += 1;
            let (after, is_last) = (gate.after.clone(), gate.n_gone == self.n_parts);
            if is_last {
                state.gates.remove(&self.turn);
            }
            Some(after)
        })?;
        work.join(&after);
        Ok(())
    }

    /// Waits for something to be so. After a failure it never is: as with NCCL, the work hangs until it is aborted.
    fn wait<T>(&self, work: &dyn Work, mut look: impl FnMut(&mut State) -> Option<T>) -> Result<T, End> {
        let mut watch = Watch::new();
        let mut state = self.comm.lock();
        loop {
            if let Some(sides) = &state.mismatch {
                let sides = sides.clone();
                drop(state);
                return Err(disagree(&sides));
            }
            if state.phase == Phase::Aborted || work.is_cancelled() {
                return Err(End::Undone);
            }
            if state.failure.is_none() {
                if let Some(found) = look(&mut state) {
                    return Ok(found);
                }
                if watch.is_due() {
                    drop(state);
                    watch.look(&self.comm);
                    state = self.comm.lock();
                }
            }
            state = self.comm.wait(state, TICK);
        }
    }

    /// What was asked to go wrong.
    fn faults(&self, launched: &Launched, work: &dyn Work) -> Result<(), End> {
        // A variable that cannot be read has been refused by the call.
        let Ok(faults) = fault::asked() else { return Ok(()) };
        let rank = self.comm.place().rank;
        if faults.strikes(Fault::Die, Some(rank)) {
            eprintln!("cuda-emulator: fault: process {} dies before {}", std::process::id(), launched.what());
            std::process::abort();
        }
        if let Some(code) = faults.async_error(rank, launched.nth) {
            let code = Code::of(code).unwrap_or(Code::InternalError);
            self.comm.fail(code, format!("fault: asked for before {}", launched.what()));
        }
        let delay = faults.delay(rank);
        let begun = Instant::now();
        self.wait(work, |_| (begun.elapsed() >= delay).then_some(()))
    }
}

/// The ranks do not agree on an operation: each of them reports it, and its context fails.
fn disagree(sides: &str) -> End {
    let text = format!("the ranks do not agree on an operation:\n{sides}");
    driver::fail_context(&format!("mismatch\n{text}"));
    End::Broken(text)
}
