//! The word that a collective begins with, from each rank to each other: of what type and shape it is, who its root is, and
//! whether it is of tensors on the host or on devices.

use super::error::GroupError;
use super::round::{Piece, Round};
use crate::endpoint::Endpoint;
use crate::error::CommError;
use crate::group::Lane;
use crate::message::{Boundary, Buffer, BufferError, DType, MAX_DIMS};
use crate::p2p::{Receiving, Sending};

/// Integers in a word: the root plus 1, or 0 where there is none; the element type as numbered in frames; where the tensors are;
/// how many dimensions; the dimensions, the unused ones 0.
const WORDS: usize = 4 + MAX_DIMS;

/// Where the tensors of a collective are, on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub(super) enum Memory {
    Host = 0,
    /// Only where the feature `nccl` is on in the rank that says it.
    Device = 1,
}

/// What a rank asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) boundary: Boundary,
    /// The place of the root.
    pub(super) root: Option<usize>,
    pub(super) memory: Memory,
}

impl Offer {
    fn encode(&self) -> Result<Buffer, BufferError> {
        let shape = self.boundary.shape();
        let mut words = vec![0; WORDS];
        words[0] = self.root.map_or(0, |root| root as i64 + 1);
        words[1] = self.boundary.dtype() as i64;
        words[2] = self.memory as i64;
        words[3] = shape.len() as i64;
        words[4..].iter_mut().zip(shape).for_each(|(word, &dim)| *word = i64::try_from(dim).unwrap_or(i64::MAX));
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
        let memory = match *words.get(2)? {
            0 => Memory::Host,
            1 => Memory::Device,
            _ => return None,
        };
        let dims = words.get(4..4_usize.checked_add(usize::try_from(*words.get(3)?).ok()?)?)?;
        let shape = dims.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<usize>, _>>().ok()?;
        Some(Self { boundary: Boundary::new(dtype, &shape).ok()?, root, memory })
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

    /// Whether all have come, so that to check them needs no wait for another rank.
    #[cfg(feature = "nccl")]
    pub(super) fn have_come(&self, endpoint: &mut Endpoint) -> bool {
        self.receives.iter().all(|(_, receive)| receive.would_end(endpoint))
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
    let Round { collective, number: round, ref group } = *round;
    let (group, rank) = (group.id(), group.ranks()[from]);
    match (theirs.root, ours.root) {
        (Some(theirs), Some(ours)) if theirs != ours => {
            Some(GroupError::Root { collective, group, round, rank, theirs, ours })
        }
        _ if theirs.memory != ours.memory => {
            let theirs_on_device = theirs.memory == Memory::Device;
            Some(GroupError::Memory { collective, group, round, rank, theirs_on_device })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_round_trips_and_nonsense_is_none() {
        let (host, device) = (Memory::Host, Memory::Device);
        for (shape, root, memory) in
            [(&[][..], None, host), (&[3, 0], Some(0), device), (&[1; MAX_DIMS], Some(7), host)]
        {
            let offer = Offer { boundary: Boundary::new(DType::F64, shape).expect("a small shape"), root, memory };
            assert_eq!(Offer::decode(&offer.encode().expect("a few words")), Some(offer));
        }
        let words = |head: &[i64]| {
            let words = head.iter().copied().chain(std::iter::repeat(0)).take(WORDS).collect();
            Offer::decode(&Buffer::i64(&[WORDS], words).expect("a few words"))
        };
        assert!(words(&[0, 1, 0, 0]).is_some());
        for head in [
            &[-1, 1, 0, 0][..],
            &[0, 9, 0, 0],
            &[0, -1, 0, 0],
            &[0, 1, 2, 0],
            &[0, 1, -1, 0],
            &[0, 1, 0, 9],
            &[0, 1, 0, -1],
            &[0, 1, 0, 1, -1],
            &[0, 1, 0, 2, 1 << 40, 1 << 40],
        ] {
            assert_eq!(words(head), None, "{head:?}");
        }
    }
}
