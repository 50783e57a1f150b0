//! Collectives that were started and are to be waited for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::error::GroupError;
use super::job::Job;
use crate::endpoint::Endpoint;
use crate::flight::State;
use crate::message::Buffer;

/// The collectives of a group whose results other ranks may still wait for, in the order in which they were started.
#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: VecDeque<Rc<RefCell<Job>>>,
    /// The first failure. After one the channels are out of step.
    fault: Option<GroupError>,
}

impl Queue {
    pub(super) fn check(&self) -> Result<(), GroupError> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Keeps a fault for all who come later.
    pub(super) fn keep<T>(&mut self, done: Result<T, GroupError>) -> Result<T, GroupError> {
        done.inspect_err(|fault| self.fault = Some(self.fault.take().unwrap_or_else(|| fault.clone())))
    }

    /// Drives all jobs up to this one. On every rank results then go out in the order in which collectives were
    /// started, whatever is waited for first.
    fn drive_to(&mut self, job: &Rc<RefCell<Job>>, endpoint: &mut Endpoint) -> Result<(), GroupError> {
        let n_jobs = self.jobs.iter().position(|queued| Rc::ptr_eq(queued, job)).map_or(0, |index| index + 1);
        for queued in self.jobs.drain(..n_jobs) {
            queued.borrow_mut().drive(endpoint)?;
        }
        Ok(())
    }

    /// Has those go on that can without a wait, in the same order.
    fn advance(&mut self, endpoint: &mut Endpoint) -> Result<(), GroupError> {
        for queued in &self.jobs {
            if !queued.borrow_mut().advance(endpoint)? {
                break;
            }
        }
        Ok(())
    }
}

/// A collective under way: its buffers belong to the group until it was waited for.
///
/// It goes on only while its rank waits for something of the group. A collective of one round has sent all there is to
/// send once it was started, and completes elsewhere without that; one of two rounds, which is an all-reduce or a broadcast of
/// more than 32 KiB over more than two ranks, needs its rank to wait. So a rank that puts off its wait until it has received
/// something from a rank that waits for the collective first gets through with small tensors, or in a group of two, and
/// with larger ones finds its deadline. Never rely on the former: wait for collectives and messages in one order on all ranks.
///
/// Dropped without being waited for, it is driven on by the next wait for a later collective of the group; until then
/// other ranks may wait for this rank's share, and in the end get a deadline or a lost peer. Later collectives are not
/// disturbed.
#[derive(Debug)]
#[must_use = "a collective is complete only once it was waited for"]
pub struct Pending<T> {
    job: Rc<RefCell<Job>>,
    queue: Rc<RefCell<Queue>>,
    output: fn(Vec<Buffer>) -> Result<T, GroupError>,
}

impl<T> Pending<T> {
    /// Takes its place behind those that were started before.
    pub(super) fn new(
        job: Job,
        queue: &Rc<RefCell<Queue>>,
        output: fn(Vec<Buffer>) -> Result<T, GroupError>,
        endpoint: &mut Endpoint,
    ) -> Result<Self, GroupError> {
        let job = Rc::new(RefCell::new(job));
        let mut jobs = queue.borrow_mut();
        jobs.jobs.push_back(Rc::clone(&job));
        let advanced = jobs.advance(endpoint);
        jobs.keep(advanced)?;
        Ok(Self { job, queue: Rc::clone(queue), output })
    }

    /// Waits for it.
    ///
    /// # Errors
    /// [`GroupError`]; the first one of a group is also that of everything after it.
    pub fn wait(self, endpoint: &mut Endpoint) -> Result<T, GroupError> {
        let mut queue = self.queue.borrow_mut();
        queue.check()?;
        self.job.borrow().round().note(endpoint, State::Begun);
        let driven = queue.drive_to(&self.job, endpoint);
        let mut job = self.job.borrow_mut();
        let done = driven.and_then(|()| job.finish(endpoint)).and_then(self.output);
        job.round().note(endpoint, if done.is_ok() { State::Done } else { State::Failed });
        queue.keep(done)
    }
}
