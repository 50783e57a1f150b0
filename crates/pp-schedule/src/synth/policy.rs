//! Rules by which a free rank takes its next computation, and the families of them that are tried.

use super::shape::Shape;

/// Which of the computations that can start a rank takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Most microbatches of each stage between forward and input gradient.
    pub(super) caps: Vec<u32>,
    pub(super) by: By,
    /// How long a rank waits for a forward or input gradient although it could do a weight gradient.
    pub(super) patience: u64,
}

/// What is liked best among forwards and input gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The letter with the lowest number.
    Letter([u8; 4]),
    /// The oldest microbatch, then the letter.
    Age([u8; 4]),
    /// The other kind than the last, then the letter.
    Turn([u8; 4]),
    /// What is due first.
    Due(Due),
}

/// A regular pattern: every microbatch goes the same way, an interval after the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// By kind (forward, input gradient) and stage: when microbatch 0 is due.
    pub(super) first: [Vec<u64>; 2],
    pub(super) interval: u64,
    /// Whether nothing is taken before what is due first; else a rank does not wait for it.
    pub(super) strict: bool,
}

/// Likings of the letters F0 F1 B0 B1 with two chunks.
const LIKINGS_V: [[u8; 4]; 6] = [[1, 0, 2, 3], [2, 0, 1, 3], [0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1], [3, 1, 2, 0]];
/// Likings of F and B with one chunk.
const LIKINGS: [[u8; 4]; 2] = [[1, 0, 0, 0], [0, 1, 0, 0]];

/// The policies without a pattern.
pub(super) fn plain(shape: &Shape) -> Vec<Policy> {
    let likings: &[[u8; 4]] = if shape.n_chunks == 1 { &LIKINGS } else { &LIKINGS_V };
    let mut patiences = vec![shape.latency, shape.cost[2] / 2, shape.cost[2] + shape.latency];
    patiences.dedup();
    let mut policies = Vec::new();
    for caps in caps(shape) {
        for &liking in likings {
            for by in [By::Letter(liking), By::Age(liking), By::Turn(liking)] {
                for &patience in &patiences {
                    policies.push(Policy { caps: caps.clone(), by: by.clone(), patience });
                }
            }
        }
    }
    policies
}

/// Caps that fall along the pipeline: the earlier a stage, the longer a microbatch is between its forward and its gradient.
fn caps(shape: &Shape) -> Vec<Vec<u32>> {
    let most = shape.m as u64;
    let n = shape.n_ranks as u64;
    let line = |of: &dyn Fn(u64) -> u64| -> Vec<u32> {
        (0..shape.n_stages as u64).map(|stage| of(stage).clamp(1, most) as u32).collect()
    };
    let mut all = Vec::new();
    if shape.n_chunks == 1 {
        for slope in 1..=4 {
            for last in 1..=5 {
                all.push(line(&|stage| last + slope * (n - 1 - stage) / 2));
            }
        }
    } else {
        for scale in [6, 8, 10] {
            for more in [1, 2] {
                all.push(line(&|stage| shape.limit * scale * (2 * n - stage) / (16 * (2 * n + 1)) + more));
            }
        }
    }
    all.push(vec![shape.m as u32; shape.n_stages]);
    all.dedup();
    all
}

/// A pattern's parameters, in steps of a third of a microbatch's work on one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pattern {
    /// How much later than it could a microbatch gets to the next stage: on its way there (first chunk, second chunk) and
    /// back (second, first).
    pub(super) slopes: [u8; 4],
    /// How much later than it could at the turns: from the first chunk to the second, from forward to gradient, back.
    pub(super) turns: [u8; 3],
    pub(super) strict: bool,
    pub(super) patient: bool,
}

impl Pattern {
    /// Where the search among patterns begins: microbatches that go as fast as they can, and some that linger on one leg or
    /// another.
    pub(super) const STARTS: [Self; 5] = [
        Self { slopes: [0, 0, 0, 0], turns: [0, 0, 0], strict: true, patient: false },
        Self { slopes: [0, 3, 0, 3], turns: [0, 0, 0], strict: true, patient: false },
        Self { slopes: [0, 1, 1, 1], turns: [1, 0, 0], strict: true, patient: false },
        Self { slopes: [3, 3, 0, 0], turns: [1, 0, 0], strict: true, patient: false },
        Self { slopes: [0, 4, 0, 3], turns: [0, 0, 2], strict: true, patient: false },
    ];
    const MOST: u8 = 5;

    /// The patterns next to it.
    pub(super) fn neighbours(self) -> impl Iterator<Item = Self> {
        let flips = [Self { strict: !self.strict, ..self }, Self { patient: !self.patient, ..self }];
        let steps = (0..14_usize).filter_map(move |step| {
            let mut next = self;
            let [a, b, c, d] = &mut next.slopes;
            let [e, f, g] = &mut next.turns;
            let value = [a, b, c, d, e, f, g].into_iter().nth(step / 2)?;
            *value = if step % 2 == 0 { (*value < Self::MOST).then_some(*value + 1)? } else { value.checked_sub(1)? };
            Some(next)
        });
        steps.chain(flips)
    }

    /// The policy of the pattern.
    pub(super) fn policy(&self, shape: &Shape) -> Policy {
        let [f, b, w] = shape.cost;
        let (n, last) = (shape.n_ranks, shape.n_stages - 1);
        let unit = (f + b + w) / 3;
        let more = |steps: u8| unit * u64::from(steps);
        let mut forward = vec![0; shape.n_stages];
        for stage in 1..=last {
            let late = if stage == n { self.turns[0] } else { self.slopes[usize::from(stage > n)] };
            forward[stage] = forward[stage - 1] + f + shape.hop(stage - 1, stage) + more(late);
        }
        let mut input = vec![0; shape.n_stages];
        input[last] = forward[last] + f + more(self.turns[1]);
        for stage in (0..last).rev() {
            let late = if stage + 1 == n { self.turns[2] } else { self.slopes[2 + usize::from(stage + 1 < n)] };
            input[stage] = input[stage + 1] + b + shape.hop(stage + 1, stage) + more(late);
        }
        let interval = shape.n_chunks as u64 * (f + b + w);
        Policy {
            caps: vec![shape.m as u32; shape.n_stages],
            by: By::Due(Due { first: [forward, input], interval, strict: self.strict }),
            patience: if self.patient { shape.latency } else { 0 },
        }
    }
}
