//! Megatron's point-to-point methods over a ring: what they refuse, and how messages find their receives.

use std::time::Duration;

use pp_comm::mesh::{Axis, Mesh};
use pp_comm::p2p::{Contents, Item, Outbox, Outgoing, P2pError, Part, RingComm, RingSpec, Tag};
use pp_comm::{Boundary, Buffer, CommError, DType, Group};
use pp_schedule::lower::megatron::{Issue, Overlap};
use pp_schedule::{Channel, Microbatch, Placement, Rank, Stage};

use crate::common::{ALL, Kind, meeting, run};

/// A deadline that is meant to pass.
const SHORT: Duration = Duration::from_millis(300);

fn pair(me: Rank) -> Group {
    Group::all(2, me).expect("one of the two")
}

fn floats_up_to(shape: &[usize]) -> Part {
    Part::Tensor(Boundary::new(DType::F32, shape).expect("a small shape"))
}

fn floats(len: usize, seed: f32) -> Item {
    Item::Tensor(crate::common::floats(len, seed))
}

/// Two ranks with `vp` chunks each.
fn spec(me: Rank, vp: u32, contents: &Contents) -> RingSpec {
    RingSpec {
        group: pair(me),
        placement: Placement::looped(2, vp),
        issue: Issue::EvenOdd,
        overlap: Overlap::Steady,
        forward: contents.clone(),
        backward: contents.clone(),
    }
}

fn ring(me: Rank, vp: u32, contents: &Contents) -> RingComm {
    RingComm::new(spec(me, vp, contents)).expect("a ring")
}

const fn tag(stage: u32, microbatch: u32) -> Tag {
    Tag { step: 4, stage: Stage(stage), microbatch: Microbatch(microbatch) }
}

fn made(stage: u32, microbatch: u32, items: Vec<Item>) -> Outgoing {
    Outgoing { tag: tag(stage, microbatch), items }
}

fn ring_channels() -> Vec<Channel> {
    pair(Rank(0)).ring_channels()
}

/// What a pair of ranks gets where rank 0 sends `items` and thinks that `sent` was agreed, and rank 1 `received`.
fn mismatch(kind: Kind, sent: &Contents, items: &[Item], received: &Contents) -> P2pError {
    let told = meeting(2);
    let mut errors = run(kind, 2, &ring_channels(), |mut member| {
        let me = member.endpoint.rank();
        member.endpoint.set_deadline(SHORT);
        let mut ring = ring(me, 1, if me == Rank(0) { sent } else { received });
        let error = if me == Rank(0) {
            // Whether it comes through is for the receiver to say.
            let _ = ring.send_forward(&mut member.endpoint, made(0, 0, items.to_vec()));
            None
        } else {
            member.endpoint.set_deadline(crate::common::PATIENCE);
            ring.recv_forward(&mut member.endpoint, tag(1, 0)).err()
        };
        told.wait();
        error
    });
    errors.pop().flatten().expect("rank 1 minds")
}

#[test]
fn another_shape_or_type_than_was_sent_is_an_error_that_names_both() {
    let sent = Contents::agreed(vec![floats_up_to(&[3])]);
    for kind in ALL.into_iter().filter(|kind| kind.sends_boundaries()) {
        for (dtype, shape) in
            [(DType::F32, vec![4]), (DType::F32, vec![5]), (DType::F64, vec![3]), (DType::F32, vec![])]
        {
            let agreed = Boundary::new(dtype, &shape).expect("a small shape");
            let error = mismatch(kind, &sent, &[floats(3, 0.0)], &Contents::tensor(agreed.clone()));
            let P2pError::Comm(CommError::WrongBoundary { expected, found, .. }) = &error else { panic!("{error}") };
            assert_eq!((expected, found.shape()), (&agreed, &[3][..]));
            let text = error.to_string();
            assert!(text.contains("f32 [3]") && text.contains(&agreed.to_string()), "{text}");
        }
    }
}

