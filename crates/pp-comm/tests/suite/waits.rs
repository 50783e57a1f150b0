//! What is waited for in another order than it was started in, or not at all.

use std::time::{Duration, Instant};

use pp_comm::p2p::{Contents, Item, Outgoing, P2pError, Part, RingComm, RingSpec, Tag};
use pp_comm::{CommError, Group, Member, MemorySpec, memory_fabric};
use pp_schedule::lower::megatron::{Issue, Overlap};
use pp_schedule::{Microbatch, Placement, Rank, Stage};

use crate::common::{AT_ONCE, BACK, EVERY, FORTH, Kind, envelope, floats, floats_of, meeting, run, run_within};

/// Elements of 16 MiB: more than any buffer on the way.
const LARGE: usize = 1 << 22;

const fn tag(stage: u32, microbatch: u32) -> Tag {
    Tag { step: 0, stage: Stage(stage), microbatch: Microbatch(microbatch) }
}

fn made(stage: u32, microbatch: u32) -> Outgoing {
    Outgoing { tag: tag(stage, microbatch), items: vec![Item::Tensor(floats(8, 1.0))] }
}

/// Runs a body on two ranks of two chunks each, with agreed shapes and with varying ones, over everything; what works with
/// some works with all.
fn on_every_ring(body: impl Fn(&mut RingComm, &mut Member) -> Result<(), P2pError> + Sync) {
    let channels = Group::all(2, Rank(0)).expect("rank 0").ring_channels();
    for (kind, of) in EVERY.into_iter().flat_map(|kind| [Contents::agreed, Contents::up_to].map(|of| (kind, of))) {
        let contents = of(vec![Part::Tensor(floats_of(8))]);
        let varies = if contents == Contents::agreed(contents.parts().to_vec()) { "agreed" } else { "varying" };
        let done = run_within(AT_ONCE, kind, 2, &channels, |mut member| {
            let group = Group::all(2, member.endpoint.rank()).expect("one of the two");
            let spec = RingSpec {
                group,
                placement: Placement::looped(2, 2),
                issue: Issue::EvenOdd,
                overlap: Overlap::Steady,
                forward: contents.clone(),
                backward: contents.clone(),
            };
            let done = body(&mut RingComm::new(spec).expect("a ring"), &mut member);
            // Whatever came of it, the other one is not cut short.
            let _ = member.control.barrier();
            member.close();
            done
        });
        assert_eq!(done, [Ok(()), Ok(())], "{kind:?}, {varies}");
    }
}

#[test]
fn a_receive_of_one_direction_does_not_hold_up_the_other() {
    on_every_ring(|ring, member| {
        let endpoint = &mut member.endpoint;
        if endpoint.rank() == Rank(0) {
            let gradient = ring.start_send_backward_recv_backward(endpoint, None, Some(tag(0, 0)))?.receive;
            let activation = ring.start_send_forward_recv_forward(endpoint, None, Some(tag(2, 0)))?.receive;
            for receive in [activation, gradient] {
                ring.wait_receive(endpoint, receive.expect("started"))?;
            }
        } else {
            ring.send_backward(endpoint, made(1, 0))?;
            ring.send_forward(endpoint, made(1, 0))?;
        }
        Ok(())
    });
}

#[test]
fn a_send_does_not_wait_for_the_answer_to_a_later_one() {
    on_every_ring(|ring, member| {
        let endpoint = &mut member.endpoint;
        if endpoint.rank() == Rank(0) {
            let answers = [0, 1].map(|m| ring.start_send_forward_recv_forward(endpoint, None, Some(tag(2, m))));
            for m in 0..2 {
                let send = ring.start_send_forward_recv_forward(endpoint, Some(made(0, m)), None)?.send;
                ring.wait_send(endpoint, send.expect("started"))?;
            }
            for answer in answers {
                ring.wait_receive(endpoint, answer?.receive.expect("started"))?;
            }
        } else {
            ring.recv_forward(endpoint, tag(1, 0))?;
            ring.recv_forward(endpoint, tag(1, 1))?;
            ring.send_forward(endpoint, made(1, 0))?;
            ring.send_forward(endpoint, made(1, 1))?;
        }
        Ok(())
    });
}

/// Whatever its size: what was posted and asked for arrives although nobody waited for it before its rank left.
#[test]
fn a_send_that_nobody_waits_for_arrives_although_its_rank_leaves() {
    for (kind, len) in EVERY.into_iter().flat_map(|kind| [16, 1 << 18, LARGE].map(|len| (kind, len))) {
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                drop(endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(len, 1.0)).expect("posted"));
                member.control.barrier().expect("both have posted");
            } else {
                let receive = endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(len)).expect("posted");
                member.control.barrier().expect("both have posted");
                let received = member.endpoint.wait_recv(receive);
                assert!(received == Ok(floats(len, 1.0)), "{kind:?} {len}: {:?}", received.err());
            }
            member.close();
        });
    }
}

