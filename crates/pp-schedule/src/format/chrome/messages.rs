//! Who made a message, and who consumed it.

use crate::deps::{Message, input_of, output_of};
use crate::ids::Direction;
use crate::simulate::Timeline;

/// When the makers and consumers of all messages of a step start, in ticks.
pub(super) struct Ends {
    microbatches: usize,
    /// By direction, consuming stage and microbatch: when the maker starts, and when the consumer does.
    starts: [Vec<[Option<u64>; 2]>; 2],
}

impl Ends {
    /// Of a timeline; empty if it has no messages.
    pub(super) fn of(timeline: &Timeline) -> Self {
        let extent = timeline.extent();
        let microbatches = extent.microbatches as usize;
        let n = if timeline.flights().is_empty() { 0 } else { extent.placement.n_stages() as usize * microbatches };
        let mut ends = Self { microbatches, starts: [vec![[None; 2]; n], vec![[None; 2]; n]] };
        if n == 0 {
            return ends;
        }
        for span in timeline.rows().iter().flatten() {
            let made = output_of(span.work, extent.placement);
            let consumed = input_of(span.work, extent.placement);
            for (side, message) in [made, consumed].into_iter().enumerate() {
                if let Some(entry) = message.and_then(|message| ends.entry(message)) {
                    entry[side] = Some(span.start);
                }
            }
        }
        ends
    }

    /// When a message's maker and its consumer start.
    pub(super) fn get(&self, message: Message) -> Option<(u64, u64)> {
        match self.starts[message.direction as usize].get(self.idx(message)) {
            Some(&[Some(made), Some(consumed)]) => Some((made, consumed)),
            _ => None,
        }
    }

    fn idx(&self, message: Message) -> usize {
        message.stage.idx() * self.microbatches + message.microbatch.idx()
    }

    fn entry(&mut self, message: Message) -> Option<&mut [Option<u64>; 2]> {
        let idx = self.idx(message);
        self.starts[message.direction as usize].get_mut(idx)
    }
}

/// What a message is called: the token of what made it, and what it carries.
pub(super) fn name(message: Message) -> String {
    let letter = match message.direction {
        Direction::Forward => 'F',
        Direction::Backward => 'B',
    };
    format!("{}SEND_{letter}{}", message.made_by(), message.microbatch)
}