#[test]
fn another_number_of_items_is_an_error_that_names_both() {
    let parts = |n: usize| vec![floats_up_to(&[3]); n];
    let kinds = ALL.into_iter().filter(|kind| kind.sends_boundaries());
    for (kind, (sent, received)) in kinds.flat_map(|kind| [(1, 2), (3, 2)].map(|numbers| (kind, numbers))) {
        let items = vec![floats(3, 0.0); sent];
        for of in [Contents::agreed, Contents::up_to] {
            let error = mismatch(kind, &of(parts(sent)), &items, &of(parts(received)));
            let P2pError::Arity { agreed, given, .. } = error else { panic!("{kind:?}: {error}") };
            assert_eq!((agreed, given), (received, sent), "{kind:?}");
        }
    }
}

#[test]
fn a_shape_beyond_the_bound_is_refused_by_the_sender_and_by_the_receiver() {
    let bound = |len: usize| Contents::up_to(vec![floats_up_to(&[len])]);
    for kind in ALL {
        let error = mismatch(kind, &bound(9), &[floats(9, 0.0)], &bound(8));
        assert!(matches!(&error, P2pError::BeyondBound { found, .. } if *found == [9]), "{kind:?}: {error}");
        assert!(error.to_string().contains("at most f32 [8], but its shape is [9]"), "{error}");
    }
    run(Kind::Memory(0), 2, &ring_channels(), |mut member| {
        let mut ring = ring(member.endpoint.rank(), 2, &bound(8));
        let stage = member.endpoint.rank().0;
        let error = ring.send_forward(&mut member.endpoint, made(stage, 0, vec![floats(9, 0.0)]));
        assert!(matches!(error, Err(P2pError::BeyondBound { .. })), "{error:?}");
        let error = ring.send_forward(&mut member.endpoint, made(stage, 0, vec![Item::Integer(9)]));
        assert!(matches!(error, Err(P2pError::WrongItem { part: 0, given: Part::Integer, .. })), "{error:?}");
        let error = ring.send_forward(&mut member.endpoint, made(stage, 0, vec![]));
        assert!(matches!(error, Err(P2pError::Arity { agreed: 1, given: 0, .. })), "{error:?}");
        member.close();
    });
}

#[test]
fn at_the_pipelines_ends_nothing_is_received_or_sent() {
    let contents = Contents::agreed(vec![floats_up_to(&[2])]);
    let item = || vec![floats(2, 0.0)];
    // Nobody is on the other side of any of these; over memory of capacity 0 each would end in a deadline.
    run(Kind::Memory(0), 2, &ring_channels(), |mut member| {
        let (endpoint, me) = (&mut member.endpoint, member.control.rank());
        endpoint.set_deadline(SHORT);
        let mut ring = ring(me, 2, &contents);
        if me == Rank(0) {
            assert_eq!(ring.recv_forward(endpoint, tag(0, 0)), Ok(None));
            assert_eq!(ring.send_backward(endpoint, made(0, 0, item())), Ok(()));
            assert_eq!(ring.send_backward_recv_forward(endpoint, made(0, 0, item()), tag(0, 1)), Ok(None));
            // With chunk 1 the same rank has an input, which here nobody sends.
            let error = ring.recv_forward(endpoint, tag(2, 0));
            assert!(matches!(error, Err(P2pError::Comm(CommError::Deadline { .. }))), "{error:?}");
        } else {
            assert_eq!(ring.recv_backward(endpoint, tag(3, 0)), Ok(None));
            assert_eq!(ring.send_forward(endpoint, made(3, 0, item())), Ok(()));
            assert_eq!(ring.send_forward_recv_backward(endpoint, made(3, 0, item()), tag(3, 0)), Ok(None));
            let nothing = ring.send_forward_recv_forward(endpoint, Some(made(3, 0, item())), None);
            assert_eq!(nothing, Ok(None));
            let started = ring.start_send_forward_recv_forward(endpoint, Some(made(3, 0, item())), None);
            let started = started.expect("nothing to start");
            assert!(started.send.is_none() && started.receive.is_none());
        }
        member.control.barrier().expect("both are done");
        member.close();
    });
}

