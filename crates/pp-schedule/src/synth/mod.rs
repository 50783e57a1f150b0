//! Zero-bubble orders under a memory limit, found by search.
//!
//! A backward is split in two ([`WorkKind::BackwardInput`], [`WorkKind::BackwardWeight`]), and the second half can wait: it
//! fills what would be bubbles, and holds half an activation until it does. So there is a trade between time and memory,
//! and the best order depends on the costs, the latency and the limit. [`search`] looks for it, for one chunk per rank or
//! the V's two, rather than to have a rule for each case.
//!
//! # Method
//!
//! 1. **Policies** (`policy`, `play`): list scheduling. In the order of time each free rank takes what a policy likes best
//!    among the computations that can start and fit the limit; weight gradients are taken when nothing else is there. There
//!    are plain policies (preferences, and caps on microbatches under way) and, for the V, regular patterns in the sense
//!    of the second paper's building blocks: all microbatches go the same way, an interval apart. Among those a descent
//!    goes from neighbour to neighbour.
//! 2. **Climbs** (`climb`, `clock`): local search that moves computations of a critical path within a rank's row.
//! 3. **Few microbatches first** (`grow`): a climb is better with less to move, so many microbatches start from a schedule
//!    of few that is opened in its middle and repeated there.
//! 4. **Ranks far apart first** (`solve`): the first climbs are made with a larger latency, which keeps orders that lose a
//!    little with every microbatch from being taken for good ones.
//! 5. **Polish** (`climb`): of orders of one length the one is better whose longest stage is shorter, the time that a rank
//!    takes from its own start to its own end: it is what counts where steps follow each other without a barrier.
//! 6. **Thrift** (`solve`): last, plain policies are tried with tighter limits, and an order as short that holds less is
//!    taken instead.
//!
//! It ends early where an order is as short as the lower bound (`bound`), which is then the optimum. Otherwise it ends with
//! its [`Budget`], the most policies played and moves tried: no clock and no chance is asked, so the same problem has the
//! same answer everywhere. The answer is not proved the best; [`Solution::lower_bound`] says how far from it it can be.
//!
//! # Sources
//!
//! What a split backward is good for, and the V: Qi, Wan, Huang and Lin, "Zero Bubble Pipeline Parallelism" (2023). Building
//! blocks, V-Min and V-Half: Qi, Wan, Amar and Lin, "Pipeline Parallelism with Controllable Memory" (2024). The search is
//! this crate's own.

mod bound;
mod climb;
mod clock;
mod error;
mod grow;
pub mod limits;
mod play;
mod policy;
mod problem;
mod random;
mod shape;
mod solution;
mod solve;

pub use error::SynthError;
pub use problem::{Budget, MAX_PAIRS, MAX_TICKS, Problem};
pub use solution::{Solution, Tried};

use shape::Shape;
use solve::Solver;

#[cfg(doc)]
use crate::work::WorkKind;

/// The best order found for a problem with [`Budget::DEFAULT`].
///
/// ```
/// use pp_schedule::synth::{Problem, limits, search};
/// // Four ranks, a V, eight microbatches, as much memory as 1F1B takes; gradients dearer than forwards.
/// let problem = Problem {
///     forward: 10,
///     backward_input: 12,
///     backward_weight: 8,
///     latency: 1,
///     memory: Some(limits::zb_v(4)),
///     ..Problem::unit(4, 2, 8)
/// };
/// let solution = search(&problem)?;
/// assert!(solution.peak.iter().all(|&peak| peak <= 16));
/// assert!(solution.lower_bound <= solution.makespan && solution.makespan < 540);
/// # Ok::<(), pp_schedule::synth::SynthError>(())
/// ```
///
/// # Errors
/// [`SynthError`] when the problem has no order or is too large.
pub fn search(problem: &Problem) -> Result<Solution, SynthError> {
    search_within(problem, Budget::DEFAULT)
}

/// The best order found for a problem with a budget.
///
/// # Errors
/// [`SynthError`] when the problem has no order or is too large.
pub fn search_within(problem: &Problem, budget: Budget) -> Result<Solution, SynthError> {
    problem.check()?;
    let shape = Shape::new(problem);
    let mut solver = Solver::new(budget);
    let (found, bounds) = solver.solve(&shape);
    Ok(Solution::new(problem, &shape, &found, bounds.length, solver.tried))
}

/// V-Half at unit costs: about half of 1F1B's memory ([`limits::v_half`]).
///
/// # Errors
/// [`SynthError`] when `pp` or `microbatches` is 0, or their product too large.
pub fn v_half(pp: u32, microbatches: u32) -> Result<Solution, SynthError> {
    search(&Problem { memory: Some(limits::v_half(pp)), ..Problem::unit(pp, 2, microbatches) })
}

/// V-Min at unit costs: about a third of 1F1B's memory ([`limits::v_min`]).
///
/// # Errors
/// [`SynthError`] when `pp` or `microbatches` is 0, or their product too large.
pub fn v_min(pp: u32, microbatches: u32) -> Result<Solution, SynthError> {
    search(&Problem { memory: Some(limits::v_min(pp)), ..Problem::unit(pp, 2, microbatches) })
}
