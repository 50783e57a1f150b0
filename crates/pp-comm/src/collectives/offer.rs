//! The word that a collective begins with, from each rank to each other: of what type and shape it is, and who its root
//! is.

use super::error::GroupError;
use super::round::{Piece, Round};
use crate::endpoint::Endpoint;
use crate::error::CommError;
use crate::group::Lane;
use crate::message::{Boundary, Buffer, BufferError, DType, MAX_DIMS};
use crate::p2p::{Receiving, Sending};

/// Integers in a word: the root plus 1, or 0 where there is none; the element type as numbered in frames; how many
/// dimensions; the dimensions, the unused ones 0.
const WORDS: usize = 3 + MAX_DIMS;

/// What a rank asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) boundary: Boundary,
    /// The place of the root.
    pub(super) root: Option<usize>,
}

impl Offer {
    fn encode(&self) -> Result<Buffer, BufferError> {
        let shape = self.boundary.shape();
        let mut words = vec![0; WORDS];
        words[0] = self.root.map_or(0, |root| root as i64 + 1);
        words[1] = self.boundary.dtype() as i64;
        words[2] = shape.len() as i64;
        words[3..].iter_mut().zip(shape).for_each(|(word, &dim)| *word = i64::try_from(dim).unwrap_or(i64::MAX));
        Buffer::i64(&[WORDS], words)
    }

    /// None of words that mean nothing.
    fn decode(words: &Buffer) -> Option<Self> {
        let words = words.as_i64().ok()?;
        let root = match *words.first()? {
            0 => None,
            root => Some(usize::try_from(root - 1).ok()?),
        };
        let dtype = DType::from_code(u8::try_from(*words.get(1)?).ok()?)?;
        let dims = words.get(3..3_usize.checked_add(usize::try_from(*words.get(2)?).ok()?)?)?;
        let shape = dims.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<usize>, _>>().ok()?;
        Some(Self { boundary: Boundary::new(dtype, &shape).ok()?, root })
    }
}

/// Offers on their way.
#[derive(Debug)]
pub(super) struct Offers {
    ours: Offer,
    receives: Vec<(usize, Receiving)>,
    sends: Vec<Sending>,
}

impl Offers {
    pub(super) const fn new(ours: Offer) -> Self {
        Self { ours, receives: Vec::new(), sends: Vec::new() }
    }

    /// Posts the exchange of offers with a place, before anything else is exchanged with it.
    pub(super) fn post(&mut self, round: &Round, endpoint: &mut Endpoint, place: usize) -> Result<(), GroupError> {
        let words = Boundary::new(DType::I64, &[WORDS])?;
        self.receives.push((place, round.receive(endpoint, Piece::Offer, place, words)?));
        self.sends.push(round.send(endpoint, Piece::Offer, place, self.ours.encode()?)?);
        Ok(())
    }

    /// Waits for all of them, and finds out whether all ranks ask for the same. Those who do not are told by ours
    /// before the error is given.
    pub(super) fn check(self, round: &Round, endpoint: &mut Endpoint) -> Result<(), GroupError> {
        let Self { ours, receives, sends } = self;
        let mut fault = None;
        for (from, receive) in receives {
            let differs = match receive.wait(endpoint) {
                Ok(words) => difference(round, from, &ours, &words),
                Err(error @ (CommError::WrongMessage { .. } | CommError::WrongBoundary { .. })) => Some(error.into()),
                Err(error) => return Err(fault.unwrap_or_else(|| error.into())),
            };
            fault = fault.or(differs);
        }
        for send in sends {
            match (send.wait(endpoint), &fault) {
                (Ok(_), _) => {}
                (Err(error), None) => return Err(error.into()),
                // A rank that has seen the fault too may be gone by now.
                (Err(_), Some(_)) => break,
            }
        }
        fault.map_or(Ok(()), Err)
    }
}

/// What is wrong with a place's offer, if it is not ours.
fn difference(round: &Round, from: usize, ours: &Offer, words: &Buffer) -> Option<GroupError> {
    let (channel, label) =
        (round.group.collective_channel(from, round.group.place(), Lane::Contributions), round.label(Piece::Offer));
    let Some(theirs) = Offer::decode(words) else {
        let (expected, found) = (ours.boundary.clone(), words.boundary().clone());
        return Some(CommError::WrongBoundary { channel, label, expected, found }.into());
    };
    if theirs.boundary != ours.boundary {
        let (expected, found) = (ours.boundary.clone(), theirs.boundary);
        return Some(CommError::WrongBoundary { channel, label, expected, found }.into());
    }
    match (theirs.root, ours.root) {
        (Some(theirs), Some(ours)) if theirs != ours => {
            let Round { collective, number, .. } = *round;
            let (group, rank) = (round.group.id(), round.group.ranks()[from]);
            Some(GroupError::Root { collective, group, round: number, rank, theirs, ours })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_round_trips_and_nonsense_is_none() {
        for (shape, root) in [(&[][..], None), (&[3, 0], Some(0)), (&[1; MAX_DIMS], Some(7))] {
            let offer = Offer { boundary: Boundary::new(DType::F64, shape).expect("a small shape"), root };
            assert_eq!(Offer::decode(&offer.encode().expect("a few words")), Some(offer));
        }
        let words = |head: &[i64]| {
            let words = head.iter().copied().chain(std::iter::repeat(0)).take(WORDS).collect();
            Offer::decode(&Buffer::i64(&[WORDS], words).expect("a few words"))
        };
        assert!(words(&[0, 1, 0]).is_some());
        for head in [
            &[-1, 1, 0][..],
            &[0, 9, 0],
            &[0, -1, 0],
            &[0, 1, 9],
            &[0, 1, -1],
            &[0, 1, 1, -1],
            &[0, 1, 2, 1 << 40, 1 << 40],
        ] {
            assert_eq!(words(head), None, "{head:?}");
        }
    }
}
