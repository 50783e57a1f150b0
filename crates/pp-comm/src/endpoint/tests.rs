//! What an endpoint holds for transfers that nobody waits for: nothing, once they are over.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Role, Stage};

use super::{Endpoint, Pipe, SocketTransport, Transport, Transports};
use crate::alarm::{Alarm, Watch};
use crate::deadline::Deadline;
use crate::flight::Recorder;
use crate::member::{MemorySpec, memory_fabric};
use crate::message::{Boundary, Buffer, DType, Envelope};

const LIMIT: Duration = Duration::from_secs(60);

const fn channel(source: u32, destination: u32, direction: Direction) -> Channel {
    Channel { source: Rank(source), destination: Rank(destination), carries: Carries::Only(direction), queue: 0 }
}

const FORTH: Channel = channel(0, 1, Direction::Forward);
const BACK: Channel = channel(1, 0, Direction::Backward);

fn label(channel: Channel, number: u32) -> Envelope {
    let direction = if channel == FORTH { Direction::Forward } else { Direction::Backward };
    let message = Message { direction, stage: Stage(channel.destination.0), microbatch: Microbatch(number) };
    Envelope { step: 0, message }
}

fn buffer() -> Buffer {
    Buffer::i64(&[1], vec![7]).expect("one element")
}

fn one() -> Boundary {
    Boundary::new(DType::I64, &[1]).expect("one element")
}

/// Buffers that the endpoint holds for whoever waits for them.
fn n_held(endpoint: &Endpoint) -> usize {
    match &endpoint.transport {
        Transport::Memory(memory) => memory.n_held(),
        Transport::Socket(socket) => socket.n_held(),
        #[cfg(feature = "nccl")]
        Transport::Nccl(nccl) => nccl.n_held(),
    }
}

/// An endpoint of rank 0 or 1 whose links are these.
fn linked(rank: Rank, streams: [TcpStream; 2], transports: Transports) -> Endpoint {
    let alarm = Alarm::default();
    let watch = Watch::new(Deadline::after(LIMIT), &alarm);
    let pipe = |(channel, stream): (Channel, TcpStream)| {
        let role = if channel.source == rank { Role::Send } else { Role::Receive };
        (channel, Pipe::negotiate(stream, role, transports, watch).expect("both agree"))
    };
    let pipes = [FORTH, BACK].into_iter().zip(streams).map(pipe).collect();
    let transport = SocketTransport::new(rank, pipes, None, &alarm).expect("links");
    Endpoint::socket(vec![FORTH, BACK], LIMIT, Recorder::new(rank), transport)
}

/// Runs a body for both ranks, over everything.
fn over_everything(body: impl Fn(&mut Endpoint) + Sync) {
    let body = &body;
    let spec = MemorySpec { n_ranks: 2, channels: vec![FORTH, BACK], capacity: 0, deadline: LIMIT };
    thread::scope(|scope| {
        for builder in memory_fabric(spec).expect("both exist") {
            scope.spawn(move || {
                let mut member = builder.build();
                body(&mut member.endpoint);
                member.close();
            });
        }
    });
    for transports in [Transports::Socket, Transports::SharedMemory] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let pair = || {
            let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
            (near, listener.accept().expect("it calls").0)
        };
        let [(first, second), (third, fourth)] = [pair(), pair()];
        thread::scope(|scope| {
            for (rank, streams) in [(Rank(0), [first, third]), (Rank(1), [second, fourth])] {
                scope.spawn(move || {
                    let mut endpoint = linked(rank, streams, transports);
                    body(&mut endpoint);
                    endpoint.close();
                });
            }
        });
    }
}

#[test]
fn transfers_that_nobody_waits_for_leave_nothing_behind() {
    over_everything(|endpoint| {
        let (out, back) = if endpoint.rank() == Rank(0) { (FORTH, BACK) } else { (BACK, FORTH) };
        for number in 0..100 {
            // One of three is waited for on each side; the last of all, so that everything has come by then.
            let waited = number % 3 == 0;
            let send = endpoint.post_send(out, label(out, number), buffer()).expect("posted");
            let receive = endpoint.post_recv(back, label(back, number), one()).expect("posted");
            if waited {
                assert_eq!(endpoint.wait_recv(receive), Ok(buffer()));
                assert_eq!(endpoint.wait_send(send), Ok(buffer()));
                assert_eq!(n_held(endpoint), 0, "after {number}");
            }
        }
    });
}

/// Also where the deadline has passed, and a transfer that is still to be waited for stands before all others.
#[test]
fn transfers_given_up_leave_nothing_behind() {
    over_everything(|endpoint| {
        let first = endpoint.rank() == Rank(0);
        if first {
            let early = endpoint.post_recv(BACK, label(BACK, 0), one()).expect("posted");
            endpoint.set_deadline(Duration::ZERO);
            let sends = [0, 1].map(|number| endpoint.post_send(FORTH, label(FORTH, number), buffer()).expect("posted"));
            // Whether it is too early is for the other side's thread to decide.
            sends.into_iter().for_each(|send| drop(endpoint.wait_send(send)));
            endpoint.set_deadline(LIMIT);
            for number in 1..50 {
                let receive = endpoint.post_recv(BACK, label(BACK, number), one()).expect("posted");
                assert_eq!(endpoint.wait_recv(receive), Ok(buffer()));
            }
            assert_eq!(n_held(endpoint), 1, "the early one, which has come");
            assert_eq!(endpoint.wait_recv(early), Ok(buffer()));
            assert_eq!(n_held(endpoint), 0);
        } else {
            let receives = [0, 1].map(|number| endpoint.post_recv(FORTH, label(FORTH, number), one()).expect("posted"));
            receives.into_iter().for_each(|receive| assert_eq!(endpoint.wait_recv(receive), Ok(buffer())));
            for number in 0..50 {
                let send = endpoint.post_send(BACK, label(BACK, number), buffer()).expect("posted");
                assert_eq!(endpoint.wait_send(send), Ok(buffer()));
            }
        }
    });
}

/// What waits to leave is counted, not summed up at every post.
#[test]
fn what_waits_to_leave_is_counted_to_the_byte() {
    over_everything(|endpoint| {
        if endpoint.rank() == Rank(1) {
            let receives = (0..3000).map(|number| endpoint.post_recv(FORTH, label(FORTH, number), one()));
            let receives: Vec<_> = receives.map(|receive| receive.expect("posted")).collect();
            receives.into_iter().for_each(|receive| assert_eq!(endpoint.wait_recv(receive), Ok(buffer())));
            return;
        }
        let sends = (0..3000).map(|number| endpoint.post_send(FORTH, label(FORTH, number), buffer()));
        let sends: Vec<_> = sends.map(|send| send.expect("posted")).collect();
        for send in sends {
            endpoint.wait_send(send).expect("sent");
        }
        if let Transport::Socket(socket) = &endpoint.transport {
            assert_eq!(socket.n_to_write(), 0);
        }
    });
}
