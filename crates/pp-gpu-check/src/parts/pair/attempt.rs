//! Whether NCCL takes two ranks on one GPU at all.

use std::sync::Arc;

use anyhow::Result;
use nccl_rs::{DataType, DeviceBytes, Group, NcclError, ReduceOp, Shared};

use super::seat::{LIMIT, Seat};
use crate::parts::patterns::{blank, expect, of_floats};
use crate::tell;

/// `ncclInvalidUsage`: what NCCL says of two ranks on one GPU that it does not take.
const INVALID_USAGE: i32 = 5;

pub(super) fn run(mut seat: Seat) -> Result<()> {
    let made = seat.communicator();
    // The other rank, which may hear of it as something else, must not count it as a failure either.
    if let Some(why) = made.as_ref().err().and_then(refusal) {
        return tell::refused(&why);
    }
    let comm = made?;
    let own: Shared = Arc::new(DeviceBytes::from_host(&seat.stream, &of_floats(&[1.0, seat.rank as f32]))?);
    let sum = blank(&seat.stream, 8)?;
    let mut group = Group::new();
    group.all_reduce(&comm, own, Arc::clone(&sum), DataType::F32, ReduceOp::Sum)?;
    group.launch(&seat.stream, LIMIT)?.wait(LIMIT)?;
    expect(&sum, &seat.stream, LIMIT, &of_floats(&[2.0, 1.0]))?;
    comm.finalize(LIMIT)?;
    seat.leave()
}

fn refusal(error: &anyhow::Error) -> Option<String> {
    match error.downcast_ref::<NcclError>()? {
        NcclError::Nccl { code: INVALID_USAGE, .. } => Some(error.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invalid_usage_is_a_refusal() {
        let error = |code| NcclError::Nccl { call: "init", code, text: "no".to_owned(), last: String::new() };
        assert!(refusal(&error(INVALID_USAGE).into()).is_some());
        assert_eq!(refusal(&error(3).into()), None);
        assert_eq!(refusal(&NcclError::Deadline { call: "init", limit: LIMIT }.into()), None);
    }
}
