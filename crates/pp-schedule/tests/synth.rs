//! The search for zero-bubble orders: what it gives is valid, within the limit, not shorter than possible, and for small
//! problems as short as possible.

use std::collections::HashSet;

use pp_schedule::simulate::{Costs, Link, StageCosts, Timeline};
use pp_schedule::synth::{
    Budget, MAX_PAIRS, Problem, Solution, SynthError, limits, search, search_within, v_half, v_min,
};
use pp_schedule::{Extent, Order, Work, WorkKind};

/// Forward, input gradient, weight gradient, latency.
const COSTS: [[u64; 4]; 5] = [[1, 1, 1, 0], [2, 3, 1, 0], [10, 12, 8, 1], [5, 4, 9, 3], [3, 1, 0, 7]];
/// Enough to try every part of the search, little enough for a grid.
const LITTLE: Budget = Budget { plays: 30, moves: 400, polish: 200, thrift: 6 };

fn problem((pp, n_chunks, m): (u32, u32, u32), cost: [u64; 4], memory: Option<u64>) -> Problem {
    let [forward, backward_input, backward_weight, latency] = cost;
    Problem { forward, backward_input, backward_weight, latency, memory, ..Problem::unit(pp, n_chunks, m) }
}

fn timeline(problem: &Problem, solution: &Solution) -> Timeline {
    let stage = StageCosts {
        forward: problem.forward,
        backward: problem.backward_input + problem.backward_weight,
        backward_input: problem.backward_input,
        backward_weight: problem.backward_weight,
    };
    let costs = Costs::uniform(stage).with_link(Link { latency: problem.latency, transfer: 0 });
    let Solution { placement, microbatches, ref rows, .. } = *solution;
    let extent = Extent { placement, microbatches, forward_only: false };
    let order = Order::new(extent, rows.clone()).expect("covers the step");
    Timeline::of_order(&order, &costs).expect("runs to its end")
}

fn peak(row: &[Work]) -> u64 {
    let held = row.iter().scan(0, |held, work| {
        *held += if work.kind == WorkKind::Forward { 2 } else { -1 };
        Some(*held)
    });
    held.max().unwrap_or(0) as u64
}

/// Everything that has to hold of a solution.
fn check(problem: &Problem, solution: &Solution) {
    let timeline = timeline(problem, solution);
    assert_eq!(timeline.makespan(), solution.makespan, "{problem:?}");
    assert_eq!(timeline.longest_stage(), solution.longest_stage, "{problem:?}");
    assert!(solution.lower_bound <= solution.makespan, "{problem:?}: below the bound");
    let peaks: Vec<u64> = solution.rows.iter().map(|row| peak(row)).collect();
    assert_eq!(peaks, solution.peak, "{problem:?}");
    let limit = problem.memory.unwrap_or(u64::MAX);
    assert!(peaks.iter().all(|&peak| peak <= limit), "{problem:?}: {peaks:?}");
}

#[test]
fn orders_cover_the_step_run_and_fit_over_a_grid() {
    for pp in [1, 2, 3, 4, 5, 8] {
        for (n_chunks, m) in [1, 2].into_iter().flat_map(|n| [1, 2, 3, 5, 8, 13].map(|m| (n, m))) {
            for (index, cost) in COSTS.into_iter().enumerate() {
                let smallest = 2 * u64::from(n_chunks);
                let limits =
                    [None, Some(smallest), Some(smallest + 1 + pp as u64), Some(limits::zb_v(pp).max(smallest))];
                // Every cost meets every limit, though not at every size.
                let limit = limits[(index + (pp + m) as usize) % limits.len()];
                let problem = problem((pp, n_chunks, m), cost, limit);
                check(&problem, &search_within(&problem, LITTLE).expect("valid"));
            }
        }
    }
}

#[test]
fn a_limit_of_one_microbatch_runs_one_at_a_time() {
    let problem = problem((3, 2, 4), [1, 1, 1, 0], Some(4));
    let solution = search(&problem).expect("valid");
    check(&problem, &solution);
    assert_eq!(solution.peak, [4, 4, 4]);
}

#[test]
fn without_a_limit_nothing_but_the_first_forwards_is_lost() {
    for (pp, m) in [(2, 8), (4, 16), (8, 32)] {
        let problem = problem((pp, 1, m), [1, 1, 1, 0], None);
        let solution = search(&problem).expect("valid");
        assert_eq!(solution.makespan, u64::from(3 * m + pp - 1));
        assert_eq!(solution.makespan, solution.lower_bound);
    }
}

