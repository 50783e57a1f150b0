//! What a group's ranks launch together on its communicator.

use std::time::Duration;

use nccl_rs::{Comm, Group, NcclError};

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

    /// Launches what `build` puts into a group of operations, after what is on the compute stream now.
    pub(in crate::endpoint) fn launch_on_group(
        &mut self,
        group: u32,
        build: impl for<'a> FnOnce(&mut Group<'a>, &'a Comm) -> Result<(), NcclError>,
    ) -> Option<Result<GroupLaunch, CommError>> {
        let &index = self.groups.get(&group)?;
        Some(self.end_together().and_then(|()| self.check()).and_then(|()| {
            let lane = &self.lanes[index];
            let launch = || {
                let mut group = Group::new();
                build(&mut group, &lane.comm)?;
                lane.stream.wait(&self.compute.record()?)?;
                group.launch(&lane.stream, self.limit)
            };
            let in_flight = launch().map_err(|error| self.failed_on(index, error))?;
            Ok(GroupLaunch(self.launches.keep(index, in_flight, 1)))
        }))
    }

    /// Whether to finish it would end at once.
    pub(in crate::endpoint) fn has_launch_ended(&self, launch: &GroupLaunch) -> bool {
        self.waits == Waits::OnStream
            || self.watch.cause().is_some()
            || self.launches.is_complete(launch.0).unwrap_or(true)
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
