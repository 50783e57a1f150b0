//! Which lane of its rank something is shown in. Viewers nest what overlaps in one lane, so nothing may.

use std::collections::BTreeMap;

use crate::ids::Rank;

/// Lanes of all ranks but the first of each, in which it computes.
#[derive(Debug, Default)]
pub(super) struct Lanes<'a> {
    /// By rank and name: the lanes of that name.
    lanes: BTreeMap<(Rank, &'a str), Vec<Lane>>,
    /// By rank: how many lanes it has by now.
    n_lanes: BTreeMap<Rank, u32>,
}

#[derive(Debug)]
struct Lane {
    tid: u32,
    /// When the last thing in it ends.
    free: u64,
}

impl<'a> Lanes<'a> {
    /// The number of a lane of that name that is free at `start`. Has to be asked in the order of starts.
    pub(super) fn take(&mut self, rank: Rank, name: &'a str, start: u64, end: u64) -> u32 {
        let lanes = self.lanes.entry((rank, name)).or_default();
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.free <= start) {
            lane.free = end;
            return lane.tid;
        }
        let n_lanes = self.n_lanes.entry(rank).or_insert(0);
        *n_lanes += 1;
        lanes.push(Lane { tid: *n_lanes, free: end });
        *n_lanes
    }

    /// All lanes: rank, number, name.
    pub(super) fn names(&self) -> impl Iterator<Item = (Rank, u32, String)> {
        self.lanes.iter().flat_map(|(&(rank, name), lanes)| {
            lanes.iter().enumerate().map(move |(number, lane)| {
                let name = if number == 0 { name.to_owned() } else { format!("{name} ({})", number + 1) };
                (rank, lane.tid, name)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_gets_lanes_of_its_own() {
        let mut lanes = Lanes::default();
        let rank = Rank(3);
        assert_eq!(lanes.take(rank, "send", 0, 10), 1);
        assert_eq!(lanes.take(rank, "send", 5, 7), 2);
        assert_eq!(lanes.take(rank, "wait", 5, 7), 3);
        assert_eq!(lanes.take(rank, "send", 7, 9), 2);
        assert_eq!(lanes.take(Rank(0), "send", 7, 9), 1);
        let names: Vec<_> = lanes.names().collect();
        assert!(names.contains(&(rank, 2, "send (2)".to_owned())) && names.len() == 4, "{names:?}");
    }
}
