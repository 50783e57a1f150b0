//! One operation at work. Every kind goes the same way: tell the partners that it has begun; once all of them have begun the
//! same, give them what they are to have; once all has come, write what comes of it. So nothing moves before both ends run,
//! whatever the size.

use crate::job::Work;
use crate::nccl::comm::{Comm, Place};
use crate::nccl::frame::{Begun, Frame, Key, Lane};
use crate::nccl::operation::{Operation, Verb};
use crate::nccl::reduce::reduce;
use crate::nccl::state::State;

/// Who takes part besides this rank, and who needs what.
struct Partners {
    /// Who must have begun too.
    with: Vec<usize>,
    /// Who gets data from here.
    to: Vec<usize>,
    /// Whose data is needed here.
    from: Vec<usize>,
    /// The lane in which they count it.
    theirs: Lane,
    /// The lane in which this rank counts it.
    mine: Lane,
}

fn partners(verb: Verb, Place { rank, n_ranks }: Place) -> Partners {
    let others = || (0..n_ranks).filter(|&peer| peer != rank).collect::<Vec<_>>();
    let together = |to, from| Partners { with: others(), to, from, theirs: Lane::Together, mine: Lane::Together };
    match verb {
        Verb::Send { peer } => {
            Partners { with: vec![peer], to: vec![peer], from: Vec::new(), theirs: Lane::Receive, mine: Lane::Send }
        }
        Verb::Receive { peer } => {
            Partners { with: vec![peer], to: Vec::new(), from: vec![peer], theirs: Lane::Send, mine: Lane::Receive }
        }
        Verb::AllReduce(_) | Verb::AllGather | Verb::ReduceScatter(_) => together(others(), others()),
        Verb::Broadcast { root } if root == rank => together(others(), Vec::new()),
        Verb::Broadcast { root } => together(Vec::new(), vec![root]),
        Verb::Reduce { root, .. } if root == rank => together(Vec::new(), others()),
        Verb::Reduce { root, .. } => together(vec![root], Vec::new()),
    }
}

/// An operation that was launched, with its numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launched {
    pub(crate) operation: Operation,
    /// Among the communicator's operations, from 1.
    pub(crate) nth: u64,
    /// Among those of its lane, and of its peer.
    pub(crate) number: u64,
}

impl Launched {
    /// In reports.
    pub(crate) fn what(&self) -> String {
        format!("{} (operation {})", self.operation, self.nth)
    }
}

/// What came of a look at what has arrived.
#[derive(Debug)]
pub(crate) enum News {
    /// All partners have begun.
    Matched(Vec<Begun>),
    /// All data is there.
    Complete(Vec<(usize, Vec<u8>)>),
    /// A rank that is needed said goodbye.
    Gone(usize),
}

/// What an operation cannot go on for.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The ranks do not agree.
    Mismatch(String),
    /// Memory, as the driver says.
    Memory(String),
}

/// An operation at work.
pub(crate) struct Exchange {
    launched: Launched,
    partners: Partners,
    matched: bool,
    own: Vec<u8>,
    done: bool,
}

impl Exchange {
    pub(crate) fn new(launched: Launched, place: Place) -> Self {
        let partners = partners(launched.operation.verb, place);
        Self { launched, partners, matched: false, own: Vec::new(), done: false }
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) const fn launched(&self) -> &Launched {
        &self.launched
    }

    /// Tells the partners that it has begun, and what is before it. Of a send alone that is the send too: who has what it sent
    /// comes after it read it. Anything else may still touch memory when its partners are done.
    pub(crate) fn begin(&self, comm: &Comm, work: &dyn Work, is_alone: bool) {
        let what = format!("{}, {}", self.launched.what(), comm.title());
        let key = Key { lane: self.partners.mine, number: self.launched.number };
        let is_send = matches!(self.launched.operation.verb, Verb::Send { .. });
        let clock = if is_alone && is_send { work.clock() } else { work.before() };
        let begun = Begun { key, shape: self.launched.operation.shape(), what, clock };
        for &peer in &self.partners.with {
            // Whoever is gone is noticed by its link.
            let _ = comm.tell(peer, Frame::Begun(begun.clone()));
        }
    }

