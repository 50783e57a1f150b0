//! Every order in which the threads of a memory fabric can go, tried by loom: `cargo xtask ci loom`.
//!
//! Threads go in any order up to a number of preemptions. A wake-up that can be lost, or two locks taken in either order,
//! shows as a deadlock in one of them.

mod alarm;
mod channels;
mod endings;

use std::time::Duration;

use loom::model::Builder;
use loom::thread;
use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Stage};

use crate::member::{Member, MemorySpec, memory_fabric};
use crate::message::{Boundary, Buffer, DType, Envelope, Label};

/// Waits never end by time in a model.
const FOREVER: Duration = Duration::from_secs(3600);

/// Rank 0 to rank 1, and back.
const FORTH: Channel = channel(0, 1, Direction::Forward);
const BACK: Channel = channel(1, 0, Direction::Backward);

const fn channel(source: u32, destination: u32, direction: Direction) -> Channel {
    let (source, destination) = (Rank(source), Rank(destination));
    Channel { source, destination, carries: Carries::Only(direction), queue: 0 }
}

/// Tries every order with at most so many preemptions.
fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// A thread per rank of a fabric, the last rank on the model's own, each with its member.
fn ranks<const N: usize>(channels: &[Channel], capacity: u64, bodies: [fn(Member); N]) {
    let spec = MemorySpec { n_ranks: N as u32, channels: channels.to_vec(), capacity, deadline: FOREVER };
    let builders = memory_fabric(spec).expect("the channels are between the ranks");
    let mut threads = Vec::new();
    for (rank, (builder, body)) in builders.into_iter().zip(bodies).enumerate() {
        let run = move || body(builder.build());
        if rank + 1 < N { threads.push(thread::spawn(run)) } else { run() }
    }
    for thread in threads {
        thread.join().expect("no panic");
    }
}

fn label(number: u32) -> Label {
    let (direction, stage, microbatch) = (Direction::Forward, Stage(1), Microbatch(number));
    Envelope { step: 0, message: Message { direction, stage, microbatch } }.into()
}

fn buffer(value: i64) -> Buffer {
    Buffer::i64(&[1], vec![value]).expect("one element")
}

fn one_integer() -> Boundary {
    Boundary::new(DType::I64, &[1]).expect("a small shape")
}
