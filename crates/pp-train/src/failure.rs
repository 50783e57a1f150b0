//! What kind of failure an error is, for the exit code.

use pp_comm::collectives::GroupError;
use pp_comm::{CommError, ExecError, ExecFault, Refusal, RendezvousError};

use crate::invalid::Invalid;

/// The kinds of failure that whoever started a rank wants to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The arguments, the configuration or the text make no run.
    Invalid,
    /// A rank was lost or did not answer in time.
    Lost,
    /// Anything else.
    Other,
}

impl Failure {
    /// The kind of an error, by the first of its causes that has one.
    pub fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(kind_of).unwrap_or(Self::Other)
    }
}

fn kind_of(error: &(dyn std::error::Error + 'static)) -> Option<Failure> {
    if error.is::<Invalid>() {
        return Some(Failure::Invalid);
    }
    if let Some(error) = error.downcast_ref::<CommError>() {
        return Some(of_comm(error));
    }
    if let Some(GroupError::Comm(error)) = error.downcast_ref() {
        return Some(of_comm(error));
    }
    if let Some(error) = error.downcast_ref::<ExecError>() {
        return Some(match &*error.fault {
            ExecFault::Comm(error) => of_comm(error),
            _ => Failure::Other,
        });
    }
    error.downcast_ref::<RendezvousError>().map(|error| match error {
        RendezvousError::Comm(error) => of_comm(error),
        RendezvousError::Refused(Refusal::Missing { .. } | Refusal::Stopped)
        | RendezvousError::Unreachable { .. }
        | RendezvousError::NoAnswer { .. }
        | RendezvousError::Link { .. }
        | RendezvousError::NoAddress { .. }
        | RendezvousError::NotOver { .. } => Failure::Lost,
        RendezvousError::Refused(_)
        | RendezvousError::Terms { .. }
        | RendezvousError::OneSided { .. }
        | RendezvousError::WrongSecret { .. }
        | RendezvousError::Open { .. }
        | RendezvousError::Secret(_) => Failure::Invalid,
        _ => Failure::Other,
    })
}

fn of_comm(error: &CommError) -> Failure {
    match error {
        CommError::PeerLost { .. } | CommError::Deadline { .. } | CommError::CollectiveDeadline { .. } => Failure::Lost,
        // Another rank has not done its part of what they do together.
        #[cfg(feature = "nccl")]
        CommError::Nccl { error: pp_comm::nccl_rs::NcclError::Deadline { .. }, .. } => Failure::Lost,
        _ => Failure::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::Context;
    use pp_schedule::Rank;

    use super::*;

    fn lost() -> CommError {
        CommError::PeerLost { rank: Rank(1), reason: "its process ended".to_owned() }
    }

    #[test]
    fn a_lost_rank_is_found_under_whatever_was_said_about_it() {
        let in_program = ExecError {
            rank: Rank(0),
            step: 3,
            action_idx: 7,
            action: "wait".to_owned(),
            peer: Some(Rank(1)),
            last_done: None,
            fault: Box::new(lost().into()),
        };
        for error in [
            anyhow::Error::from(lost()),
            anyhow::Error::from(RendezvousError::from(lost())),
            anyhow::Error::from(in_program),
            anyhow::Error::from(GroupError::from(lost())),
        ] {
            assert_eq!(Failure::of(&error), Failure::Lost, "{error:#}");
            assert_eq!(Failure::of(&error.context("while training")), Failure::Lost);
        }
    }

    #[test]
    fn refusals_are_by_what_is_refused() {
        let missing = Refusal::Missing {
            missing: vec![Rank(1)],
            n_ranks: 2,
            limit: Duration::from_secs(1),
            strangers: Vec::new(),
        };
        assert_eq!(Failure::of(&RendezvousError::Refused(missing).into()), Failure::Lost);
        let twice = Refusal::Duplicate { rank: Rank(1) };
        assert_eq!(Failure::of(&RendezvousError::Refused(twice).into()), Failure::Invalid);
        let invalid: anyhow::Result<()> = Err(Invalid("--pp 0".to_owned()).into());
        assert_eq!(Failure::of(&invalid.context("at the start").unwrap_err()), Failure::Invalid);
        assert_eq!(Failure::of(&anyhow::anyhow!("disk full")), Failure::Other);
    }
}