    /// Takes what has arrived, if it is all that is needed to go on.
    pub(crate) fn look(&self, state: &mut State) -> Option<News> {
        let key = Key { lane: self.partners.theirs, number: self.launched.number };
        let arrivals = &mut state.arrivals;
        let needed = if self.matched { &self.partners.from } else { &self.partners.with };
        let there = |peer: &usize| match self.matched {
            true => arrivals.data.contains_key(&(*peer, key)),
            false => arrivals.begun.contains_key(&(*peer, key)),
        };
        if let Some(&missing) = needed.iter().find(|peer| !there(peer)) {
            return arrivals.left.contains(&missing).then_some(News::Gone(missing));
        }
        Some(if self.matched {
            let data = needed.iter().filter_map(|&peer| Some((peer, arrivals.data.remove(&(peer, key))?)));
            News::Complete(data.collect())
        } else {
            News::Matched(needed.iter().filter_map(|&peer| arrivals.begun.remove(&(peer, key))).collect())
        })
    }

    /// All partners have begun: it must be the same there; what they are to have goes out.
    pub(crate) fn matched(&mut self, begun: Vec<Begun>, comm: &Comm, work: &mut dyn Work) -> Result<(), Broken> {
        let Operation { from, .. } = self.launched.operation;
        let shape = self.launched.operation.shape();
        if let Some(other) = begun.iter().find(|begun| begun.shape != shape) {
            let here = format!("{}, {}", self.launched.what(), comm.title());
            let sides = format!("{here}\n{}", other.what);
            // They must hear of it before they see that this rank gives up.
            for &peer in &self.partners.with {
                let _ = comm.tell(peer, Frame::Mismatch(sides.clone()));
            }
            return Err(Broken::Mismatch(sides));
        }
        begun.iter().for_each(|begun| work.join(&begun.clock));
        self.matched = true;
        let Place { rank, n_ranks } = comm.place();
        let (n_read, _) = self.launched.operation.extent(rank, n_ranks);
        if n_read > 0 {
            self.own = work.read(from, n_read).map_err(Broken::Memory)?;
        }
        let key = Key { lane: self.partners.mine, number: self.launched.number };
        for &peer in &self.partners.to {
            let bytes = match self.launched.operation.verb {
                Verb::ReduceScatter(_) => self.share(peer).to_vec(),
                _ => self.own.clone(),
            };
            let _ = comm.tell(peer, Frame::Data { key, bytes });
        }
        Ok(())
    }

    /// All data is there: writes what comes of it.
    pub(crate) fn complete(
        &mut self,
        data: Vec<(usize, Vec<u8>)>,
        comm: &Comm,
        work: &mut dyn Work,
    ) -> Result<(), Broken> {
        self.done = true;
        let place = comm.place();
        let (_, n_written) = self.launched.operation.extent(place.rank, place.n_ranks);
        if n_written > 0 {
            let result = self.result(data, place);
            work.write(self.launched.operation.to, &result).map_err(Broken::Memory)?;
        }
        Ok(())
    }

    fn share(&self, rank: usize) -> &[u8] {
        let n_bytes = self.launched.operation.n_bytes();
        &self.own[rank * n_bytes..(rank + 1) * n_bytes]
    }

    fn result(&self, mut data: Vec<(usize, Vec<u8>)>, Place { rank, .. }: Place) -> Vec<u8> {
        let Operation { verb, dtype, .. } = self.launched.operation;
        let own = match verb {
            Verb::Receive { .. } => None,
            Verb::Broadcast { root } => (root == rank).then(|| self.own.clone()),
            Verb::ReduceScatter(_) => Some(self.share(rank).to_vec()),
            _ => Some(self.own.clone()),
        };
        data.extend(own.map(|own| (rank, own)));
        data.sort_by_key(|&(rank, _)| rank);
        let parts: Vec<Vec<u8>> = data.into_iter().map(|(_, bytes)| bytes).collect();
        match verb {
            Verb::AllReduce(op) | Verb::ReduceScatter(op) | Verb::Reduce { op, .. } => reduce(dtype, op, &parts),
            _ => parts.concat(),
        }
    }
}
