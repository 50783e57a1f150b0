//! The executor: runs one rank's program, action by action. It knows no schedule; whatever one says is in the program.

mod recording;
mod slots;

use std::time::{Duration, Instant};

use pp_schedule::{
    CertifiedProgram, Channel, Compute, Rank, RankProgram, Role, Slot, SlotClass, Step, Transfer, Work, WorkKind,
};

use crate::endpoint::{Endpoint, RecvTicket, SendTicket};
use crate::error::CommError;
use crate::flight::{State, Subject};
use crate::message::{Boundary, Buffer, Envelope};
pub use recording::{Did, Recording, Span};
use slots::Slots;

/// What a stage is asked to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The computation.
    pub work: Work,
    /// Where its state is kept: a forward leaves it there, a backward takes it. None in a forward-only program.
    pub saved: Option<Slot>,
}

/// What the executor calls: the computations of a rank's stages.
///
/// The result of a computation is `None` exactly where the program has no place for one: after the last stage's forward
/// and the first stage's backward. The executor refuses anything else.
pub trait StageCompute {
    /// What can go wrong in a computation.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Forward: from the activation (none for the first stage) to the next one (none for the last stage).
    ///
    /// # Errors
    /// As the stage says.
    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>, Self::Error>;

    /// Backward for input and weights: from the output's gradient (none for the last stage) to the input's (none for
    /// the first stage).
    ///
    /// # Errors
    /// As the stage says.
    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Self::Error>;

    /// Backward for the input only; the weights follow in [`StageCompute::backward_weight`].
    ///
    /// # Errors
    /// As the stage says.
    fn backward_input(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Self::Error>;

    /// Backward for the weights only.
    ///
    /// # Errors
    /// As the stage says.
    fn backward_weight(&mut self, task: Task) -> Result<(), Self::Error>;
}

/// What a step took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// Time from the first action to the last.
    pub total: Duration,
    /// Time spent in computations.
    pub compute: Duration,
    /// Time spent waiting for sends to be complete.
    pub wait_send: Duration,
    /// Time spent waiting for messages.
    pub wait_receive: Duration,
    peak: [usize; 4],
    peak_deferred: usize,
}

impl StepReport {
    /// The most slots of a class that were in use at once, counted while the program ran.
    pub const fn peak(&self, class: SlotClass) -> usize {
        self.peak[class as usize]
    }

    /// The most weight gradients that were put off at once: backwards for the input that were done, and for the weights
    /// that were not. Counted while the program ran.
    pub const fn peak_deferred(&self) -> usize {
        self.peak_deferred
    }
}

/// A step that did not come to its end: where it stopped. Its source is [`ExecFault`]: why.
#[derive(Debug, thiserror::Error)]
#[error("rank {rank}, step {step}, action {action_idx} ({action}){}", last_done_text(last_done.as_deref()))]
pub struct ExecError {
    /// The rank.
    pub rank: Rank,
    /// The step.
    pub step: u64,
    /// The place of the action in the rank's program.
    pub action_idx: usize,
    /// The action.
    pub action: String,
    /// The rank at the other end, if the action is a transfer.
    pub peer: Option<Rank>,
    /// The last action that was done.
    pub last_done: Option<String>,
    /// Why it stopped.
    #[source]
    pub fault: Box<ExecFault>,
}

fn last_done_text(last_done: Option<&str>) -> String {
    last_done.map_or_else(|| ", nothing done before".to_owned(), |action| format!(", last done: {action}"))
}

