//! What a group's ranks launch together on its communicator.

use std::sync::Arc;
use std::time::Duration;

use nccl_rs::{Comm, DeviceBytes, Event, Group, NcclError, Shared};

use super::{NcclTransport, Waits};
use crate::error::CommError;

/// Operations of a group that were launched. Dropped without being finished, they go on, and their memory stays with the
/// communicator until they are complete.
#[derive(Debug)]
#[must_use = "what was launched is complete only once it was finished"]
pub(crate) struct GroupLaunch(u64);

impl NcclTransport {
    /// Whether a group has a communicator here.
    pub(in crate::endpoint) fn has_group(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }

    /// The point that the compute stream has come to: what is given to a group's operations has been made by then.
    pub(in crate::endpoint) fn mark_for_group(&self, group: u32) -> Option<Result<Event, CommError>> {
        let &index = self.groups.get(&group)?;
        Some(self.check().and_then(|()| self.compute.record().map_err(|error| self.failed_on(index, error))))
    }

    /// A copy of something small, made on the compute stream.
    pub(in crate::endpoint) fn copy_for_group(&self, group: u32, bytes: &[u8]) -> Option<Result<Shared, CommError>> {
        let &index = self.groups.get(&group)?;
        let copied = self
            .check()
            .and_then(|()| DeviceBytes::from_host(&self.compute, bytes).map_err(|error| self.failed_on(index, error)));
        Some(copied.map(|copy| Arc::new(copy) as Shared))
    }

    /// Launches what `build` puts into a group of operations, after a point of the compute stream's work.
    pub(in crate::endpoint) fn launch_on_group(
        &mut self,
        group: u32,
        after: &Event,
        build: impl for<'a> FnOnce(&mut Group<'a>, &'a Comm) -> Result<(), NcclError>,
    ) -> Option<Result<GroupLaunch, CommError>> {
        let &index = self.groups.get(&group)?;
        Some(self.end_together().and_then(|()| self.check()).and_then(|()| {
            let lane = &self.lanes[index];
            let launch = || {
                let mut group = Group::new();
                build(&mut group, &lane.comm)?;
                lane.stream.wait(after)?;
                group.launch(&lane.stream, self.limit)
            };
            let in_flight = launch().map_err(|error| self.failed_on(index, error))?;
            Ok(GroupLaunch(self.launches.keep(index, in_flight, 1)))
        }))
    }

    /// Waits for it, here or on the compute stream; `late` is what it is when that takes too long.
    pub(in crate::endpoint) fn finish_launch(
        &mut self,
        GroupLaunch(launch): GroupLaunch,
        limit: Duration,
        late: CommError,
    ) -> Result<(), CommError> {
        let lane = self.launches.lane(launch).unwrap_or_default();
        let done = match self.waits {
            Waits::OnStream => self.put_wait(launch, limit, late),
            Waits::OnHost => match self.launches.wait(launch, limit) {
                Ok(true) => Ok(()),
                Ok(false) => Err(self.fail(late)),
                Err(error) => Err(self.failed_on(lane, error)),
            },
        };
        self.launches.close(launch);
        done
    }
}
