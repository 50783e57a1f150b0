//! Starting transfers.

use std::sync::Arc;

use nccl_rs::{DeviceBytes, DeviceMemory, NcclError};
use pp_schedule::{Channel, Role};

use super::lane::Op;
use super::queue::{Note, Posted, Transfer};
use super::{HandOver, NcclTransport, Route, notes};
use crate::error::CommError;
use crate::message::{Boundary, Buffer, BufferError, Label};

/// A transfer that was posted and not launched.
#[derive(Debug)]
pub(super) struct Started {
    link: usize,
    route: Route,
    number: u64,
    /// Nothing where there are no bytes to transfer.
    op: Option<Op>,
}

impl NcclTransport {
    /// Starts a send; gives its number on the link.
    pub(in crate::endpoint) fn post_send(
        &mut self,
        (link, channel): (usize, Channel),
        label: Label,
        buffer: Buffer,
    ) -> Result<u64, CommError> {
        let Some(route) = self.route(link, label) else {
            if buffer.is_on_device() {
                let (transport, boundary) = (self.host.name(link), buffer.boundary().clone());
                return Err(CommError::DeviceBuffer { channel, transport, boundary });
            }
            let number = self.host.post_send(link, label, buffer)?;
            return Ok(self.queues[link].push(Posted::Host(number)));
        };
        let started = self.start_send((link, route), label, buffer);
        self.or_late(link, started)
    }

    fn start_send(&mut self, way: (usize, Route), label: Label, buffer: Buffer) -> Result<u64, CommError> {
        self.check()?;
        let boundary = buffer.boundary().clone();
        let memory = match buffer.as_device() {
            Ok(memory) => Arc::clone(memory),
            Err(_) => self.upload(way.1, &buffer)?,
        };
        let transfer = Transfer { role: Role::Send, label, boundary, launch: None, memory: None, given: Some(buffer) };
        self.start(way, transfer, memory)
    }

    /// Starts a receive, into the memory of a buffer if one is given; gives its number on the link.
    pub(in crate::endpoint) fn post_recv(
        &mut self,
        link: usize,
        label: Label,
        boundary: Boundary,
        given: Option<Buffer>,
    ) -> Result<u64, CommError> {
        let Some(route) = self.route(link, label) else {
            let number = self.host.post_recv(link, label, boundary, given)?;
            return Ok(self.queues[link].push(Posted::Host(number)));
        };
        let started = self.start_recv((link, route), label, boundary, given);
        self.or_late(link, started)
    }

    fn start_recv(
        &mut self,
        (link, route): (usize, Route),
        label: Label,
        boundary: Boundary,
        given: Option<Buffer>,
    ) -> Result<u64, CommError> {
        self.check()?;
        let (memory, given) = match given.map(|buffer| (buffer.as_device().map(Arc::clone), buffer)) {
            Some((Ok(memory), _)) if self.hand_over == HandOver::Device => (memory, None),
            // What is not where it is needed is no help.
            Some((Err(_), buffer)) if self.hand_over == HandOver::Host => {
                (self.allocate(route, &boundary)?, Some(buffer))
            }
            _ => (self.allocate(route, &boundary)?, None),
        };
        let received = Some(Arc::clone(&memory));
        let transfer = Transfer { role: Role::Receive, label, boundary, launch: None, memory: received, given };
        self.start((link, route), transfer, memory)
    }

    /// The loss of a rank shows to whoever waits, not to whoever posts: when it is noticed is chance.
    fn or_late(&mut self, link: usize, started: Result<u64, CommError>) -> Result<u64, CommError> {
        match started {
            Err(CommError::PeerLost { .. }) => Ok(self.queues[link].push(Posted::Late)),
            started => started,
        }
    }

    /// What is posted from here on is launched together, where there is one communicator.
    pub(in crate::endpoint) fn begin_together(&mut self) {
        if self.communicators_are_one() && self.together.is_none() {
            self.together = Some(Vec::new());
        }
    }

    /// Launches what was posted together. What goes wrong ends the endpoint.
    pub(in crate::endpoint) fn end_together(&mut self) -> Result<(), CommError> {
        match self.together.take() {
            Some(started) => self.launch(started),
            None => Ok(()),
        }
    }

    fn communicators_are_one(&self) -> bool {
        matches!(self.lanes.first().map(|lane| &lane.of), Some(crate::error::Communicator::All { .. }))
    }

    /// Whether it has not ended.
    pub(super) fn check(&self) -> Result<(), CommError> {
        self.watch.cause().map_or(Ok(()), Err)
    }

