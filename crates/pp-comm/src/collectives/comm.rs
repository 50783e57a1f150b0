//! The collectives of one group.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

#[cfg(feature = "nccl")]
use super::calls::Task;
use super::error::GroupError;
use super::host::{HostJob, Part, Plan, share_of};
use super::job::Job;
use super::offer::{Memory, Offer};
use super::pending::{Pending, Queue};
use super::round::Round;
use super::shares;
use crate::collective::Collective;
use crate::endpoint::Endpoint;
use crate::error::CommError;
use crate::flight::State;
use crate::group::Group;
use crate::message::{Boundary, Buffer, BufferError, DType};

/// Tensors of at most this many bytes go whole rather than in shares: one round instead of two.
const SMALL: usize = 32 * 1024;

/// One rank's part in the collectives of a group.
///
/// ```
/// # use std::time::Duration;
/// # use pp_comm::{Buffer, MemorySpec, memory_fabric};
/// use pp_comm::collectives::GroupComm;
/// use pp_comm::mesh::{Axis, Mesh};
/// use pp_schedule::Rank;
///
/// // Two pipelines of one rank each: gradients are added over the data axis.
/// let mesh = Mesh::new(1, 2, 1)?;
/// let group = |rank| mesh.group(Axis::Data, rank).expect("every rank is in one");
/// let channels = group(Rank(0)).collective_channels();
/// # let spec = MemorySpec { n_ranks: 2, channels, capacity: 0, deadline: Duration::from_secs(5) };
/// # std::thread::scope(|scope| {
/// #     for builder in memory_fabric(spec).expect("both ranks exist") {
/// #         scope.spawn(move || {
/// #             let mut member = builder.build();
/// let rank = member.endpoint.rank();
/// let mut data = GroupComm::new(group(rank));
/// let gradient = Buffer::f32(&[2], vec![1.0, rank.0 as f32]).expect("two elements");
/// let sum = data.start_all_reduce(&mut member.endpoint, gradient).expect("started");
/// // .. whatever else there is to do meanwhile ..
/// let sum = sum.wait(&mut member.endpoint).expect("all ranks ask for it");
/// assert_eq!(sum.into_f32().expect("as given"), [2.0, 1.0]);
/// #             member.close();
/// #         });
/// #     }
/// # });
/// # Ok::<(), pp_comm::mesh::MeshError>(())
/// ```
#[derive(Debug)]
pub struct GroupComm {
    group: Group,
    next_round: u64,
    queue: Rc<RefCell<Queue>>,
}

impl GroupComm {
    /// The collectives of a group. The endpoint that its calls are given needs the group's
    /// [`collective_channels`](Group::collective_channels); there is to be one of these per group and rank.
    pub fn new(group: Group) -> Self {
        Self { group, next_round: 0, queue: Rc::default() }
    }

    /// The group.
    pub const fn group(&self) -> &Group {
        &self.group
    }

    /// How many collectives of the group were started here.
    pub const fn n_rounds(&self) -> u64 {
        self.next_round
    }

    /// Which elements of a tensor of `n_elements` are this rank's share.
    pub fn share(&self, n_elements: usize) -> Range<usize> {
        shares::range(n_elements, self.group.n_ranks(), self.group.place())
    }

    /// Starts a barrier: it ends once all ranks have started it.
    ///
    /// # Errors
    /// [`GroupError`], as all of these.
    pub fn start_barrier(&mut self, endpoint: &mut Endpoint) -> Result<Pending<()>, GroupError> {
        let nothing = Boundary::new(DType::I64, &[0])?;
        let (gives, gets) = (self.places(|_| None), self.places(|_| None));
        let part = Part { offer: offer(nothing), plan: Plan::Keep, gives, gets };
        self.start_on_host(endpoint, Collective::Barrier, part, |_| Ok(()))
    }