/// With 1F1B's memory and one chunk, what ZB-H1 loses: `(pp - 1)(f + b - w)` with free communication.
#[test]
fn with_the_memory_of_1f1b_it_is_zb_h1() {
    for cost in [[1, 1, 1, 0], [2, 3, 1, 0], [10, 12, 8, 0]] {
        let problem = problem((4, 1, 12), cost, Some(limits::zb_h1(4)));
        let [f, b, w, _] = cost;
        assert_eq!(search(&problem).expect("valid").makespan, 12 * (f + b + w) + 3 * (f + b - w));
    }
}

/// The named schedules keep to their memory, and take no longer than the paper's regular patterns do.
#[test]
fn v_min_and_v_half_hold_a_third_and_a_half() {
    for (pp, m) in [(1, 3), (2, 6), (3, 6), (4, 8), (6, 6)] {
        let min = v_min(pp, m).expect("valid");
        let half = v_half(pp, m).expect("valid");
        assert!(min.peak.iter().all(|&peak| peak <= limits::v_min(pp)), "{:?}", min.peak);
        assert!(half.peak.iter().all(|&peak| peak <= limits::v_half(pp)), "{:?}", half.peak);
        check(&problem((pp, 2, m), [1, 1, 1, 0], Some(limits::v_min(pp))), &min);
        check(&problem((pp, 2, m), [1, 1, 1, 0], Some(limits::v_half(pp))), &half);
        // One microbatch there and back, then each a rank's work after the one before.
        let regular = u64::from((4 * pp + 1 + 6 * (m - 1)).max(6 * m));
        assert!(min.makespan <= regular && half.makespan <= regular, "{} {} {regular}", min.makespan, half.makespan);
    }
}

#[test]
fn limits_are_those_of_the_papers() {
    let of = |limit: fn(u32) -> u64| [1, 2, 3, 4, 5, 6, 8, 16].map(limit);
    assert_eq!(of(limits::v_min), [4, 6, 8, 8, 12, 12, 16, 24]);
    assert_eq!(of(limits::v_half), [4, 8, 8, 12, 12, 16, 20, 36]);
    assert_eq!(of(limits::zb_v), [4, 8, 12, 16, 20, 24, 32, 64]);
}

#[test]
fn the_bound_falls_with_memory() {
    for cost in COSTS {
        let bounds = (4..20).map(|limit| {
            search_within(&problem((4, 2, 6), cost, Some(limit)), Budget { plays: 1, moves: 0, polish: 0, thrift: 0 })
                .expect("valid")
                .lower_bound
        });
        assert!(bounds.collect::<Vec<_>>().is_sorted_by(|a, b| a >= b));
    }
}

#[test]
fn more_moves_never_make_it_longer() {
    let problem = problem((4, 2, 6), [10, 12, 8, 1], Some(8));
    let with = |moves| search_within(&problem, Budget { moves, ..Budget::DEFAULT }).expect("valid").makespan;
    let plays_only = with(0);
    assert!(with(2000) <= plays_only);
}

#[test]
fn the_same_problem_has_the_same_answer() {
    let problem = problem((4, 2, 7), [2, 3, 1, 0], Some(12));
    assert_eq!(search(&problem), search(&problem));
}

#[test]
fn what_has_no_order_is_refused() {
    let refused = |problem: Problem| search(&problem).expect_err("refused");
    let memory = refused(problem((4, 2, 3), [1, 1, 1, 0], Some(3)));
    assert_eq!(memory, SynthError::Memory { limit: 3, smallest: 4 });
    assert!(memory.to_string().contains("the smallest that works is 4"));
    assert_eq!(refused(problem((4, 1, 3), [1, 1, 1, 0], Some(0))), SynthError::Memory { limit: 0, smallest: 2 });
    assert_eq!(refused(Problem::unit(4, 3, 3)), SynthError::Chunks { given: 3 });
    assert_eq!(refused(Problem::unit(0, 1, 3)), SynthError::Empty { what: "pp" });
    assert_eq!(refused(Problem::unit(4, 1, 0)), SynthError::Empty { what: "microbatches" });
    assert_eq!(refused(Problem::unit(MAX_PAIRS as u32, 2, 1)), SynthError::TooLarge { pairs: 2 * MAX_PAIRS });
    assert_eq!(refused(problem((2, 1, 2), [u64::MAX, 1, 1, 0], None)), SynthError::TooLong);
}

