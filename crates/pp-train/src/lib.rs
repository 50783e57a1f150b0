//! The pipeline-parallel GPT trainer behind the binary `pp-train`.
//!
//! | room | what is in it |
//! |---|---|
//! | [`args`] | what was typed |
//! | `policy`, `device` | the flags of the lowering policy, and of device, number type and transport; what they come to |
//! | `invalid`, `nearest` | what is said of arguments that make no run, and what is advised instead |
//! | `config`, `batch`, `seq_lengths`, `layers`, `lr`, `world`, `footprint` | what was validated: [`TrainConfig`], its microbatches and their lengths, which stage has which layers, the learning rates, this process's [`Place`], that it fits the machine |
//! | `files` | that what is written can be, and overwrites nothing else that is named |
//! | `data` | [`Text`]: bytes as tokens, training windows, validation windows |
//! | `plan` | [`Plan`]: what a step computes, where and in which order, from flags or from a file |
//! | `programs` | [`Programs`] of training and validation, and that they are part of what was [proved](prove) |
//! | `groups` | the mesh of ranks, a rank's groups, and every [channel](channels) of the run |
//! | `machine` | [`Machine`]: what a rank computes on and sends by, opened; that every rank has it |
//! | `optimizer`, `sync` | AdamW; what ranks tell each other after a step's backwards |
//! | `clock`, `measure`, `trace` | the clock that ranks share; what stages took, beside what the simulator makes of it; a step written down |
//! | `stop` | [`Stop`]: signals, and how ranks agree to stop after the same step |
//! | `trainer` | a rank at work; `step` and `eval` are what it does |
//! | `train` | [`train()`]: the whole run on one rank; `records`, `outcome`: what it comes to; `report`: what rank 0 tells of it |
//! | `flight` | [`Flight`]: what a rank leaves behind when its run fails |
//! | `run` | [`run()`]: from a configuration to the end, rendezvous included |
//!
//! # Invariants
//!
//! * Bad input is found before any rank starts: a [`TrainConfig`] and a [`Text`] that exist can be trained on.
//! * A batch follows from the seed, the iteration and the place of a sequence in the step, never from how either the step or the model is cut.
//! * Ranks exchange parts, never running sums, and add them in canonical order: loss, gradient norm and weights have the same
//!   bits for every (pp, vp), thread count and schedule whose backwards ascend.
//! * Every wait ends: by its answer, by `--timeout`, or by the loss of a rank.

pub mod args;
mod batch;
mod clock;
mod config;
mod data;
mod device;
mod eval;
mod failure;
mod files;
mod flight;
mod footprint;
mod groups;
mod invalid;
mod layers;
mod lr;
mod machine;
mod measure;
mod nearest;
mod optimizer;
mod outcome;
mod plan;
mod policy;
mod programs;
mod records;
mod report;
mod run;
mod seq_lengths;
mod step;
mod stop;
mod sync;
mod trace;
mod train;
mod trainer;
mod world;

pub use config::{AdamOptions, TextSource, TraceRequest, TrainConfig, VOCAB};
pub use data::Text;
pub use device::{Compute, DeviceArgs, DeviceKind, NumberType};
pub use failure::Failure;
pub use flight::Flight;
pub use groups::channels;
pub use invalid::Invalid;
pub use lr::LrSchedule;
pub use machine::Machine;
pub use measure::{Measured, Predicted, SLOW_FROM, SlowStage, StageTimes};
pub use outcome::{Outcome, RankFigures, StepFigures};
pub use plan::{FilePlan, Plan};
pub use policy::PolicyArgs;
pub use programs::{OwnPrograms, Programs, prove};
pub use records::{FinalRecord, IterationRecord, ValidationRecord};
pub use report::Report;
pub use run::run;
pub use stop::{Stop, StopSignal, Stopped};
pub use train::train;
pub use world::{Environment, Place, Source};