    /// Starts an all-gather: every rank gives a buffer of one type and shape, and gets all of them, in the order of the
    /// group.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn start_all_gather(
        &mut self,
        endpoint: &mut Endpoint,
        buffer: Buffer,
    ) -> Result<Pending<Vec<Buffer>>, GroupError> {
        #[cfg(feature = "nccl")]
        if buffer.is_on_device() {
            let asked = offer(buffer.boundary().clone());
            return self.start_on_device(endpoint, Collective::AllGather, asked, Task::AllGather { given: buffer }, Ok);
        }
        let boundary = buffer.boundary().clone();
        let (gives, gets) = (self.copies(buffer), self.places(|_| Some(boundary.clone())));
        let part = Part { offer: offer(boundary), plan: Plan::Keep, gives, gets };
        self.start_on_host(endpoint, Collective::AllGather, part, Ok)
    }

    /// Starts an all-gather of shares: every rank gives its [`share`](GroupComm::share) of a tensor, and gets the
    /// whole.
    ///
    /// # Errors
    /// [`GroupError::Given`] for another share than this rank's, and as all of these.
    pub fn start_all_gather_shares(
        &mut self,
        endpoint: &mut Endpoint,
        share: Buffer,
        whole: &Boundary,
    ) -> Result<Pending<Buffer>, GroupError> {
        let n_ranks = self.group.n_ranks();
        let boundaries = self.try_places(|place| shares::boundary(whole, n_ranks, place))?;
        if boundaries[self.group.place()].as_ref() != Some(share.boundary()) {
            let expected = shares::boundary(whole, n_ranks, self.group.place())?;
            return Err(GroupError::Given { expected, given: share.boundary().clone() });
        }
        #[cfg(feature = "nccl")]
        if share.is_on_device() {
            let task = Task::Join { given: share, whole: whole.clone() };
            return self.start_on_device(endpoint, Collective::AllGather, offer(whole.clone()), task, the_one);
        }
        let gives = self.copies(share);
        let part = Part { offer: offer(whole.clone()), plan: Plan::Join(whole.clone()), gives, gets: boundaries };
        self.start_on_host(endpoint, Collective::AllGather, part, the_one)
    }

    /// Starts a reduce-scatter: every rank gives a tensor of one type and shape, and gets its
    /// [`share`](GroupComm::share) of their sum, as a tensor of one dimension.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn start_reduce_scatter(
        &mut self,
        endpoint: &mut Endpoint,
        buffer: Buffer,
    ) -> Result<Pending<Buffer>, GroupError> {
        #[cfg(feature = "nccl")]
        if buffer.is_on_device() {
            let asked = offer(buffer.boundary().clone());
            let task = Task::ReduceScatter { given: buffer };
            return self.start_on_device(endpoint, Collective::ReduceScatter, asked, task, the_one);
        }
        let part = self.shares_to_all(&buffer, Plan::Sum)?;
        self.start_on_host(endpoint, Collective::ReduceScatter, part, the_one)
    }

    /// Starts an all-reduce: every rank gives a tensor of one type and shape, and gets their sum.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn start_all_reduce(&mut self, endpoint: &mut Endpoint, buffer: Buffer) -> Result<Pending<Buffer>, GroupError> {
        #[cfg(feature = "nccl")]
        if buffer.is_on_device() {
            let asked = offer(buffer.boundary().clone());
            return self.start_on_device(
                endpoint,
                Collective::AllReduce,
                asked,
                Task::AllReduce { given: buffer },
                the_one,
            );
        }
        let boundary = buffer.boundary().clone();
        // Over two ranks the shares are no less to send than the whole.
        let part = if boundary.n_bytes() <= SMALL || self.group.n_ranks() == 2 {
            let (gives, gets) = (self.copies(buffer), self.places(|_| Some(boundary.clone())));
            Part { offer: offer(boundary), plan: Plan::Sum, gives, gets }
        } else {
            self.shares_to_all(&buffer, Plan::SumShares(boundary))?
        };
        self.start_on_host(endpoint, Collective::AllReduce, part, the_one)
    }

    /// Starts a broadcast: the rank at place `root` gives a buffer, which all get. All say beforehand of what type and
    /// shape.
    ///
    /// # Errors
    /// [`GroupError::NoSuchRoot`], [`GroupError::Giver`], [`GroupError::Given`], and as all of these.
    pub fn start_broadcast(
        &mut self,
        endpoint: &mut Endpoint,
        root: usize,
        boundary: &Boundary,
        buffer: Option<Buffer>,
    ) -> Result<Pending<Buffer>, GroupError> {
        self.check_broadcast(root, boundary, buffer.as_ref())?;
        #[cfg(feature = "nccl")]
        if buffer.as_ref().is_some_and(Buffer::is_on_device) {
            return self.start_device_broadcast(endpoint, root, boundary, buffer);
        }
        let part = match buffer {
            Some(buffer) => self.given_out(root, buffer)?,
            None => self.taken_from(root, boundary)?,
        };
        self.start_on_host(endpoint, Collective::Broadcast, part, the_one)
    }

    /// Whether the arguments of a broadcast make sense.
    pub(super) fn check_broadcast(
        &self,
        root: usize,
        boundary: &Boundary,
        buffer: Option<&Buffer>,
    ) -> Result<(), GroupError> {
        let (group, n_ranks, place) = (self.group.id(), self.group.n_ranks(), self.group.place());
        let rank = self.group.ranks()[place];
        if root >= n_ranks {
            return Err(GroupError::NoSuchRoot { rank, root, group, n_ranks });
        }
        if buffer.is_some() != (root == place) {
            return Err(GroupError::Giver { rank, root, place, gives: buffer.is_some() });
        }
        match buffer {
            Some(buffer) if buffer.boundary() != boundary => {
                Err(GroupError::Given { expected: boundary.clone(), given: buffer.boundary().clone() })
            }
            _ => Ok(()),
        }
    }

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn barrier(&mut self, endpoint: &mut Endpoint) -> Result<(), GroupError> {
        self.start_barrier(endpoint)?.wait(endpoint)
    }

    /// [`GroupComm::start_all_gather`], waited for.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn all_gather(&mut self, endpoint: &mut Endpoint, buffer: Buffer) -> Result<Vec<Buffer>, GroupError> {
        self.start_all_gather(endpoint, buffer)?.wait(endpoint)
    }

    /// [`GroupComm::start_all_gather_shares`], waited for.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn all_gather_shares(
        &mut self,
        endpoint: &mut Endpoint,
        share: Buffer,
        whole: &Boundary,
    ) -> Result<Buffer, GroupError> {
        self.start_all_gather_shares(endpoint, share, whole)?.wait(endpoint)
    }

    /// [`GroupComm::start_reduce_scatter`], waited for.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn reduce_scatter(&mut self, endpoint: &mut Endpoint, buffer: Buffer) -> Result<Buffer, GroupError> {
        self.start_reduce_scatter(endpoint, buffer)?.wait(endpoint)
    }

    /// [`GroupComm::start_all_reduce`], waited for.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn all_reduce(&mut self, endpoint: &mut Endpoint, buffer: Buffer) -> Result<Buffer, GroupError> {
        self.start_all_reduce(endpoint, buffer)?.wait(endpoint)
    }

    /// [`GroupComm::start_broadcast`], waited for.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn broadcast(
        &mut self,
        endpoint: &mut Endpoint,
        root: usize,
        boundary: &Boundary,
        buffer: Option<Buffer>,
    ) -> Result<Buffer, GroupError> {
        self.start_broadcast(endpoint, root, boundary, buffer)?.wait(endpoint)
    }

    fn start_on_host<T>(
        &mut self,
        endpoint: &mut Endpoint,
        collective: Collective,
        part: Part,
        output: fn(Vec<Buffer>) -> Result<T, GroupError>,
    ) -> Result<Pending<T>, GroupError> {
        let begin = |round, endpoint: &mut Endpoint| HostJob::start(round, part, endpoint).map(Job::Host);
        self.start(endpoint, collective, begin, output)
    }

    pub(super) fn start<T>(
        &mut self,
        endpoint: &mut Endpoint,
        collective: Collective,
        begin: impl FnOnce(Round, &mut Endpoint) -> Result<Job, GroupError>,
        output: fn(Vec<Buffer>) -> Result<T, GroupError>,
    ) -> Result<Pending<T>, GroupError> {
        self.queue.borrow().check()?;
        let round = Round { group: self.group.clone(), collective, number: self.next_round };
        self.next_round += 1;
        round.note(endpoint, State::Posted);
        let job = begin(round, endpoint);
        let job = self.queue.borrow_mut().keep(job)?;
        Pending::new(job, &self.queue, output, endpoint)
    }

    /// A list by place.
    fn places<T>(&self, of: impl FnMut(usize) -> Option<T>) -> Vec<Option<T>> {
        (0..self.group.n_ranks()).map(of).collect()
    }

    /// One and the same buffer for every place.
    fn copies(&self, buffer: Buffer) -> Vec<Option<Buffer>> {
        let place = self.group.place();
        let mut copies = self.places(|to| (to != place).then(|| buffer.clone()));
        copies[place] = Some(buffer);
        copies
    }

    fn try_places<T>(&self, of: impl FnMut(usize) -> Result<T, BufferError>) -> Result<Vec<Option<T>>, BufferError> {
        (0..self.group.n_ranks()).map(of).map(|found| found.map(Some)).collect()
    }

    /// To each place its share of what this rank has, and from each what it has of this rank's share.
    fn shares_to_all(&self, buffer: &Buffer, plan: Plan) -> Result<Part, GroupError> {
        let (whole, n_ranks) = (buffer.boundary().clone(), self.group.n_ranks());
        let gives = shares::divide(buffer, n_ranks)?.into_iter().map(Some).collect();
        let ours = shares::boundary(&whole, n_ranks, self.group.place())?;
        let gets = self.places(|_| Some(ours.clone()));
        Ok(Part { offer: offer(whole), plan, gives, gets })
    }

    /// The root's part in a broadcast.
    fn given_out(&self, root: usize, buffer: Buffer) -> Result<Part, GroupError> {
        let (boundary, n_ranks) = (buffer.boundary().clone(), self.group.n_ranks());
        let gives = if goes_whole(&boundary, n_ranks) {
            self.copies(buffer)
        } else {
            let mut shares = shares::divide(&buffer, n_ranks - 1)?.into_iter();
            let mut gives = self.places(|place| if place == root { None } else { shares.next() });
            gives[root] = Some(buffer);
            gives
        };
        let offer = Offer { root: Some(root), ..offer(boundary) };
        Ok(Part { offer, plan: Plan::Keep, gives, gets: self.places(|_| None) })
    }

    /// The part of another rank.
    fn taken_from(&self, root: usize, boundary: &Boundary) -> Result<Part, GroupError> {
        let n_ranks = self.group.n_ranks();
        let (plan, comes) = if goes_whole(boundary, n_ranks) {
            (Plan::Keep, boundary.clone())
        } else {
            let (n_shares, share) = share_of(self.group.place(), Some(root), n_ranks);
            let comes = shares::boundary(boundary, n_shares, share)?;
            (Plan::PassShares { whole: boundary.clone(), root }, comes)
        };
        let gets = self.places(|place| (place == root).then(|| comes.clone()));
        let offer = Offer { root: Some(root), ..offer(boundary.clone()) };
        Ok(Part { offer, plan, gives: self.places(|_| None), gets })
    }
}

/// Whether a broadcast goes whole: small, or to one rank only.
fn goes_whole(boundary: &Boundary, n_ranks: usize) -> bool {
    boundary.n_bytes() <= SMALL || n_ranks <= 2
}

pub(super) const fn offer(boundary: Boundary) -> Offer {
    Offer { boundary, root: None, memory: Memory::Host }
}

/// What a collective makes that makes one thing.
pub(super) fn the_one(mut made: Vec<Buffer>) -> Result<Buffer, GroupError> {
    let nothing = || CommError::System { what: "finish a collective".to_owned(), reason: "it made nothing".to_owned() };
    Ok(made.pop().ok_or_else(nothing)?)
}
