//! One step on one rank: the actions of its program in turn. Nothing is allocated, formatted or searched for per action; what
//! can be looked up beforehand is.

use std::time::Instant;

use pp_schedule::{CertifiedProgram, Channel, Compute, Microbatch, Role, Slot, Step, Transfer, WorkKind};

use super::fault::{ExecError, ExecFault, error_at};
use super::recording::{Did, Recording};
use super::report::StepReport;
use super::slots::Slots;
use super::spec::{Boundaries, StepSpec};
use super::stage::{StageCompute, Task};
use crate::endpoint::Endpoint;
use crate::error::CommError;
use crate::flight::{State, Subject};
use crate::group::Group;
use crate::message::{Boundary, Buffer, Envelope};
use crate::p2p::{Exchange, InFlight};

pub(super) fn run<S: StageCompute>(
    program: &CertifiedProgram,
    spec: StepSpec<'_>,
    endpoint: &mut Endpoint,
    stage: &mut S,
    recording: &mut Recording,
) -> Result<StepReport, ExecError> {
    let StepSpec { step, group, boundaries } = spec;
    let start = Instant::now();
    let failed = |index, fault| error_at(program.program(), spec, index, fault);
    let channels = channels_of(program, group, endpoint).map_err(|fault| failed(0, fault))?;
    let program = program.program();
    recording.begin(start, program.computes.len() + program.transfers.len());
    let (slots, report) = (Slots::new(program), StepReport::default());
    let in_flight = program.transfers.iter().map(|_| None).collect();
    let mut run = Run { channels, step, endpoint, boundaries, stage, in_flight, slots, deferred: 0, report, recording };
    for (index, action) in program.steps().enumerate() {
        run.endpoint.recorder().at_action(u32::try_from(index).ok());
        let done = match action {
            Step::Compute(compute) => run.compute(compute),
            Step::Post(first, transfers) => run.post(first, transfers),
            Step::Wait(number, transfer) => run.wait(number, transfer),
            Step::Free(slot) => {
                run.slots.release(slot);
                Ok(())
            }
            // There are no data-parallel ranks to synchronise with yet.
            Step::Mark(_) => Ok(()),
        };
        done.map_err(|fault| failed(index, fault))?;
    }
    // A program may end with sends under way; its step does not.
    for (number, transfer) in (0..).zip(&program.transfers) {
        if run.in_flight[number as usize].is_some() {
            run.wait(number, transfer).map_err(|fault| failed(program.actions.len(), fault))?;
        }
    }
    run.endpoint.settle().map_err(|error| failed(program.actions.len(), error.into()))?;
    run.endpoint.recorder().at_action(None);
    let (peak, peak_bytes) = (run.slots.peak(), run.slots.peak_bytes());
    Ok(StepReport { total: start.elapsed(), peak, peak_bytes, ..run.report })
}

/// The channels of the run that the program's are, by their number, if the endpoint is that of the program's rank.
fn channels_of(program: &CertifiedProgram, group: &Group, endpoint: &Endpoint) -> Result<Vec<Channel>, ExecFault> {
    let too_small = || ExecFault::SmallGroup { group: group.id(), n_ranks: group.ranks().len() };
    let expected = group.rank(program.program().rank.idx()).ok_or_else(too_small)?;
    if endpoint.rank() != expected {
        return Err(ExecFault::WrongRank { endpoint: endpoint.rank(), program: expected });
    }
    program.channels().iter().map(|&channel| group.channel(channel).ok_or_else(too_small)).collect()
}

/// A step in progress.
struct Run<'a, S> {
    /// Those of the run, by the program's numbers.
    channels: Vec<Channel>,
    step: u64,
    endpoint: &'a mut Endpoint,
    boundaries: &'a Boundaries,
    stage: &'a mut S,
    /// By transfer: what is posted and not waited for.
    in_flight: Vec<Option<InFlight>>,
    slots: Slots,
    /// Weight gradients put off so far.
    deferred: usize,
    report: StepReport,
    recording: &'a mut Recording,
}

