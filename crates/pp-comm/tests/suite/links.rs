//! What only links between processes do: who moves them on, what they go over, how they end.

use std::time::{Duration, Instant};

use crate::common::{AT_ONCE, BACK, FORTH, Kind, PATIENCE, envelope, floats, floats_of, join_each, meeting, run};
use pp_comm::{Buffer, CommError, RendezvousError, Transports};
use pp_schedule::Rank;

const LINKS: [Kind; 4] = [Kind::Socket, Kind::Shm, Kind::RoughSocket, Kind::RoughShm];

/// Elements of 16 MiB: more than any buffer on the way.
const LARGE: usize = 1 << 22;

#[test]
fn a_channel_says_what_it_goes_over() {
    for (kind, name) in [(Kind::Memory(0), "memory"), (Kind::Socket, "tcp"), (Kind::Shm, "shared memory")] {
        run(kind, 2, &[FORTH], |member| {
            assert_eq!(member.endpoint.transport_of(FORTH), Some(name));
            assert_eq!(member.endpoint.transport_of(BACK), None);
            member.close();
        });
    }
}

/// The source computes, or whatever else it does, until the message has arrived.
#[test]
fn a_large_send_goes_on_while_its_rank_does_something_else() {
    for kind in LINKS {
        let received = meeting(2);
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(LARGE, 2.0)).expect("posted");
                received.wait();
                endpoint.wait_send(ticket).expect("sent");
            } else {
                let ticket = endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(LARGE)).expect("posted");
                assert!(endpoint.wait_recv(ticket).expect("received") == floats(LARGE, 2.0), "{kind:?}");
                received.wait();
            }
            member.close();
        });
    }
}

/// The destination does, until the source is rid of it.
#[test]
fn a_large_receive_goes_on_while_its_rank_does_something_else() {
    for kind in LINKS {
        let sent = meeting(2);
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(LARGE, 3.0)).expect("posted");
                endpoint.wait_send(ticket).expect("sent");
                sent.wait();
            } else {
                let ticket = endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(LARGE)).expect("posted");
                sent.wait();
                assert!(endpoint.wait_recv(ticket).expect("received") == floats(LARGE, 3.0), "{kind:?}");
            }
            member.close();
        });
    }
}

#[test]
fn buffers_come_back_and_are_filled_where_they_lie() {
    let place = |buffer: &Buffer| buffer.as_bytes().expect("on the host").as_ptr() as usize;
    for kind in LINKS {
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            let mut buffer = if endpoint.rank() == Rank(0) { floats(5000, 1.0) } else { floats(5000, 0.0) };
            let first = place(&buffer);
            for step in 0..3 {
                if endpoint.rank() == Rank(0) {
                    let ticket = endpoint.post_send(FORTH, envelope(FORTH, step, 0), buffer).expect("posted");
                    buffer = endpoint.wait_send(ticket).expect("sent");
                } else {
                    let ticket = endpoint.post_recv_into(FORTH, envelope(FORTH, step, 0), buffer).expect("posted");
                    buffer = endpoint.wait_recv(ticket).expect("received");
                }
                assert_eq!((place(&buffer), &buffer), (first, &floats(5000, 1.0)), "{kind:?}");
            }
            member.close();
        });
    }
}

#[test]
fn memory_channels_give_buffers_back_too() {
    for capacity in [0, 1] {
        run(Kind::Memory(capacity), 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(9, 4.0)).expect("posted");
                assert_eq!(endpoint.wait_send(ticket), Ok(floats(9, 4.0)));
            } else {
                let ticket = endpoint.post_recv_into(FORTH, envelope(FORTH, 0, 0), floats(9, 0.0)).expect("posted");
                assert_eq!(endpoint.wait_recv(ticket), Ok(floats(9, 4.0)));
            }
            member.close();
        });
    }
}

/// The source leaves as soon as its send is complete, while much of it is still on its way and the destination goes on asking:
/// the words of further receives must not destroy it.
#[test]
fn a_source_that_leaves_takes_nothing_back() {
    for (kind, len) in LINKS.into_iter().flat_map(|kind| [1000, 1 << 18, 1 << 20].map(|len| (kind, len))) {
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(len, 1.0)).expect("posted");
                endpoint.wait_send(ticket).expect("sent");
                member.close();
                return;
            }
            let first = endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(len)).expect("posted");
            let more = |microbatch| {
                std::thread::sleep(Duration::from_millis(1));
                endpoint.post_recv(FORTH, envelope(FORTH, 0, microbatch), floats_of(len))
            };
            // From some point on the source is gone, and that is said.
            let mut more: Vec<_> = (1..20).map(more).collect();
            assert!(endpoint.wait_recv(first) == Ok(floats(len, 1.0)), "{kind:?} {len}");
            let second = more.swap_remove(0).and_then(|ticket| endpoint.wait_recv(ticket));
            assert!(matches!(second, Err(CommError::PeerLost { rank: Rank(0), .. })), "{kind:?}: {second:?}");
            member.close();
        });
    }
}

/// The source ends in the middle of a message.
#[test]
fn a_message_that_is_cut_off_is_a_loss_at_once() {
    for kind in LINKS {
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(LARGE, 0.0)).expect("posted");
                drop(ticket);
                return;
            }
            let start = Instant::now();
            let ticket = endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(LARGE)).expect("posted");
            let error = endpoint.wait_recv(ticket).expect_err("half of it is missing");
            assert!(matches!(error, CommError::PeerLost { rank: Rank(0), .. }), "{kind:?}: {error}");
            assert!(start.elapsed() < AT_ONCE, "{kind:?}");
        });
    }
}

/// What two ranks that were started differently come to.
#[test]
fn both_ends_agree_on_what_a_link_goes_over_or_both_say_why_not() {
    let mixed = |first, second| {
        join_each(PATIENCE, [first, second].map(|transports| (transports, None)).to_vec(), &[FORTH], |joined| {
            let member = joined?.member;
            let name = member.endpoint.transport_of(FORTH);
            member.close();
            Ok::<_, RendezvousError>(name)
        })
    };
    use Transports::{Auto, SharedMemory, Socket};
    let agreements = [
        (Auto, Auto, "shared memory"),
        (Auto, SharedMemory, "shared memory"),
        (Auto, Socket, "tcp"),
        (Socket, Auto, "tcp"),
    ];
    for (first, second, name) in agreements {
        let names = mixed(first, second).into_iter().map(|name| name.expect("they agree"));
        assert_eq!(names.collect::<Vec<_>>(), [Some(name); 2], "{first:?} {second:?}");
    }
    for (first, second) in [(Socket, SharedMemory), (SharedMemory, Socket)] {
        let start = Instant::now();
        for refused in mixed(first, second) {
            let text = refused.expect_err("they cannot agree").to_string();
            // The one that learns of it second may first learn that the other has left.
            assert!(text.contains("sockets only") || text.contains("lost"), "{text}");
        }
        assert!(start.elapsed() < AT_ONCE);
    }
}
