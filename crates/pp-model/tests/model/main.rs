//! The model against finite differences, against candle's autograd, and against itself in other cuts.

mod common;
mod oracle;

mod autograd;
mod brain_floats;
mod cuts;
mod executor;
mod finite_differences;
mod lengths;
mod live_parameters;
mod losses;
mod refusals;
mod updates;
