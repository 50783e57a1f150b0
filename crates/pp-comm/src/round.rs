//! One collective in the making: what each rank gave to it. Kept by whoever collects: the memory fabric, or the host.

use pp_schedule::Rank;

use crate::collective::Collective;

/// The state of one collective.
#[derive(Debug)]
pub(crate) struct Round {
    number: u64,
    collective: Option<Collective>,
    parts: Vec<Option<Vec<u8>>>,
}

impl Round {
    pub(crate) fn new(number: u64, n_ranks: usize) -> Self {
        Self { number, collective: None, parts: vec![None; n_ranks] }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// What it is, once one rank has said so.
    pub(crate) const fn collective(&self) -> Option<Collective> {
        self.collective
    }

    /// Adds what a rank gives; fails with what the others ask for if that is something else.
    pub(crate) fn give(&mut self, rank: Rank, collective: Collective, part: Vec<u8>) -> Result<(), Collective> {
        let ours = *self.collective.get_or_insert(collective);
        if ours != collective {
            return Err(ours);
        }
        self.parts[rank.idx()] = Some(part);
        Ok(())
    }

    /// The ranks that have not given yet.
    pub(crate) fn missing(&self) -> Vec<Rank> {
        let ranks = self.parts.iter().zip(0..);
        ranks.filter(|(part, _)| part.is_none()).map(|(_, rank)| Rank(rank)).collect()
    }

    /// All parts in rank order, once every rank has given its own.
    pub(crate) fn complete(&self) -> Option<Vec<&[u8]>> {
        self.parts.iter().map(Option::as_deref).collect()
    }
}