impl<S: StageCompute> Run<'_, S> {
    fn compute(&mut self, compute: &Compute) -> Result<(), ExecFault> {
        let &Compute { work, saved, input, output, .. } = compute;
        let given = input.map(|slot| self.slots.take(slot)).transpose()?;
        if let (WorkKind::Forward, Some(saved)) = (work.kind, saved) {
            self.slots.occupy(saved, 0);
        }
        let task = Task { work, saved };
        let subject = Subject::Compute { step: self.step, work };
        self.endpoint.recorder().note(subject, State::Begun, 0);
        let start = Instant::now();
        let made = match work.kind {
            WorkKind::Forward => self.stage.forward(task, given),
            WorkKind::Backward => self.stage.backward(task, given),
            WorkKind::BackwardInput => self.stage.backward_input(task, given),
            WorkKind::BackwardWeight => self.stage.backward_weight(task).map(|()| None),
        };
        let end = Instant::now();
        self.report.compute += end - start;
        self.recording.add(Did::Compute(work), start, end);
        self.count_deferred(work.kind);
        self.endpoint.recorder().note(subject, if made.is_ok() { State::Done } else { State::Failed }, 0);
        let made = made.map_err(|error| ExecFault::Stage(Box::new(error)))?;
        self.keep(made, output, work.microbatch)?;
        if let (WorkKind::Backward | WorkKind::BackwardWeight, Some(saved)) = (work.kind, saved) {
            self.slots.release(saved);
        }
        if let Some(input) = input {
            self.slots.release(input);
        }
        Ok(())
    }

    fn count_deferred(&mut self, done: WorkKind) {
        match done {
            WorkKind::Forward | WorkKind::Backward => {}
            WorkKind::BackwardInput => {
                self.deferred += 1;
                self.report.peak_deferred = self.report.peak_deferred.max(self.deferred);
            }
            WorkKind::BackwardWeight => self.deferred = self.deferred.saturating_sub(1),
        }
    }

    /// Puts what a computation made where the program wants it.
    fn keep(&mut self, made: Option<Buffer>, output: Option<Slot>, microbatch: Microbatch) -> Result<(), ExecFault> {
        let (made, slot) = match (made, output) {
            (None, None) => return Ok(()),
            (None, Some(slot)) => return Err(ExecFault::NoOutput { slot }),
            (Some(made), None) => return Err(ExecFault::NeedlessOutput { found: made.boundary().clone() }),
            (Some(made), Some(slot)) => (made, slot),
        };
        let agreed = boundary_of(self.boundaries, microbatch)?;
        if made.boundary() != agreed {
            return Err(ExecFault::WrongOutput { agreed: agreed.clone(), found: made.boundary().clone() });
        }
        self.slots.occupy(slot, agreed.n_bytes());
        self.slots.put(slot, made)
    }

    fn post(&mut self, first: u32, transfers: &[Transfer]) -> Result<(), ExecFault> {
        let start = Instant::now();
        let mut exchange = Exchange::begin(self.endpoint);
        for (number, transfer) in (first as usize..).zip(transfers) {
            let unknown = || ExecFault::Unsound(format!("there is no channel {}", transfer.channel));
            let &channel = self.channels.get(transfer.channel.idx()).ok_or_else(unknown)?;
            let envelope = Envelope { step: self.step, message: transfer.message };
            self.in_flight[number] = Some(match transfer.role {
                Role::Send => InFlight::Send(exchange.send(channel, envelope, self.slots.take(transfer.slot)?)?),
                Role::Receive => {
                    let boundary = boundary_of(self.boundaries, transfer.message.microbatch)?;
                    self.slots.occupy(transfer.slot, boundary.n_bytes());
                    InFlight::Receive(exchange.receive(channel, envelope, boundary.clone())?)
                }
            });
        }
        exchange.end()?;
        self.report.post += start.elapsed();
        Ok(())
    }

    fn wait(&mut self, number: u32, transfer: &Transfer) -> Result<(), ExecFault> {
        let unposted = || ExecFault::Unsound(format!("it waits for {transfer}, which was not posted"));
        let in_flight = self.in_flight[number as usize].take().ok_or_else(unposted)?;
        let start = Instant::now();
        // What was sent is given up here and not before: until now its memory was the endpoint's.
        let received = in_flight.wait(self.endpoint)?;
        let end = Instant::now();
        let (did, waited) = match transfer.role {
            Role::Send => (Did::WaitSend(transfer.message, transfer.peer), &mut self.report.wait_send),
            Role::Receive => (Did::WaitReceive(transfer.message, transfer.peer), &mut self.report.wait_receive),
        };
        *waited += end - start;
        self.recording.add(did, start, end);
        match received {
            Some(buffer) => self.slots.put(transfer.slot, buffer)?,
            None if transfer.releases => self.slots.release(transfer.slot),
            None => {}
        }
        Ok(())
    }
}

fn boundary_of(boundaries: &Boundaries, microbatch: Microbatch) -> Result<&Boundary, CommError> {
    boundaries.of(microbatch).ok_or(CommError::NoBoundary { microbatch })
}
