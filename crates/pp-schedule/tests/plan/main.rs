//! The planner: formulas by hand and by publication, the search against all there is, reasons, limits.

mod formulas;
mod reasons;
mod search;

use pp_schedule::plan::{Core, Layer, Machine, Model, Part, Request, Way, Weights};

/// Layers of uneven cost between an embedding and a head, all with bytes.
pub(crate) fn uneven(n_layers: u64) -> Model {
    let part = |at: u64| Part {
        forward: 100 + 7 * (at * 5 % 4),
        backward_input: 110 + 3 * (at % 3),
        backward_weight: 90 + 5 * (at % 2),
        activation: 1000 + 10 * (at % 5),
        deferred: 300,
        weights: Weights { replicated: 4000 + at, sharded: 2000, gradient: 1000 },
    };
    let core = Some(Core { forward: 20, bytes: 400 });
    let layers = (0..n_layers).map(|at| Layer { part: part(at), input: 100, core }).collect();
    let end = |forward: u64, bytes: u64| Part {
        forward,
        backward_input: forward,
        backward_weight: forward + 1,
        activation: bytes,
        deferred: bytes,
        weights: Weights { replicated: 10 * bytes, sharded: 5 * bytes, gradient: bytes },
    };
    Model { layers, embedding: end(0, 50), head: end(130, 700), message: 100 }
}

/// A request that tries everything and bounds nothing.
pub(crate) fn everything(model: Model, ways: Vec<Way>, machine: Machine) -> Request {
    let groups = pp_schedule::plan::GroupSizes::All;
    Request { groups, top: usize::MAX, ..Request::new(model, ways, machine) }
}
