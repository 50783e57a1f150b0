//! A collective of tensors on the host, under way.

use super::error::GroupError;
use super::offer::{Offer, Offers};
use super::round::{Piece, Round};
use super::shares;
use crate::endpoint::Endpoint;
use crate::message::{Boundary, Buffer};
use crate::p2p::{Receiving, Sending};
use crate::pieces::{join, sum};

/// What is made of the contributions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// They are kept as they are, by place.
    Keep,
    /// They are the shares of a whole.
    Join(Boundary),
    /// They are added.
    Sum,
    /// They are added to a share of the whole, which then goes to everybody: every place has one.
    SumShares(Boundary),
    /// They are a share of the whole, which then goes to everybody but the root, who has it all.
    PassShares { whole: Boundary, root: usize },
}

/// What a rank gives and gets in a collective.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) offer: Offer,
    pub(super) plan: Plan,
    /// By place: what goes to it. What goes to this rank's own place stays there.
    pub(super) gives: Vec<Option<Buffer>>,
    /// By place: what comes from it.
    pub(super) gets: Vec<Option<Boundary>>,
}

/// How far it is.
#[derive(Debug)]
enum Stage {
    /// Contributions are on their way.
    Contributions { offers: Offers, receives: Vec<Option<Receiving>>, own: Option<Buffer>, plan: Plan },
    /// Shares of the result are, from these places.
    Results { whole: Boundary, receives: Vec<Option<Receiving>>, own: Buffer },
    /// It is made.
    Made(Vec<Buffer>),
}

/// A collective under way, on one rank.
#[derive(Debug)]
pub(super) struct HostJob {
    round: Round,
    stage: Stage,
    sends: Vec<Sending>,
}

impl HostJob {
    /// Posts what can be posted: the offers, then all receives, then all sends.
    pub(super) fn start(round: Round, part: Part, endpoint: &mut Endpoint) -> Result<Self, GroupError> {
        let Part { offer, plan, mut gives, gets } = part;
        let mut offers = Offers::new(offer);
        for place in round.group.others() {
            offers.post(&round, endpoint, place)?;
        }
        let mut sends = Vec::new();
        let own = gives[round.group.place()].take();
        match post_contributions(&round, gives, gets, &mut sends, endpoint) {
            Ok(receives) => {
                let stage = Stage::Contributions { offers, receives, own, plan };
                Ok(Self { round, stage, sends })
            }
            // A channel may have failed already because its rank asks for something else. The others must learn it from
            // our offers all the same, and it is the offers that say why.
            Err(error) => Err(offers.check(&round, endpoint).err().unwrap_or(error)),
        }
    }

    pub(super) const fn round(&self) -> &Round {
        &self.round
    }

    /// Whether everything that this rank has to send is posted.
    pub(super) const fn is_driven(&self) -> bool {
        !matches!(self.stage, Stage::Contributions { .. })
    }

    /// Sees to it that everything this rank has to send is posted: other ranks then need it no more.
    pub(super) fn drive(&mut self, endpoint: &mut Endpoint) -> Result<(), GroupError> {
        match std::mem::replace(&mut self.stage, Stage::Made(Vec::new())) {
            Stage::Contributions { offers, receives, own, plan } => {
                offers.check(&self.round, endpoint)?;
                let given = in_places(receives, own, self.round.group.place(), endpoint)?;
                self.stage = self.combine(given, plan, endpoint)?;
            }
            stage => self.stage = stage,
        }
        Ok(())
    }

    fn combine(&mut self, given: Vec<Buffer>, plan: Plan, endpoint: &mut Endpoint) -> Result<Stage, GroupError> {
        Ok(match plan {
            Plan::Keep => Stage::Made(given),
            Plan::Join(whole) => Stage::Made(vec![join(&given, &whole)?]),
            Plan::Sum => Stage::Made(sum(given)?.into_iter().collect()),
            Plan::SumShares(whole) => match sum(given)? {
                Some(share) => self.share_out(share, None, whole, endpoint)?,
                None => Stage::Made(Vec::new()),
            },
            Plan::PassShares { whole, root } => match given.into_iter().next() {
                Some(share) => self.share_out(share, Some(root), whole, endpoint)?,
                None => Stage::Made(Vec::new()),
            },
        })
    }

    /// Posts the exchange of shares among all places, or all but one.
    fn share_out(
        &mut self,
        own: Buffer,
        except: Option<usize>,
        whole: Boundary,
        endpoint: &mut Endpoint,
    ) -> Result<Stage, GroupError> {
        let n_ranks = self.round.group.n_ranks();
        let takers: Vec<usize> = self.round.group.others().filter(|&place| Some(place) != except).collect();
        let mut receives: Vec<Option<Receiving>> = (0..n_ranks).map(|_| None).collect();
        for &from in &takers {
            let (n_shares, share) = share_of(from, except, n_ranks);
            let boundary = shares::boundary(&whole, n_shares, share)?;
            receives[from] = Some(self.round.receive(endpoint, Piece::Result, from, boundary)?);
        }
        for to in takers {
            self.sends.push(self.round.send(endpoint, Piece::Result, to, own.clone())?);
        }
        Ok(Stage::Results { whole, receives, own })
    }

    /// Waits for its end; gives what it made.
    pub(super) fn finish(&mut self, endpoint: &mut Endpoint) -> Result<Vec<Buffer>, GroupError> {
        self.drive(endpoint)?;
        let made = match std::mem::replace(&mut self.stage, Stage::Made(Vec::new())) {
            Stage::Results { whole, receives, own } => {
                let parts = in_places(receives, Some(own), self.round.group.place(), endpoint)?;
                vec![join(&parts, &whole)?]
            }
            Stage::Made(made) => made,
            // It was driven past these just now.
            Stage::Contributions { .. } => Vec::new(),
        };
        std::mem::take(&mut self.sends).into_iter().try_for_each(|send| send.wait(endpoint).map(drop))?;
        Ok(made)
    }
}

fn post_contributions(
    round: &Round,
    mut gives: Vec<Option<Buffer>>,
    mut gets: Vec<Option<Boundary>>,
    sends: &mut Vec<Sending>,
    endpoint: &mut Endpoint,
) -> Result<Vec<Option<Receiving>>, GroupError> {
    let mut receives: Vec<Option<Receiving>> = gets.iter().map(|_| None).collect();
    for from in round.group.others() {
        let post = |boundary| round.receive(endpoint, Piece::Contribution, from, boundary);
        receives[from] = gets[from].take().map(post).transpose()?;
    }
    for to in round.group.others() {
        if let Some(buffer) = gives[to].take() {
            sends.push(round.send(endpoint, Piece::Contribution, to, buffer)?);
        }
    }
    Ok(receives)
}

/// How many shares there are and which one is a place's: one for each place, or for each but one.
pub(super) const fn share_of(place: usize, except: Option<usize>, n_ranks: usize) -> (usize, usize) {
    match except {
        None => (n_ranks, place),
        Some(root) => (n_ranks - 1, if place > root { place - 1 } else { place }),
    }
}

/// Waits for what comes, in the order of places, with this rank's own at its place.
fn in_places(
    receives: Vec<Option<Receiving>>,
    mut own: Option<Buffer>,
    place: usize,
    endpoint: &mut Endpoint,
) -> Result<Vec<Buffer>, GroupError> {
    let mut buffers = Vec::with_capacity(receives.len());
    for (from, receive) in receives.into_iter().enumerate() {
        if from == place {
            buffers.extend(own.take());
        }
        if let Some(receive) = receive {
            buffers.push(receive.wait(endpoint)?);
        }
    }
    Ok(buffers)
}
