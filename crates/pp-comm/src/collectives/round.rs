//! One collective of a group among others: where its messages go and what they are called.

use crate::collective::Collective;
use crate::endpoint::Endpoint;
use crate::error::CommError;
use crate::flight::{State, Subject};
use crate::group::{Group, Lane};
use crate::message::{Boundary, Buffer, Label};
use crate::p2p::{Exchange, Receiving, Sending};

/// What a message of a collective is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// The word that it begins with.
    Offer,
    /// What a rank gives.
    Contribution,
    /// What a rank has made of that.
    Result,
}

impl Piece {
    const fn lane(self) -> Lane {
        match self {
            Self::Offer | Self::Contribution => Lane::Contributions,
            Self::Result => Lane::Results,
        }
    }
}

/// One collective of a group.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) group: Group,
    pub(super) collective: Collective,
    /// Its number among those of the group.
    pub(super) number: u64,
}

impl Round {
    pub(super) const fn label(&self, piece: Piece) -> Label {
        let Self { collective, number: round, .. } = *self;
        Label::Piece { collective, group: self.group.id(), round, piece: piece as u32 }
    }

    /// Posts a send to a place.
    pub(super) fn send(
        &self,
        endpoint: &mut Endpoint,
        piece: Piece,
        to: usize,
        buffer: Buffer,
    ) -> Result<Sending, CommError> {
        let channel = self.group.collective_channel(self.group.place(), to, piece.lane());
        Exchange::begin(endpoint).send(channel, self.label(piece), buffer)
    }

    /// Posts a receive from a place.
    pub(super) fn receive(
        &self,
        endpoint: &mut Endpoint,
        piece: Piece,
        from: usize,
        boundary: Boundary,
    ) -> Result<Receiving, CommError> {
        let channel = self.group.collective_channel(from, self.group.place(), piece.lane());
        Exchange::begin(endpoint).receive(channel, self.label(piece), boundary)
    }

    /// Has the recorder keep how far it is.
    pub(super) fn note(&self, endpoint: &Endpoint, state: State) {
        let Self { collective, number: round, .. } = *self;
        let subject = Subject::Collective { collective, group: Some(self.group.id()), round };
        endpoint.recorder().note(subject, state, 0);
    }
}