/// One that nobody asks for holds up its rank for a moment only.
#[test]
fn a_send_that_nobody_asks_for_does_not_keep_its_rank() {
    for kind in EVERY {
        run(kind, 2, &[FORTH], |mut member| {
            if member.endpoint.rank() == Rank(0) {
                let endpoint = &mut member.endpoint;
                drop(endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(LARGE, 1.0)).expect("posted"));
                let start = Instant::now();
                member.endpoint.close();
                assert!(start.elapsed() < AT_ONCE, "{kind:?}");
                member.control.barrier().expect("both are there");
                member.control.close();
            } else {
                member.control.barrier().expect("both are there");
                member.close();
            }
        });
    }
}

#[test]
fn after_a_wrong_message_all_transports_say_the_same_of_what_follows() {
    for kind in EVERY.into_iter().filter(|kind| kind.sends_boundaries()) {
        let posted = meeting(2);
        let errors = run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                posted.wait();
                let post = |m| endpoint.post_send(FORTH, envelope(FORTH, 0, m), floats(4, 1.0)).expect("posted");
                let sends = [0, 1].map(post);
                // The receiver minds, not the sender.
                let _ = sends.map(|send| endpoint.wait_send(send));
                posted.wait();
                member.close();
                return Vec::new();
            }
            let receives = [5, 4].map(|len| {
                let m = u32::from(len == 4);
                endpoint.post_recv(FORTH, envelope(FORTH, 0, m), floats_of(len)).expect("posted")
            });
            posted.wait();
            let [wrong, right] = receives;
            let mut errors = [right, wrong].map(|receive| endpoint.wait_recv(receive).expect_err("no more")).to_vec();
            errors.extend(endpoint.post_recv(FORTH, envelope(FORTH, 0, 2), floats_of(4)).err());
            posted.wait();
            member.close();
            errors
        });
        let [first, ..] = &errors[1][..] else { panic!("{errors:?}") };
        assert!(matches!(first, CommError::WrongBoundary { expected, .. } if *expected == floats_of(5)), "{first}");
        assert_eq!(errors[1], vec![first.clone(); 3], "{kind:?}");
    }
}

#[test]
fn a_ticket_is_good_for_its_own_endpoint_only() {
    let members = || {
        let spec = MemorySpec { n_ranks: 2, channels: vec![FORTH], capacity: 4, deadline: Duration::from_secs(5) };
        memory_fabric(spec).expect("both exist").into_iter().map(pp_comm::MemoryBuilder::build).collect::<Vec<_>>()
    };
    let (mut ours, mut theirs) = (members(), members());
    let send = |members: &mut [Member], seed| {
        members[0].endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(1, seed)).expect("posted")
    };
    let receive = |members: &mut [Member]| {
        members[1].endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(1)).expect("posted")
    };
    let sends = [send(&mut ours, 1.0), send(&mut theirs, 2.0)];
    let receives = [receive(&mut ours), receive(&mut theirs)];
    let [our_send, their_send] = sends;
    let [our_receive, their_receive] = receives;
    let refused = theirs[0].endpoint.wait_send(our_send).expect_err("of another");
    assert!(matches!(refused, CommError::ForeignTicket { rank: Rank(0), .. }), "{refused}");
    let refused = theirs[1].endpoint.wait_recv(our_receive).expect_err("of another");
    assert!(refused.to_string().contains("another endpoint posted it"), "{refused}");
    assert_eq!(theirs[0].endpoint.wait_send(their_send), Ok(floats(1, 2.0)));
    assert_eq!(theirs[1].endpoint.wait_recv(their_receive), Ok(floats(1, 2.0)));
}

/// Who leaves is told of in the same words by all links, whatever was on the way.
#[test]
fn a_peer_that_left_is_told_of_in_the_same_words() {
    for kind in [Kind::Socket, Kind::Shm] {
        for (len, posts) in [(16, true), (LARGE, true), (LARGE, false)] {
            let gone = meeting(2);
            run(kind, 2, &[FORTH, BACK], |mut member| {
                let endpoint = &mut member.endpoint;
                if endpoint.rank() == Rank(1) {
                    if posts {
                        drop(endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(len)).expect("posted"));
                    }
                    drop(endpoint.post_send(BACK, envelope(BACK, 0, 0), floats(16, 0.0)).expect("posted"));
                    member.endpoint.close();
                    gone.wait();
                    gone.wait();
                    return member.control.close();
                }
                gone.wait();
                let waits = (0..3).map(|m| {
                    let send = endpoint.post_send(FORTH, envelope(FORTH, 0, m), floats(len, 1.0))?;
                    endpoint.wait_send(send)
                });
                let error = waits.filter_map(Result::err).last().expect("nobody is there");
                let CommError::PeerLost { rank: Rank(1), reason } = error else { panic!("{kind:?}: {error}") };
                assert_eq!(reason, "it closed the connection", "{kind:?} {len}");
                gone.wait();
                member.close();
            });
        }
    }
}