/// Two ranks: nothing shorter exists, over all orders that take microbatches in turn.
#[test]
fn small_problems_are_solved() {
    for (n_chunks, m, limits) in [(1, 2, [2, 3, 4]), (1, 3, [2, 4, 6]), (2, 2, [4, 6, 8])] {
        for cost in [[1, 1, 1, 0], [2, 3, 1, 0], [5, 4, 9, 3]] {
            for limit in limits {
                let problem = problem((2, n_chunks, m), cost, Some(limit));
                let solution = search(&problem).expect("valid");
                check(&problem, &solution);
                assert!(!Exhaustive::new(&problem, solution.makespan).is_shorter_possible(), "{problem:?}");
            }
        }
    }
}

/// All orders of two ranks, one computation after the other in the order of their starts.
struct Exhaustive {
    n_chunks: usize,
    m: usize,
    cost: [u64; 3],
    latency: u64,
    limit: u64,
    /// Only what is shorter is looked for.
    below: u64,
    seen: HashSet<(Vec<usize>, Vec<u64>)>,
}

#[derive(Clone)]
struct State {
    /// By rank and letter (kind and chunk): how many were run.
    counts: [[usize; 6]; 2],
    free: [u64; 2],
    held: [u64; 2],
    /// By kind, stage and microbatch: when it is done.
    done: Vec<u64>,
    /// When the last computation started: none starts earlier after it.
    now: u64,
}

impl Exhaustive {
    fn new(problem: &Problem, below: u64) -> Self {
        Self {
            n_chunks: problem.n_chunks as usize,
            m: problem.microbatches as usize,
            cost: [problem.forward, problem.backward_input, problem.backward_weight],
            latency: problem.latency,
            limit: problem.memory.unwrap_or(u64::MAX),
            below,
            seen: HashSet::new(),
        }
    }

    fn is_shorter_possible(&mut self) -> bool {
        let done = vec![u64::MAX; 3 * 2 * self.n_chunks * self.m];
        self.from(&State { counts: [[0; 6]; 2], free: [0; 2], held: [0; 2], done, now: 0 })
    }

    fn from(&mut self, state: &State) -> bool {
        let left = |rank: usize| -> u64 {
            let letters = 0..3 * self.n_chunks;
            letters.map(|letter| (self.m - state.counts[rank][letter]) as u64 * self.cost[letter / self.n_chunks]).sum()
        };
        if (0..2).any(|rank| state.free[rank] + left(rank) >= self.below) {
            return false;
        }
        if (0..2).all(|rank| state.counts[rank][..3 * self.n_chunks].iter().all(|&count| count == self.m)) {
            return true;
        }
        let mut times = state.done.clone();
        times.extend(state.free);
        times.push(state.now);
        if !self.seen.insert((state.counts.concat(), times)) {
            return false;
        }
        let nexts: Vec<State> = (0..2)
            .flat_map(|rank| (0..3 * self.n_chunks).map(move |letter| (rank, letter)))
            .filter_map(|(rank, letter)| self.take(state, rank, letter))
            .collect();
        nexts.iter().any(|next| self.from(next))
    }

    fn take(&self, state: &State, rank: usize, letter: usize) -> Option<State> {
        let (kind, chunk) = (letter / self.n_chunks, letter % self.n_chunks);
        let n_stages = 2 * self.n_chunks;
        let rank_of = |stage: usize| if stage < 2 { stage } else { 3 - stage };
        let stage = if chunk == 0 { rank } else { 3 - rank };
        let microbatch = state.counts[rank][letter];
        if microbatch == self.m || (kind == 0 && state.held[rank] + 2 > self.limit) {
            return None;
        }
        let cell = |kind: usize, stage: usize| (kind * n_stages + stage) * self.m + microbatch;
        let from = |kind: usize, of: usize| {
            let done = state.done[cell(kind, of)];
            (done != u64::MAX).then(|| done + if rank_of(of) == rank { 0 } else { self.latency })
        };
        let ready = match kind {
            0 if stage == 0 => 0,
            0 => from(0, stage - 1)?,
            1 if stage + 1 == n_stages => from(0, stage)?,
            1 => from(0, stage)?.max(from(1, stage + 1)?),
            _ => from(1, stage)?,
        };
        let start = ready.max(state.free[rank]);
        if start < state.now {
            return None;
        }
        let mut next = state.clone();
        next.counts[rank][letter] += 1;
        next.free[rank] = start + self.cost[kind];
        next.held[rank] = if kind == 0 { state.held[rank] + 2 } else { state.held[rank] - 1 };
        next.done[cell(kind, stage)] = next.free[rank];
        next.now = start;
        Some(next)
    }
}