#[test]
fn a_communicator_that_cannot_work_is_not_made() {
    let contents = Contents::agreed(vec![floats_up_to(&[2])]);
    let base = || spec(Rank(0), 2, &contents);
    for issue in [Issue::Batched, Issue::Ring] {
        let error = RingComm::new(RingSpec { issue, ..base() }).expect_err("they do not go together");
        assert_eq!(error, P2pError::OverlapNeedsEvenOdd { issue });
        assert!(RingComm::new(RingSpec { issue, overlap: Overlap::Off, ..base() }).is_ok());
    }
    for placement in [Placement::v(2), Placement::looped(3, 1)] {
        let error = RingComm::new(RingSpec { placement, ..base() }).expect_err("no ring of two");
        assert_eq!(error, P2pError::NoRing { placement, n_ranks: 2 });
    }
    for n_items in [0, 65_537] {
        let contents = Contents::agreed(vec![Part::Integer; n_items]);
        let error = RingComm::new(RingSpec { backward: contents, ..base() }).expect_err("none, or too many");
        assert!(matches!(error, P2pError::Items { given, most: 65_536 } if given == n_items), "{error}");
    }
    let alone =
        |vp| RingSpec { group: Group::all(1, Rank(0)).expect("rank 0"), placement: Placement::looped(1, vp), ..base() };
    assert!(RingComm::new(alone(1)).is_ok());
    assert!(matches!(RingComm::new(alone(2)), Err(P2pError::NoRing { .. })));
}

#[test]
fn a_call_about_another_ranks_stage_or_that_may_not_return_early_is_refused() {
    let contents = Contents::agreed(vec![floats_up_to(&[2])]);
    run(Kind::Memory(0), 2, &ring_channels(), |mut member| {
        let (endpoint, me) = (&mut member.endpoint, member.control.rank());
        let mut ring = ring(me, 2, &contents);
        for stage in [1 - me.0, 4] {
            let error = ring.recv_forward(endpoint, tag(stage, 0)).expect_err("not here");
            let P2pError::NotHere { has, .. } = &error else { panic!("{error}") };
            assert_eq!(*has, [Stage(me.0), Stage(me.0 + 2)]);
        }
        let mut waiting = RingComm::new(RingSpec { overlap: Overlap::Off, ..spec(me, 2, &contents) }).expect("a ring");
        let error = waiting.start_send_forward_recv_forward(endpoint, None, Some(tag(me.0 + 2, 0)));
        assert!(matches!(error, Err(P2pError::OverlapIsOff)), "{error:?}");
        member.close();
    });
}

/// What is started and never waited for takes its turn on the channel all the same: what comes after finds its receive.
#[test]
fn a_handle_that_is_dropped_takes_nothing_from_others() {
    for (kind, varies) in ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let contents = if varies { Contents::up_to } else { Contents::agreed }(vec![floats_up_to(&[6]), Part::Integer]);
        let items = |m: u32| vec![floats(6, m as f32), Item::Integer(i64::from(m) - 7)];
        run(kind, 2, &ring_channels(), |mut member| {
            let (endpoint, me) = (&mut member.endpoint, member.control.rank());
            let mut ring = ring(me, 1, &contents);
            for m in 0..4 {
                if me == Rank(0) {
                    let started = ring.start_send_forward_recv_forward(endpoint, Some(made(0, m, items(m))), None);
                    let send = started.expect("posted").send.expect("a send");
                    if m % 2 == 1 {
                        ring.wait_send(endpoint, send).expect("sent");
                    }
                } else {
                    let started = ring.start_send_forward_recv_forward(endpoint, None, Some(tag(1, m)));
                    let receive = started.expect("posted").receive.expect("a receive");
                    if m % 2 == 1 {
                        assert_eq!(ring.wait_receive(endpoint, receive), Ok(items(m)), "{kind:?}, {varies}");
                    }
                }
            }
            member.control.barrier().expect("both are done");
            member.close();
        });
    }
}

/// Receives may be waited for in any order, also where shapes are sent ahead on the same channel.
#[test]
fn receives_are_waited_for_in_any_order_whatever_their_shapes() {
    let contents = Contents::up_to(vec![floats_up_to(&[9])]);
    let items = |m: u32| vec![floats([5, 7, 3, 9, 0][m as usize], m as f32)];
    for kind in ALL {
        run(kind, 2, &ring_channels(), |mut member| {
            let (endpoint, me) = (&mut member.endpoint, member.control.rank());
            let mut ring = ring(me, 1, &contents);
            if me == Rank(0) {
                let post = |m| {
                    let started = ring.start_send_forward_recv_forward(endpoint, Some(made(0, m, items(m))), None);
                    started.expect("posted").send.expect("a send")
                };
                let sends: Vec<_> = (0..5).map(post).collect();
                sends.into_iter().for_each(|send| ring.wait_send(endpoint, send).expect("sent"));
            } else {
                let post = |m| {
                    let started = ring.start_send_forward_recv_forward(endpoint, None, Some(tag(1, m)));
                    started.expect("posted").receive.expect("a receive")
                };
                let mut receives: Vec<_> = (0..5).map(post).collect();
                while let Some(receive) = receives.pop() {
                    let m = receives.len() as u32;
                    assert_eq!(ring.wait_receive(endpoint, receive), Ok(items(m)), "{kind:?}");
                }
            }
            member.close();
        });
    }
}

