//! What Megatron would be seen to do: a rank's program with what the program does not hold.
//!
//! A recorded trace has events that do nothing: calls that move no tensor, names of methods and phases, frees of outputs
//! that were never sent or are freed already. A program has only actions. The view holds the difference, and nothing
//! else: [`View::events`] weaves the two together, and taking out what the view added gives the program's actions back.

use std::collections::HashMap;

use crate::deps::Message;
use crate::ids::{Chunk, Direction, Microbatch};
use crate::order::Extent;
use crate::program::{Mark, RankProgram, Recompute, Role, Slot, Step, Transfer};
use crate::work::WorkKind;

/// The methods of Megatron's P2P communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `recv_forward`
    RecvForward,
    /// `recv_backward`
    RecvBackward,
    /// `send_forward`
    SendForward,
    /// `send_backward`
    SendBackward,
    /// `send_forward_recv_backward`
    SendForwardRecvBackward,
    /// `send_backward_recv_forward`
    SendBackwardRecvForward,
    /// `send_forward_recv_forward`
    SendForwardRecvForward,
    /// `send_backward_recv_backward`
    SendBackwardRecvBackward,
    /// `send_forward_backward_recv_forward_backward`
    SendBothRecvBoth,
}

/// A phase of the interleaved schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Forwards only.
    Warmup,
    /// Forwards and backwards in turn.
    Steady,
    /// Backwards only.
    Cooldown,
    /// What comes after.
    Misc,
}

/// The four transfers of a ring exchange, as seen from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// To the next rank: an output.
    SendNext,
    /// From the previous rank: an input.
    ReceivePrevious,
    /// To the previous rank: an input's gradient.
    SendPrevious,
    /// From the next rank: an output's gradient.
    ReceiveNext,
}

/// A transfer, named by the chunk and microbatch of this rank that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// Which of the four.
    pub kind: OpKind,
    /// The chunk whose output or gradient is sent, or whose input or gradient arrives.
    pub chunk: Chunk,
    /// The microbatch.
    pub microbatch: Microbatch,
}

/// Something that Megatron is seen to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A forward starts; whether it recomputes every layer, if that is decided per microbatch.
    Forward(Chunk, Microbatch, Option<bool>),
    /// A backward starts.
    Backward(Chunk, Microbatch),
    /// A method is called, with the transfers it makes and whether it returns before they are complete.
    Call(Method, Vec<Op>, bool),
    /// A transfer of an earlier call is waited for.
    Wait(Op),
    /// An output is freed, if there is one.
    Free(Option<(Chunk, Microbatch)>),
    /// A phase begins.
    Phase(Phase),
    /// A mark for whoever synchronises gradients and parameters.
    Mark(Mark),
}

/// Something that a trace has and a program does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// The next `n_actions` actions are one call of a method.
    Call {
        method: Method,
        n_actions: u32,
        returns_early: bool,
    },
    /// A free that frees nothing.
    Free(Option<(Chunk, Microbatch)>),
    Phase(Phase),
}

/// What a trace adds to a rank's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub(super) extent: Extent,
    /// Each stands before the action of this index.
    pub(super) notes: Vec<(u32, Note)>,
}

impl View {
    /// The program's actions with what the view adds, in turn.
    pub fn events(&self, program: &RankProgram) -> Vec<Event> {
        let mut events = Vec::with_capacity(program.actions.len() + self.notes.len());
        let mut notes = self.notes.iter().peekable();
        // The message that each send slot was last posted with.
        let mut sent: HashMap<Slot, Message> = HashMap::new();
        let mut at = 0;
        while at < program.actions.len() || notes.peek().is_some() {
            match notes.next_if(|(before, _)| *before as usize <= at) {
                Some(&(_, Note::Phase(phase))) => events.push(Event::Phase(phase)),
                Some(&(_, Note::Free(output))) => events.push(Event::Free(output)),
                Some(&(_, Note::Call { method, n_actions, returns_early })) => {
                    let end = at + n_actions as usize;
                    let steps = (at..end).filter_map(|index| program.step(index));
                    let posted: Vec<Transfer> = steps.flat_map(posted_by).copied().collect();
                    sent.extend(posted.iter().map(|transfer| (transfer.slot, transfer.message)));
                    let ops = posted.iter().map(|transfer| self.op(transfer)).collect();
                    events.push(Event::Call(method, ops, returns_early));
                    at = end;
                }
                None => {
                    events.extend(program.step(at).and_then(|step| self.event(&sent, step)));
                    at += 1;
                }
            }
        }
        events
    }

    /// A transfer as Megatron names it.
    pub fn op(&self, transfer: &Transfer) -> Op {
        let Message { direction, stage, microbatch } = transfer.message;
        let kind = match (transfer.role, direction) {
            (Role::Send, Direction::Forward) => OpKind::SendNext,
            (Role::Send, Direction::Backward) => OpKind::SendPrevious,
            (Role::Receive, Direction::Forward) => OpKind::ReceivePrevious,
            (Role::Receive, Direction::Backward) => OpKind::ReceiveNext,
        };
        let stage = if transfer.role == Role::Send { transfer.message.made_by() } else { stage };
        Op { kind, chunk: self.extent.placement.chunk_of(stage), microbatch }
    }

    /// The event that an action by itself stands for; a post stands in a call.
    fn event(&self, sent: &HashMap<Slot, Message>, step: Step<'_>) -> Option<Event> {
        let placement = self.extent.placement;
        Some(match step {
            Step::Compute(compute) => {
                let (chunk, microbatch) = (placement.chunk_of(compute.work.stage), compute.work.microbatch);
                match (compute.work.kind, compute.recompute) {
                    (WorkKind::Forward, Recompute::ModelDefault) => Event::Forward(chunk, microbatch, None),
                    (WorkKind::Forward, recompute) => {
                        Event::Forward(chunk, microbatch, Some(recompute == Recompute::Full))
                    }
                    _ => Event::Backward(chunk, microbatch),
                }
            }
            Step::Post(..) => return None,
            Step::Wait(_, transfer) => Event::Wait(self.op(transfer)),
            Step::Free(slot) => {
                let message = sent.get(&slot)?;
                Event::Free(Some((placement.chunk_of(message.made_by()), message.microbatch)))
            }
            Step::Mark(mark) => Event::Mark(mark),
        })
    }
}

fn posted_by(step: Step<'_>) -> &[Transfer] {
    match step {
        Step::Post(_, transfers) => transfers,
        _ => &[],
    }
}