/// Why an action could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecFault {
    /// A message did not come through.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// The stage's own error.
    #[error("the computation failed")]
    Stage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The stage made nothing where the program has a place for a result.
    #[error("the stage made nothing, but the program has its result go to {slot}")]
    NoOutput {
        /// The place.
        slot: Slot,
    },
    /// The stage made something where the program has no place for a result.
    #[error("the stage made {found}, but the program has no place for a result here")]
    NeedlessOutput {
        /// What it made.
        found: Boundary,
    },
    /// The stage made something else than agreed.
    #[error("the stage made {found}, but {agreed} was agreed between stages")]
    WrongOutput {
        /// What was agreed.
        agreed: Boundary,
        /// What it made.
        found: Boundary,
    },
    /// The endpoint belongs to another rank than the program.
    #[error("the endpoint is rank {endpoint}'s, but the program is rank {program}'s")]
    WrongRank {
        /// The endpoint's rank.
        endpoint: Rank,
        /// The program's rank.
        program: Rank,
    },
    /// A slot or transfer used out of turn, which no verified program does.
    #[error("the program is not sound: {0}")]
    Unsound(String),
}

/// Runs one step of a rank's program.
///
/// `step` tells this execution's messages from those of any other of the run; every rank gives the same. Between
/// stages all messages are as `boundary` says.
///
/// # Errors
/// [`ExecError`], which says where in the program the rank was, with the reason as its source. The endpoint cannot be
/// used for another step after that: drop it, so that the other ranks learn of it.
pub fn execute<S: StageCompute>(
    program: &CertifiedProgram,
    step: u64,
    endpoint: &mut Endpoint,
    boundary: &Boundary,
    stage: &mut S,
) -> Result<StepReport, ExecError> {
    execute_recorded(program, step, endpoint, boundary, stage, &mut Recording::off())
}

/// As [`execute`], and keeps when what was done: a push per computation and wait, of times that are taken anyway.
///
/// # Errors
/// As [`execute`]; the recording then holds what was done before.
pub fn execute_recorded<S: StageCompute>(
    program: &CertifiedProgram,
    step: u64,
    endpoint: &mut Endpoint,
    boundary: &Boundary,
    stage: &mut S,
    recording: &mut Recording,
) -> Result<StepReport, ExecError> {
    let (channels, program) = (program.channels(), program.program());
    if endpoint.rank() != program.rank {
        let fault = ExecFault::WrongRank { endpoint: endpoint.rank(), program: program.rank };
        return Err(error_at(program, step, 0, fault));
    }
    let start = Instant::now();
    recording.begin(start, program.computes.len() + program.transfers.len());
    let (slots, report) = (Slots::new(program), StepReport::default());
    let tickets = program.transfers.iter().map(|_| None).collect();
    let mut run = Run { channels, step, endpoint, boundary, stage, tickets, slots, deferred: 0, report, recording };
    for (index, action) in program.steps().enumerate() {
        run.endpoint.recorder().at_action(u32::try_from(index).ok());
        let done = match action {
            Step::Compute(compute) => run.compute(compute),
            Step::Post(first, transfers) => (first..).zip(transfers).try_for_each(|(number, t)| run.post(number, t)),
            Step::Wait(number, transfer) => run.wait(number, transfer),
            Step::Free(slot) => {
                run.slots.release(slot);
                Ok(())
            }
            // There are no data-parallel ranks to synchronise with yet.
            Step::Mark(_) => Ok(()),
        };
        done.map_err(|fault| error_at(program, step, index, fault))?;
    }
    // A program may end with sends under way; its step does not.
    for (number, transfer) in (0..).zip(&program.transfers) {
        if run.tickets[number as usize].is_some() {
            run.wait(number, transfer).map_err(|fault| error_at(program, step, program.actions.len(), fault))?;
        }
    }
    run.endpoint.recorder().at_action(None);
    Ok(StepReport { total: start.elapsed(), peak: run.slots.peak(), ..run.report })
}

/// A step in progress.
struct Run<'a, S> {
    channels: &'a [Channel],
    step: u64,
    endpoint: &'a mut Endpoint,
    boundary: &'a Boundary,
    stage: &'a mut S,
    /// By transfer: what waits for it.
    tickets: Vec<Option<Ticket>>,
    slots: Slots,
    /// Weight gradients put off so far.
    deferred: usize,
    report: StepReport,
    recording: &'a mut Recording,
}

