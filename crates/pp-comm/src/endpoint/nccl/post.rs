//! Starting transfers.

use std::sync::Arc;

use nccl_rs::{DeviceBytes, DeviceMemory, NcclError};
use pp_schedule::{Channel, Role};

use super::lane::Op;
use super::queue::{Note, Posted, Transfer};
use super::{HandOver, NcclTransport, Route, notes};
use crate::error::CommError;
use crate::message::{Boundary, Buffer, BufferError, Label};

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
        self.check()?;
        let boundary = buffer.boundary().clone();
        let place = self.turn(Role::Send, route);
        let note = notes::write(place, &boundary).map_err(CommError::from);
        let on_link = note.and_then(|note| self.host.post_send(link, label, note)).map_err(|error| self.fail(error))?;
        let memory = match buffer.as_device() {
            Ok(memory) => Arc::clone(memory),
            Err(_) => self.upload(route, &buffer)?,
        };
        let launch = self.start(route, Role::Send, memory, &boundary)?;
        let transfer =
            Transfer { role: Role::Send, label, boundary: boundary.clone(), launch, memory: None, given: Some(buffer) };
        Ok(self.push(link, on_link, place, transfer))
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
        self.check()?;
        let place = self.turn(Role::Receive, route);
        let (memory, given) = match given.map(|buffer| (buffer.as_device().map(Arc::clone), buffer)) {
            Some((Ok(memory), _)) if self.hand_over == HandOver::Device => (memory, None),
            // What is not where it is needed is no help.
            Some((Err(_), buffer)) if self.hand_over == HandOver::Host => {
                (self.allocate(route, &boundary)?, Some(buffer))
            }
            _ => (self.allocate(route, &boundary)?, None),
        };
        let on_link = notes::boundary().map_err(CommError::from);
        let on_link = on_link.and_then(|note| self.host.post_recv(link, label, note, None));
        let on_link = on_link.map_err(|error| self.fail(error))?;
        let launch = self.start(route, Role::Receive, Arc::clone(&memory), &boundary)?;
        let transfer = Transfer { role: Role::Receive, label, boundary, launch, memory: Some(memory), given };
        Ok(self.push(link, on_link, place, transfer))
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
            Some(ops) if !ops.is_empty() => self.launch(0, ops).map(drop),
            _ => Ok(()),
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

    fn push(&mut self, link: usize, on_link: u64, place: i64, transfer: Transfer) -> u64 {
        let queue = &mut self.queues[link];
        let &Transfer { role, label, ref boundary, .. } = &transfer;
        let note = Note { number: queue.next(), on_link, role, label, boundary: boundary.clone(), place };
        queue.notes.push_back(note);
        queue.push(Posted::Device(transfer))
    }

    /// Launches one side of a message's way, at once or with what is posted together with it; gives the launch's number.
    fn start(
        &mut self,
        Route { lane, peer }: Route,
        role: Role,
        memory: Arc<dyn DeviceMemory>,
        boundary: &Boundary,
    ) -> Result<Option<u64>, CommError> {
        if boundary.n_bytes() == 0 {
            return Ok(None);
        }
        let op = Op { role, memory, dtype: boundary.dtype(), peer };
        match &mut self.together {
            Some(ops) => {
                ops.push(op);
                Ok(Some(self.launches.next()))
            }
            None => self.launch(lane, vec![op]).map(Some),
        }
    }

    fn launch(&mut self, lane: usize, ops: Vec<Op>) -> Result<u64, CommError> {
        let n_open = ops.len();
        let launched = self.lanes[lane].launch(ops, &self.compute, self.limit);
        let launched = launched.map_err(|error| self.failed_on(lane, error))?;
        Ok(self.launches.keep(lane, launched, n_open))
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
