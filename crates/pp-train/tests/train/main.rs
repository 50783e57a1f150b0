//! Tests of the trainer through its library: configurations, data, and runs of several ranks in one process.

mod configs;
mod data;
mod devices;
mod equality;
mod exits;
mod files;
mod harness;
mod lengths;
mod memory;
mod outputs;
mod policies;
mod process;
mod runs;
mod schedules;
mod terms;
mod traces;
mod worlds;