enum Ticket {
    Send(SendTicket),
    Receive(RecvTicket),
}

impl<S: StageCompute> Run<'_, S> {
    fn compute(&mut self, compute: &Compute) -> Result<(), ExecFault> {
        let &Compute { work, saved, input, output, .. } = compute;
        let given = input.map(|slot| self.slots.take(slot)).transpose()?;
        if let (WorkKind::Forward, Some(saved)) = (work.kind, saved) {
            self.slots.occupy(saved);
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
        self.keep(made, output)?;
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
    fn keep(&mut self, made: Option<Buffer>, output: Option<Slot>) -> Result<(), ExecFault> {
        match (made, output) {
            (None, None) => Ok(()),
            (None, Some(slot)) => Err(ExecFault::NoOutput { slot }),
            (Some(made), None) => Err(ExecFault::NeedlessOutput { found: made.boundary().clone() }),
            (Some(made), Some(_)) if made.boundary() != self.boundary => {
                Err(ExecFault::WrongOutput { agreed: self.boundary.clone(), found: made.boundary().clone() })
            }
            (Some(made), Some(slot)) => {
                self.slots.occupy(slot);
                self.slots.put(slot, made)
            }
        }
    }

    fn post(&mut self, number: u32, transfer: &Transfer) -> Result<(), ExecFault> {
        let unknown = || ExecFault::Unsound(format!("there is no channel {}", transfer.channel));
        let &channel = self.channels.get(transfer.channel.idx()).ok_or_else(unknown)?;
        let envelope = Envelope { step: self.step, message: transfer.message };
        let ticket = match transfer.role {
            Role::Send => {
                let buffer = self.slots.take(transfer.slot)?;
                Ticket::Send(self.endpoint.post_send(channel, envelope, buffer)?)
            }
            Role::Receive => {
                self.slots.occupy(transfer.slot);
                Ticket::Receive(self.endpoint.post_recv(channel, envelope, self.boundary.clone())?)
            }
        };
        self.tickets[number as usize] = Some(ticket);
        Ok(())
    }

    fn wait(&mut self, number: u32, transfer: &Transfer) -> Result<(), ExecFault> {
        let start = Instant::now();
        match self.tickets[number as usize].take() {
            None => return Err(ExecFault::Unsound(format!("it waits for {transfer}, which was not posted"))),
            Some(Ticket::Send(ticket)) => {
                self.endpoint.wait_send(ticket)?;
                if transfer.releases {
                    self.slots.release(transfer.slot);
                }
                let end = Instant::now();
                self.report.wait_send += end - start;
                self.recording.add(Did::WaitSend(transfer.message, transfer.peer), start, end);
            }
            Some(Ticket::Receive(ticket)) => {
                let buffer = self.endpoint.wait_recv(ticket)?;
                let end = Instant::now();
                self.report.wait_receive += end - start;
                self.recording.add(Did::WaitReceive(transfer.message, transfer.peer), start, end);
                self.slots.put(transfer.slot, buffer)?;
            }
        }
        Ok(())
    }
}

fn error_at(program: &RankProgram, step: u64, action_idx: usize, fault: ExecFault) -> ExecError {
    let text = |index| program.step(index).map(|action| action.to_string());
    let peer = match program.step(action_idx) {
        Some(Step::Wait(_, transfer)) => Some(transfer.peer),
        Some(Step::Post(_, transfers)) => transfers.first().map(|transfer| transfer.peer),
        _ => None,
    };
    ExecError {
        rank: program.rank,
        step,
        action_idx,
        action: text(action_idx).unwrap_or_else(|| "end of the step".to_owned()),
        peer,
        last_done: action_idx.checked_sub(1).and_then(text),
        fault: Box::new(fault),
    }
}
