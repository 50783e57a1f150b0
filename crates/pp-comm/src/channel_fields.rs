//! Channels as fields of a payload: how ranks tell each other which they mean.

use std::io;

use pp_schedule::{Carries, Channel, Direction, Rank};

use crate::wire::{Fields, Payload, invalid};

/// What a channel can carry, with its code on the wire.
const CARRIES: [(u32, Carries); 3] =
    [(0, Carries::Only(Direction::Forward)), (1, Carries::Only(Direction::Backward)), (2, Carries::Both)];

/// A channel's fields in a payload.
pub(crate) fn put_channel(payload: Payload, channel: Channel) -> Payload {
    let Channel { source, destination, carries, queue } = channel;
    let code = CARRIES.into_iter().find(|&(_, known)| known == carries).map_or(u32::MAX, |(code, _)| code);
    payload.u32(source.0).u32(destination.0).u32(code).u32(queue)
}

/// The same, read back.
pub(crate) fn take_channel(fields: &mut Fields<'_>) -> io::Result<Channel> {
    let (source, destination) = (Rank(fields.u32()?), Rank(fields.u32()?));
    let code = fields.u32()?;
    let known = CARRIES.into_iter().find(|&(known, _)| known == code);
    let (_, carries) = known.ok_or_else(|| invalid(format!("a channel that carries {code}")))?;
    Ok(Channel { source, destination, carries, queue: fields.u32()? })
}
