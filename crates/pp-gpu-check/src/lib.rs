//! What only a machine with a GPU can show, in one program of under 8 minutes: `pp-gpu-check`.
//!
//! It is built on any machine (`cargo xtask cuda-build`), carried to one with a GPU, and run there, by itself or by `cargo xtask
//! gpu-check`. docs/gpu.md says how.
//!
//! | room | what is in it |
//! |---|---|
//! | [`report`] | what a run found: the fields of the JSON file |
//! | [`tell`] | how a part tells what it finds, line by line |
//! | [`budget`] | which parts there are, and how long each may take |
//! | [`child`] | processes of this program, ended when their time is up |
//! | [`conduct`] | all parts, each in a process of its own, whatever becomes of the others |
//! | [`parts`] | the checks |
//!
//! # Features
//! Without any, it can rehearse on the processor what does not concern NCCL (`--on cpu`). With `nccl` it can rehearse on the
//! emulated driver what does (`--on emulator`). Only with `cuda` does it check anything that counts.

pub mod budget;
pub mod child;
pub mod conduct;
pub mod parts;
pub mod report;
pub mod tell;
