//! NCCL's half, called as C code calls it: ranks are threads of this process, or processes of this very binary.

mod child;
mod collectives;
mod detection;
mod faults;
mod groups;
mod lifecycle;
mod pairs;
mod processes;
mod random;
mod rank;