/// An activation and a gradient per microbatch: both are held until the turn after the backward.
#[test]
fn sends_of_a_microbatch_are_let_go_together_one_turn_after_its_backward() {
    let contents = Contents::agreed(vec![floats_up_to(&[4])]);
    let items = |m: u32| vec![floats(4, m as f32)];
    for kind in ALL {
        run(kind, 2, &ring_channels(), |mut member| {
            let (endpoint, me) = (&mut member.endpoint, member.control.rank());
            let mut ring = ring(me, 2, &contents);
            let (mut outbox, mut n_done) = (Outbox::default(), 0);
            // Each rank sends an activation from its first chunk and a gradient from its second, round the ring.
            for m in 0..4 {
                let (out, back) = (made(me.0, m, items(m)), made(me.0 + 2, m, items(m)));
                let takes = if me == Rank(0) { 2 } else { 1 };
                let forward = ring.start_send_forward_recv_forward(endpoint, Some(out), Some(tag(takes, m)));
                let forward = forward.expect("posted");
                let backward = ring.start_send_backward_recv_backward(endpoint, Some(back), Some(tag(takes, m)));
                let backward = backward.expect("posted");
                [forward.send, backward.send].into_iter().flatten().for_each(|send| outbox.keep(send));
                let released = outbox.backward_posted(&mut ring, endpoint, Microbatch(m)).expect("sent");
                n_done += released;
                assert_eq!((released, outbox.n_held()), (if m == 0 { 0 } else { 2 }, 2), "{kind:?}");
                for receive in [forward.receive, backward.receive].into_iter().flatten() {
                    assert_eq!(ring.wait_receive(endpoint, receive), Ok(items(m)), "{kind:?}");
                }
            }
            n_done += outbox.finish(&mut ring, endpoint).expect("sent");
            assert_eq!(n_done, 8);
            member.close();
        });
    }
}

/// Two pipelines side by side, with messages of different length: they share nothing, shapes included.
#[test]
fn pipelines_side_by_side_do_not_mix() {
    let mesh = Mesh::new(2, 1, 2).expect("a small mesh");
    let channels: Vec<Channel> = [0, 1]
        .into_iter()
        .flat_map(|rank| mesh.group(Axis::Pipeline, Rank(rank)).expect("a pipeline").ring_channels())
        .collect();
    let contents = Contents::up_to(vec![floats_up_to(&[20])]);
    for kind in ALL {
        run(kind, 4, &channels, |mut member| {
            let (endpoint, me) = (&mut member.endpoint, member.control.rank());
            let at = mesh.coordinates(me).expect("a rank");
            let group = mesh.group(Axis::Pipeline, me).expect("a pipeline");
            let mut ring = RingComm::new(RingSpec { group, ..spec(Rank(0), 1, &contents) }).expect("a ring");
            for m in 0..6 {
                let items = |m: u32| vec![floats((m + 10 * at.tp) as usize, at.tp as f32)];
                if at.pp == 0 {
                    ring.send_forward(endpoint, made(0, m, items(m))).expect("sent");
                } else {
                    assert_eq!(ring.recv_forward(endpoint, tag(1, m)), Ok(Some(items(m))), "{kind:?}");
                }
            }
            member.close();
        });
    }
}

#[test]
fn tensors_come_out_of_items_and_integers_do_not() {
    let buffer = Buffer::i64(&[], vec![3]).expect("a scalar");
    assert_eq!(Item::Tensor(buffer.clone()).into_tensor(), Some(buffer));
    assert_eq!(Item::Integer(3).into_tensor(), None);
}
