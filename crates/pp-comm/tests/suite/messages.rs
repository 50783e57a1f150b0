//! Messages and channels that tests send, and how long they wait.

use std::time::Duration;

use pp_comm::{Boundary, Buffer, DType, Envelope};
use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Stage};

/// How long a rank may be silent.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);

/// Long enough for a loaded machine; no test that passes waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How soon a peer's end must show, on a loaded machine; deadlines are far longer.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(10);

pub(crate) const fn channel(source: u32, destination: u32, direction: Direction) -> Channel {
    let queue = 2 * source + direction as u32;
    Channel { source: Rank(source), destination: Rank(destination), carries: Carries::Only(direction), queue }
}

/// Rank 0 to rank 1.
pub(crate) const FORTH: Channel = channel(0, 1, Direction::Forward);
/// Rank 1 to rank 0.
pub(crate) const BACK: Channel = channel(1, 0, Direction::Backward);

/// Some message of a direction.
pub(crate) const fn envelope(channel: Channel, step: u64, microbatch: u32) -> Envelope {
    let direction = match channel.carries {
        Carries::Only(direction) => direction,
        Carries::Both => Direction::Forward,
    };
    let message = Message { direction, stage: Stage(channel.destination.0), microbatch: Microbatch(microbatch) };
    Envelope { step, message }
}

/// A buffer of floats that can be told from others.
pub(crate) fn floats(len: usize, seed: f32) -> Buffer {
    let value = |index: usize| seed + (index % 1000) as f32;
    Buffer::f32(&[len], (0..len).map(value).collect()).expect("as long as its shape")
}

pub(crate) fn floats_of(len: usize) -> Boundary {
    Boundary::new(DType::F32, &[len]).expect("a small shape")
}
