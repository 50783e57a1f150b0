//! Megatron's receive decisions: after which step a rank expects a tensor, and for which chunk.

use crate::ids::{Chunk, Direction, Microbatch, Rank};
use crate::table::ScheduleTable;

/// What a rank of an interleaved pipeline receives after the compute of step `vid` of a direction; `None` when nothing.
///
/// A rank that does not lead the direction (rank 0 leads forward, the last rank backward) receives for its next step.
/// The leading rank receives what the far end of the ring made `pp - 1` steps earlier, and only if that chunk was not
/// the last of the direction; the tensor then belongs to the next chunk.
pub fn receive_after(
    table: &ScheduleTable,
    direction: Direction,
    pp: u32,
    rank: Rank,
    vid: usize,
) -> Option<(Microbatch, Chunk)> {
    let leading = match direction {
        Direction::Forward => rank.0 == 0,
        Direction::Backward => rank.0 + 1 == pp,
    };
    if !leading {
        return table.get(direction, vid + 1);
    }
    let (microbatch, made_by) = table.get(direction, vid.checked_sub(pp as usize - 1)?)?;
    let (_, last) = table.get(direction, table.len().checked_sub(1)?)?;
    let next = match direction {
        Direction::Forward => made_by.0 + 1,
        Direction::Backward => made_by.0.wrapping_sub(1),
    };
    (made_by != last).then_some((microbatch, Chunk(next)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::Groups;

    #[test]
    fn the_leading_rank_receives_only_what_is_not_the_last_chunk() {
        let table = ScheduleTable::new(4, 2, Groups::Uniform { size: 2 });
        let after = |direction, rank| -> Vec<usize> {
            (0..8).filter(|&vid| receive_after(&table, direction, 2, Rank(rank), vid).is_some()).collect()
        };
        assert_eq!(after(Direction::Forward, 0), [1, 2, 5, 6]);
        assert_eq!(after(Direction::Backward, 1), [1, 2, 5, 6]);
        assert_eq!(after(Direction::Forward, 1), [0, 1, 2, 3, 4, 5, 6]);
        let received = receive_after(&table, Direction::Forward, 2, Rank(0), 6);
        assert_eq!(received, Some((Microbatch(3), Chunk(1))));
        let received = receive_after(&table, Direction::Backward, 2, Rank(1), 1);
        assert_eq!(received, Some((Microbatch(0), Chunk(0))));
    }
}