    /// The number of the next message from or to a peer on its communicator.
    fn turn(&mut self, role: Role, Route { lane, peer }: Route) -> i64 {
        let turn = self.turns.entry((role, lane, peer)).or_default();
        *turn += 1;
        *turn - 1
    }

    /// Takes in one side of a message's way, to be launched at once or with what is posted together with it; gives its number on
    /// the link.
    fn start(
        &mut self,
        (link, route): (usize, Route),
        mut transfer: Transfer,
        memory: Arc<dyn DeviceMemory>,
    ) -> Result<u64, CommError> {
        let &mut Transfer { role, label, ref boundary, .. } = &mut transfer;
        let boundary = boundary.clone();
        let has_bytes = boundary.n_bytes() > 0;
        transfer.launch = has_bytes.then(|| self.launches.next());
        let op = has_bytes.then(|| Op { role, memory, dtype: boundary.dtype(), peer: route.peer });
        let queue = &mut self.queues[link];
        let number = queue.next();
        queue.notes.push_back(Note { number, on_link: None, role, label, boundary, place: 0 });
        queue.push(Posted::Device(transfer));
        let started = Started { link, route, number, op };
        match &mut self.together {
            Some(all) => all.push(started),
            None => self.launch(vec![started])?,
        }
        Ok(number)
    }

    /// Posts the notes of what goes together and launches it. On one communicator that is in the order of the channels, the same
    /// at either end, whatever order it was posted in.
    fn launch(&mut self, mut started: Vec<Started>) -> Result<(), CommError> {
        let Some(lane) = started.first().map(|first| first.route.lane) else { return Ok(()) };
        started.sort_by_key(|started| started.link);
        for started in &started {
            self.post_note(started).map_err(|error| self.fail(error))?;
        }
        let ops: Vec<Op> = started.into_iter().filter_map(|started| started.op).collect();
        if ops.is_empty() {
            return Ok(());
        }
        let n_open = ops.len();
        let launched = self.lanes[lane].launch(ops, &self.compute, self.limit);
        let launched = launched.map_err(|error| self.failed_on(lane, error))?;
        self.launches.keep(lane, launched, n_open);
        Ok(())
    }

    fn post_note(&mut self, &Started { link, route, number, .. }: &Started) -> Result<(), CommError> {
        let Some(Note { role, label, boundary, .. }) = self.queues[link].note(number) else { return Ok(()) };
        let (role, label) = (*role, *label);
        let boundary = boundary.clone();
        let place = self.turn(role, route);
        let on_link = match role {
            Role::Send => self.host.post_send(link, label, notes::write(place, &boundary)?)?,
            Role::Receive => self.host.post_recv(link, label, notes::boundary()?, None)?,
        };
        if let Some(note) = self.queues[link].note_mut(number) {
            (note.on_link, note.place) = (Some(on_link), place);
        }
        Ok(())
    }

    /// A copy on the device of what is on the host.
    fn upload(&self, route: Route, buffer: &Buffer) -> Result<Arc<dyn DeviceMemory>, CommError> {
        let bytes = buffer.as_bytes()?;
        let copied = DeviceBytes::from_host(&self.lanes[route.lane].stream, bytes);
        Ok(Arc::new(copied.map_err(|error| self.failed_on(route.lane, error))?))
    }

    /// Memory for a message to come.
    fn allocate(&mut self, route: Route, boundary: &Boundary) -> Result<Arc<dyn DeviceMemory>, CommError> {
        match self.hand_over {
            HandOver::Device => self.allocate_for_stage(boundary),
            HandOver::Host => {
                let memory = DeviceBytes::new(&self.lanes[route.lane].stream, boundary.n_bytes());
                Ok(Arc::new(memory.map_err(|error| self.failed_on(route.lane, error))?))
            }
        }
    }

    /// Memory that the stage will have.
    pub(in crate::endpoint) fn allocate_for_stage(
        &mut self,
        boundary: &Boundary,
    ) -> Result<Arc<dyn DeviceMemory>, CommError> {
        let refused = |reason: Box<dyn std::error::Error + Send + Sync>| BufferError::DeviceAllocation {
            boundary: boundary.clone(),
            reason: reason.to_string(),
        };
        let memory = self.allocator.0.allocate(boundary).map_err(refused)?;
        match memory.n_bytes() {
            given if given != boundary.n_bytes() => {
                Err(BufferError::DeviceBytes { boundary: boundary.clone(), given }.into())
            }
            _ => Ok(memory),
        }
    }

    /// Ends the endpoint because of what NCCL or the driver says.
    pub(super) fn failed_on(&self, lane: usize, error: NcclError) -> CommError {
        self.fail(self.lanes[lane].failed(error))
    }
}
