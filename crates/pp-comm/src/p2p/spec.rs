//! What a ring communicator is asked for, and whether its calls make sense.

use pp_schedule::deps::{input_of, output_of};
use pp_schedule::lower::megatron::{Issue, OpKind, Overlap};
use pp_schedule::{Channel, Direction, Message, Microbatch, Placement, Rank, Shape, Stage, Work};

use super::contents::{Contents, Item, Part, Verdict};
use super::error::P2pError;
use crate::group::Group;
use crate::message::Envelope;

/// A communicator to be made.
#[derive(Clone, Debug)]
pub struct RingSpec {
    /// The pipeline group.
    pub group: Group,
    /// Which of its ranks has which stage: a loop over all of them.
    pub placement: Placement,
    /// How the transfers of a call are issued.
    pub issue: Issue,
    /// Whether calls may return early. As in Megatron only what is issued even-odd can; that plain 1F1B has nothing to
    /// overlap is for the schedule to say ([`pp_schedule::lower::megatron`] does), and it calls none of the methods
    /// that could.
    pub overlap: Overlap,
    /// What activations are made of.
    pub forward: Contents,
    /// What gradients are made of.
    pub backward: Contents,
}

/// What a call is about: a computation of this rank whose input arrives, or whose result leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The step.
    pub step: u64,
    /// The stage of this rank.
    pub stage: Stage,
    /// The microbatch.
    pub microbatch: Microbatch,
}

/// What a stage of this rank has made of a microbatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// The stage and microbatch that made it.
    pub tag: Tag,
    /// What it made.
    pub items: Vec<Item>,
}

impl RingSpec {
    /// Whether a communicator can be made of it.
    pub(super) fn validate(&self) -> Result<(), P2pError> {
        let (placement, n_ranks, issue) = (self.placement, self.group.n_ranks(), self.issue);
        if self.overlap != Overlap::Off && issue != Issue::EvenOdd {
            return Err(P2pError::OverlapNeedsEvenOdd { issue });
        }
        let alone = n_ranks == 1 && placement.n_chunks() > 1;
        if placement.shape() != Shape::Loop || placement.n_ranks() as usize != n_ranks || alone {
            return Err(P2pError::NoRing { placement, n_ranks });
        }
        for contents in [&self.forward, &self.backward] {
            let (given, most) = (contents.parts().len(), usize::from(u16::MAX) + 1);
            if given == 0 || given > most {
                return Err(P2pError::Items { given, most });
            }
        }
        Ok(())
    }

    /// The order in which the transfers of a call are issued.
    pub(super) fn issue_order(&self) -> [OpKind; 4] {
        use OpKind::{ReceiveNext, ReceivePrevious, SendNext, SendPrevious};
        match self.issue {
            Issue::Batched | Issue::Ring => [SendPrevious, ReceivePrevious, SendNext, ReceiveNext],
            Issue::EvenOdd if self.group.place().is_multiple_of(2) => {
                [SendNext, ReceivePrevious, SendPrevious, ReceiveNext]
            }
            Issue::EvenOdd => [ReceivePrevious, SendNext, ReceiveNext, SendPrevious],
        }
    }

    pub(super) const fn contents(&self, direction: Direction) -> &Contents {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    pub(super) fn arrival_channel(&self, direction: Direction) -> Channel {
        let (place, n_ranks) = (self.group.place(), self.group.n_ranks());
        let from = match direction {
            Direction::Forward => place + n_ranks - 1,
            Direction::Backward => place + 1,
        };
        self.group.ring_channel(from % n_ranks, direction)
    }

    /// The message that a send is, if anybody takes it, with its items checked.
    pub(super) fn leaving(
        &self,
        direction: Direction,
        outgoing: Option<Outgoing>,
    ) -> Result<Option<(Envelope, Vec<Item>)>, P2pError> {
        let Some(Outgoing { tag, items }) = outgoing else { return Ok(None) };
        let Some(message) = output_of(self.work(direction, tag)?, self.placement) else { return Ok(None) };
        let envelope = Envelope { step: tag.step, message };
        self.check(direction, envelope, &items)?;
        Ok(Some((envelope, items)))
    }

    /// The message that a receive is for, if anybody makes it.
    pub(super) fn arriving(&self, direction: Direction, tag: Option<Tag>) -> Result<Option<Envelope>, P2pError> {
        let Some(tag) = tag else { return Ok(None) };
        let of_step = |message: Message| Envelope { step: tag.step, message };
        Ok(input_of(self.work(direction, tag)?, self.placement).map(of_step))
    }

    fn work(&self, direction: Direction, tag: Tag) -> Result<Work, P2pError> {
        let (placement, group) = (self.placement, &self.group);
        let Tag { stage, microbatch, .. } = tag;
        let here = Rank(group.place() as u32);
        if stage.0 >= placement.n_stages() || placement.rank_of(stage) != here {
            let has = placement.stages_of(here).collect();
            return Err(P2pError::NotHere { stage, rank: group.me(), place: group.place(), has });
        }
        Ok(match direction {
            Direction::Forward => Work::forward(stage, microbatch),
            Direction::Backward => Work::backward(stage, microbatch),
        })
    }

    /// Whether items are what was agreed.
    fn check(&self, direction: Direction, envelope: Envelope, items: &[Item]) -> Result<(), P2pError> {
        let contents = self.contents(direction);
        let (agreed, given) = (contents.parts().len(), items.len());
        if agreed != given {
            return Err(P2pError::Arity { envelope, agreed, given });
        }
        for (part, (agreed, item)) in contents.parts().iter().zip(items).enumerate() {
            let given = Part::of(item);
            match (contents.admits(agreed, &given), given) {
                (Verdict::Fine, _) => {}
                (Verdict::Beyond, Part::Tensor(found)) => {
                    let found = found.shape().iter().map(|&dim| dim as i64).collect();
                    return Err(P2pError::BeyondBound { envelope, part, bound: agreed.clone(), found });
                }
                (_, given) => return Err(P2pError::WrongItem { envelope, part, agreed: agreed.clone(), given }),
            }
        }
        Ok(())
    }
}
