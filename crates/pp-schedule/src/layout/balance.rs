//! Contiguous layers on stages so that the dearest stage is as cheap as can be.

use std::ops::Range;

use super::error::LayoutError;
use super::limits::MAX_BALANCED_LAYERS;

/// How many layers each stage gets, in stage order, so that the largest cost of a stage is the smallest possible.
///
/// The first stage pays `embedding` on top of its layers, the last one `loss`. No stage is empty. Among the partitions
/// with that largest cost, the one with the smallest sum of squared stage costs is taken (the most even one), and among
/// those the one that gives the fewest layers to the first stage, then to the second, and so on: early stages keep the
/// most activations. The result is exact and depends on nothing but the arguments.
///
/// ```
/// use pp_schedule::layout::balance;
/// assert_eq!(balance(&[1; 7], 4, 0, 0).unwrap(), [1, 2, 2, 2]);
/// assert_eq!(balance(&[5, 1, 1, 1, 1, 1], 3, 0, 0).unwrap(), [1, 2, 3]);
/// assert!(balance(&[1; 3], 4, 0, 0).is_err());
/// ```
///
/// # Errors
/// [`LayoutError`] when there are no stages, fewer layers than stages, more than [`MAX_BALANCED_LAYERS`] of them, or
/// when all costs together do not fit into 64 bits.
pub fn balance(costs: &[u64], n_stages: u32, embedding: u64, loss: u64) -> Result<Vec<u32>, LayoutError> {
    let (n_layers, stages) = (costs.len(), n_stages as usize);
    if stages == 0 {
        return Err(LayoutError::Zero { flag: "--pp" });
    }
    if n_layers < stages {
        return Err(LayoutError::FewerLayersThanStages { n_layers, n_stages });
    }
    if n_layers > MAX_BALANCED_LAYERS {
        return Err(LayoutError::TooManyLayersToBalance { n_layers });
    }
    let before = running_sums(costs, embedding, loss).ok_or(LayoutError::CostsTooLarge)?;
    let problem = Problem { before, stages };
    Ok(problem.most_even(problem.smallest_largest()))
}

/// The costs of the layers before each one, and of all. No stage is empty, so the first layer pays for the embedding and
/// the last one for the loss. `None` if the sum is more than a `u64` holds; so no sum of squares overflows a `u128`.
fn running_sums(costs: &[u64], embedding: u64, loss: u64) -> Option<Vec<u64>> {
    let mut sums = Vec::with_capacity(costs.len() + 1);
    let mut sum = 0_u64;
    for (layer, cost) in costs.iter().enumerate() {
        sums.push(sum);
        let first = if layer == 0 { embedding } else { 0 };
        let last = if layer + 1 == costs.len() { loss } else { 0 };
        sum = sum.checked_add(*cost)?.checked_add(first)?.checked_add(last)?;
    }
    sums.push(sum);
    Some(sums)
}

struct Problem {
    before: Vec<u64>,
    stages: usize,
}

impl Problem {
    fn n_layers(&self) -> usize {
        self.before.len() - 1
    }

    fn cost(&self, start: usize, end: usize) -> u64 {
        self.before[end] - self.before[start]
    }

    /// Whether no stage needs to cost more than `most`: each stage takes all it can and leaves a layer for each later.
    fn fits(&self, most: u64) -> bool {
        let mut start = 0;
        for left_for_others in (0..self.stages).rev() {
            let mut end = start + 1;
            if self.cost(start, end) > most {
                return false;
            }
            while end < self.n_layers() - left_for_others && self.cost(start, end + 1) <= most {
                end += 1;
            }
            start = end;
        }
        start == self.n_layers()
    }

    /// The smallest `most` that fits, by bisection.
    fn smallest_largest(&self) -> u64 {
        let (mut low, mut high) = (0, self.before[self.n_layers()]);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.fits(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The partition with the smallest sum of squares among those whose stages cost at most `most`, by dynamic
    /// programming from the last stage; of equal ones the one with the earliest ends.
    fn most_even(&self, most: u64) -> Vec<u32> {
        let n_layers = self.n_layers();
        // The smallest sum for the later stages over the layers from each one on.
        let mut later: Vec<Option<u128>> = vec![None; n_layers + 1];
        later[n_layers] = Some(0);
        let mut all_ends = Vec::with_capacity(self.stages);
        for stage in (0..self.stages).rev() {
            let last_end = n_layers - (self.stages - stage - 1);
            let mut table = StageTable { sums: vec![None; n_layers + 1], ends: vec![0; n_layers + 1], later, most };
            self.fill(&mut table, stage..last_end, stage + 1..last_end + 1);
            later = table.sums;
            all_ends.push(table.ends);
        }
        let mut start = 0;
        let count = |ends: &Vec<u32>| {
            let end = ends[start as usize];
            let count = end - start;
            start = end;
            count
        };
        all_ends.iter().rev().map(count).collect()
    }

    /// Finds the best end for each of the starts among `ends`. Squares of sums of costs that are not negative are
    /// convex, so a later start never has an earlier best end: the middle start's end halves the work for the others.
    /// Starts that cannot reach the end come before those that can.
    fn fill(&self, table: &mut StageTable, starts: Range<usize>, ends: Range<usize>) {
        if starts.is_empty() {
            return;
        }
        let start = starts.start + starts.len() / 2;
        let mut best: Option<(u128, usize)> = None;
        for end in ends.start.max(start + 1)..ends.end {
            let cost = self.cost(start, end);
            if cost > table.most {
                break;
            }
            let sum = table.later[end].map(|later| u128::from(cost) * u128::from(cost) + later);
            if let Some(sum) = sum.filter(|sum| best.is_none_or(|(least, _)| *sum < least)) {
                best = Some((sum, end));
            }
        }
        let mut first_end = ends.start;
        if let Some((sum, end)) = best {
            table.sums[start] = Some(sum);
            table.ends[start] = end as u32;
            self.fill(table, starts.start..start, ends.start..end + 1);
            first_end = end;
        }
        self.fill(table, start + 1..starts.end, first_end..ends.end);
    }
}

/// What is known about one stage, by its first layer.
struct StageTable {
    /// The smallest sum of squares of this and the later stages.
    sums: Vec<Option<u128>>,
    /// The end of this stage that gives it.
    ends: Vec<u32>,
    /// The same sums for the next stage.
    later: Vec<Option<u128>>,
    /// The most that a stage may cost.
    most: u64,
}
