//! Whether what arrived is what was expected.

use pp_schedule::Channel;

use crate::error::CommError;
use crate::message::{Boundary, Label};

/// Checks which message it is first, then its type and shape.
pub(crate) fn check_arrival(
    channel: Channel,
    (expected, agreed): (Label, &Boundary),
    (found, sent): (Label, &Boundary),
) -> Result<(), CommError> {
    if found != expected {
        return Err(CommError::WrongMessage { channel, expected, found });
    }
    if sent != agreed {
        let (agreed, sent) = (agreed.clone(), sent.clone());
        return Err(CommError::WrongBoundary { channel, label: expected, expected: agreed, found: sent });
    }
    Ok(())
}
