//! Lowering: from an order to a program, by a policy that says how transfers are posted and waited for.

pub mod lanes;
pub mod megatron;
mod policy;
mod proved;
mod slots;
pub mod stagger;
pub mod written;

pub use policy::{Policy, PolicyError, UnknownPolicy};
pub use proved::{Unprovable, lower_judged, lower_proved};
