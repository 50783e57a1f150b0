//! Every operation of the model against the processor's in double precision.

use anyhow::{Result, bail};

use crate::conduct::Plan;

pub(super) fn run(_plan: Plan<'_>) -> Result<()> {
    bail!("waits for the model's own list")
}
