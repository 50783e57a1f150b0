//! A step that did not come to its end: where, and why.

use pp_schedule::{Rank, RankProgram, Slot, Step, Transfer};

use super::spec::StepSpec;
use crate::error::CommError;
use crate::message::Boundary;

/// A step that did not come to its end: where it stopped. Its source is [`ExecFault`]: why. Ranks are those of the run, not
/// their places in the program.
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
    /// A group with fewer ranks than the program.
    #[error("group {group} has {n_ranks} ranks, but the program has more")]
    SmallGroup {
        /// The group's number.
        group: u32,
        /// Its ranks.
        n_ranks: usize,
    },
    /// A slot or transfer used out of turn, which no verified program does.
    #[error("the program is not sound: {0}")]
    Unsound(String),
}

/// What went wrong at an action of a rank's program.
pub(super) fn error_at(program: &RankProgram, spec: StepSpec<'_>, action_idx: usize, fault: ExecFault) -> ExecError {
    let of_run = |place: Rank| spec.group.rank(place.idx()).unwrap_or(place);
    let renamed = |transfer: &Transfer| Transfer { peer: of_run(transfer.peer), ..*transfer };
    let text = |index| {
        program.step(index).map(|action| match action {
            Step::Wait(number, transfer) => Step::Wait(number, &renamed(transfer)).to_string(),
            Step::Post(first, transfers) => {
                Step::Post(first, &transfers.iter().map(renamed).collect::<Vec<_>>()).to_string()
            }
            action => action.to_string(),
        })
    };
    let peer = match program.step(action_idx) {
        Some(Step::Wait(_, transfer)) => Some(transfer.peer),
        Some(Step::Post(_, transfers)) => transfers.first().map(|transfer| transfer.peer),
        _ => None,
    };
    ExecError {
        rank: of_run(program.rank),
        step: spec.step,
        action_idx,
        action: text(action_idx).unwrap_or_else(|| "end of the step".to_owned()),
        peer: peer.map(of_run),
        last_done: action_idx.checked_sub(1).and_then(text),
        fault: Box::new(fault),
    }
}
