//! One body of tests that every endpoint must pass: memory with capacity 0, 1 and 4, sockets and shared memory, and the latter two
//! on rough links.

use std::time::{Duration, Instant};

use crate::common::{AT_ONCE, BACK, EVERY, FORTH, Kind, channel, envelope, floats, floats_of, meeting, run};
use pp_comm::{Boundary, Buffer, CommError, DType, Endpoint};
use pp_schedule::{Channel, Direction, Rank, Role};

/// A deadline that is meant to pass.
const SHORT: Duration = Duration::from_millis(300);

/// Crossed sends: elements of 64 B, 1 MiB and 64 MiB.
const SIZES: [usize; 3] = [16, 1 << 18, 1 << 24];

fn out_and_in(endpoint: &Endpoint) -> (Channel, Channel) {
    if endpoint.rank() == Rank(0) { (FORTH, BACK) } else { (BACK, FORTH) }
}

#[test]
fn messages_keep_their_order_and_waits_need_not() {
    for kind in EVERY {
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            let microbatches = 0..20_u32;
            if endpoint.rank() == Rank(0) {
                let post = |m| endpoint.post_send(FORTH, envelope(FORTH, 3, m), floats(m as usize, m as f32));
                let mut tickets: Vec<_> = microbatches.map(post).collect::<Result<_, _>>().expect("posted");
                while let Some(ticket) = tickets.pop() {
                    endpoint.wait_send(ticket).expect("sent");
                }
            } else {
                let post = |m| endpoint.post_recv(FORTH, envelope(FORTH, 3, m), floats_of(m as usize));
                let mut tickets: Vec<_> = microbatches.map(post).collect::<Result<_, _>>().expect("posted");
                while let Some(ticket) = tickets.pop() {
                    let m = tickets.len();
                    assert_eq!(endpoint.wait_recv(ticket), Ok(floats(m, m as f32)), "{kind:?}");
                }
            }
            member.close();
        });
    }
}

#[test]
fn every_element_type_comes_through() {
    let buffers = || {
        let shape = [2, 1, 2];
        [
            Buffer::f32(&shape, vec![1.5, -0.0, f32::INFINITY, 1e-40]),
            Buffer::f64(&shape, vec![1.5, -0.0, f64::MIN_POSITIVE, 1e300]),
            Buffer::i64(&shape, vec![i64::MIN, -1, 0, i64::MAX]),
            Buffer::bf16(&shape, vec![0x3f80, 0x8000, 0x7f80, 1]),
            Buffer::i64(&[], vec![42]),
            Buffer::f32(&[3, 0], vec![]),
        ]
        .map(|buffer| buffer.expect("as long as its shape"))
    };
    for kind in EVERY {
        run(kind, 2, &[FORTH], |mut member| {
            for (buffer, m) in buffers().into_iter().zip(0..) {
                let envelope = envelope(FORTH, 0, m);
                if member.endpoint.rank() == Rank(0) {
                    let ticket = member.endpoint.post_send(FORTH, envelope, buffer).expect("posted");
                    member.endpoint.wait_send(ticket).expect("sent");
                } else {
                    let ticket = member.endpoint.post_recv(FORTH, envelope, buffer.boundary().clone());
                    let received = member.endpoint.wait_recv(ticket.expect("posted")).expect("received");
                    assert_eq!((received.boundary(), received.as_bytes()), (buffer.boundary(), buffer.as_bytes()));
                }
            }
            member.close();
        });
    }
}

#[test]
fn crossed_sends_work_when_receives_are_posted_before_the_wait() {
    for (kind, size) in EVERY.into_iter().flat_map(|kind| SIZES.map(|size| (kind, size))) {
        run(kind, 2, &[FORTH, BACK], |mut member| {
            let endpoint = &mut member.endpoint;
            let (out, back) = out_and_in(endpoint);
            let send = endpoint.post_send(out, envelope(out, 0, 0), floats(size, out.source.0 as f32));
            let receive = endpoint.post_recv(back, envelope(back, 0, 0), floats_of(size));
            endpoint.wait_send(send.expect("posted")).expect("sent");
            let received = endpoint.wait_recv(receive.expect("posted")).expect("received");
            assert!(received == floats(size, back.source.0 as f32), "{kind:?}, {size} elements");
            member.close();
        });
    }
}

/// Both ranks wait for their send before they post their receive. Without buffers that is a deadlock at every size, and every
/// rank says what it waits for. Between processes there are buffers, of the system or in the ring, but they decide nothing. With
/// memory channels that hold messages it works at every size.
#[test]
fn crossed_sends_waited_for_too_early_get_the_same_verdict_at_every_size() {
    for (kind, size) in EVERY.into_iter().flat_map(|kind| SIZES.map(|size| (kind, size))) {
        assert_eq!(crossed_and_waited_early(kind, size), !kind.buffers(), "{kind:?}, {size} elements");
    }
}

/// Whether it deadlocks.
fn crossed_and_waited_early(kind: Kind, size: usize) -> bool {
    let both_failed = meeting(2);
    let stuck = run(kind, 2, &[FORTH, BACK], |mut member| {
        let buffer = floats(size, 0.0);
        // Whoever comes late finds a rank whose deadline has passed.
        member.control.barrier().expect("both are here");
        let endpoint = &mut member.endpoint;
        endpoint.set_deadline(SHORT);
        let (out, back) = out_and_in(endpoint);
        let send = endpoint.post_send(out, envelope(out, 5, 0), buffer).expect("posted");
        let sent = endpoint.wait_send(send);
        both_failed.wait();
        if let Err(error) = &sent {
            let CommError::Deadline { operation, limit } = error else { panic!("{error}") };
            assert_eq!((operation.role, operation.peer(), *limit), (Role::Send, out.destination, SHORT));
            let text = format!("send to rank {} of the ", out.destination);
            assert!(error.to_string().contains(&text) && error.to_string().contains("step 5"), "{error}");
            return true;
        }
        endpoint.set_deadline(crate::common::PATIENCE);
        let receive = endpoint.post_recv(back, envelope(back, 5, 0), floats_of(size)).expect("posted");
        endpoint.wait_recv(receive).expect("received");
        member.close();
        false
    });
    assert_eq!(stuck[0], stuck[1]);
    stuck[0]
}

#[test]
fn an_unposted_channel_does_not_hold_up_another() {
    let other = channel(0, 1, Direction::Backward);
    for kind in EVERY {
        run(kind, 2, &[FORTH, other], |mut member| {
            let endpoint = &mut member.endpoint;
            let (large, small) = (envelope(FORTH, 0, 0), envelope(other, 0, 0));
            if endpoint.rank() == Rank(0) {
                let first = endpoint.post_send(FORTH, large, floats(SIZES[2], 0.0)).expect("posted");
                let second = endpoint.post_send(other, small, floats(4, 1.0)).expect("posted");
                endpoint.wait_send(second).expect("sent");
                endpoint.wait_send(first).expect("sent");
            } else {
                let second = endpoint.post_recv(other, small, floats_of(4)).expect("posted");
                assert_eq!(endpoint.wait_recv(second), Ok(floats(4, 1.0)));
                let first = endpoint.post_recv(FORTH, large, floats_of(SIZES[2])).expect("posted");
                endpoint.wait_recv(first).expect("received");
            }
            member.close();
        });
    }
}

/// Rank 0 sends 3 elements of `f32`; rank 1 expects them in another shape, must say both, and neither may hang.
#[test]
fn another_shape_than_agreed_is_an_error_that_names_both() {
    for kind in EVERY {
        let agreed = Boundary::new(DType::F32, &[1, 3]).expect("a small shape");
        let told = meeting(2);
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(3, 0.0));
                let sent = ticket.and_then(|ticket| endpoint.wait_send(ticket));
                assert!(sent.is_ok() || kind.may_tell_senders(), "it is the receiver who minds: {sent:?}");
            } else {
                let ticket = endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), agreed.clone()).expect("posted");
                let error = endpoint.wait_recv(ticket).expect_err("something else was sent");
                let CommError::WrongBoundary { channel, expected, found, .. } = &error else { panic!("{error}") };
                assert_eq!((channel, expected, found), (&FORTH, &agreed, &floats_of(3)));
                let text = error.to_string();
                assert!(text.contains(&agreed.to_string()) && text.contains("f32 [3]"), "{text}");
                assert!(text.contains("from rank 0 to rank 1"), "{text}");
            }
            told.wait();
        });
    }
}

#[test]
fn another_message_than_expected_is_an_error_that_names_both() {
    let mut other_stage = envelope(FORTH, 7, 2);
    other_stage.message.stage.0 = 3;
    let mut other_direction = envelope(FORTH, 7, 2);
    other_direction.message.direction = Direction::Backward;
    let wrong = [envelope(FORTH, 8, 2), envelope(FORTH, 7, 1), other_stage, other_direction];
    for (kind, found) in EVERY.into_iter().flat_map(|kind| wrong.map(|wrong| (kind, wrong))) {
        let (expected, told) = (envelope(FORTH, 7, 2), meeting(2));
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, found, floats(3, 0.0));
                let sent = ticket.and_then(|ticket| endpoint.wait_send(ticket));
                assert!(sent.is_ok() || kind.may_tell_senders(), "it is the receiver who minds: {sent:?}");
            } else {
                let ticket = endpoint.post_recv(FORTH, expected, floats_of(3)).expect("posted");
                let error = endpoint.wait_recv(ticket).expect_err("something else was sent");
                assert_eq!(
                    error,
                    CommError::WrongMessage { channel: FORTH, expected: expected.into(), found: found.into() }
                );
                let text = error.to_string();
                assert!(text.contains(&expected.to_string()) && text.contains(&found.to_string()), "{text}");
            }
            told.wait();
        });
    }
}

/// A message sent twice stands where the next one is expected.
#[test]
fn a_duplicated_message_is_an_error_at_once() {
    for kind in EVERY {
        let told = meeting(2);
        run(kind, 2, &[FORTH], |mut member| {
            let (endpoint, start) = (&mut member.endpoint, Instant::now());
            let [first, second] = [0, 1].map(|microbatch| envelope(FORTH, 2, microbatch));
            if endpoint.rank() == Rank(0) {
                for _ in 0..2 {
                    let ticket = endpoint.post_send(FORTH, first, floats(6, 0.0));
                    let sent = ticket.and_then(|ticket| endpoint.wait_send(ticket));
                    assert!(sent.is_ok() || kind.may_tell_senders(), "it is the receiver who minds: {sent:?}");
                }
            } else {
                let tickets = [first, second].map(|e| endpoint.post_recv(FORTH, e, floats_of(6)).expect("posted"));
                let [first_come, second_come] = tickets.map(|ticket| endpoint.wait_recv(ticket));
                assert_eq!(first_come, Ok(floats(6, 0.0)), "{kind:?}");
                let (expected, found) = (second.into(), first.into());
                assert_eq!(second_come, Err(CommError::WrongMessage { channel: FORTH, expected, found }), "{kind:?}");
            }
            assert!(start.elapsed() < AT_ONCE, "{kind:?}");
            told.wait();
        });
    }
}

#[test]
fn a_lost_message_ends_in_a_deadline_that_names_it() {
    for kind in EVERY {
        let done = meeting(2);
        run(kind, 2, &[FORTH], |mut member| {
            if member.endpoint.rank() == Rank(1) {
                member.endpoint.set_deadline(SHORT);
                let ticket = member.endpoint.post_recv(FORTH, envelope(FORTH, 9, 4), floats_of(2)).expect("posted");
                let error = member.endpoint.wait_recv(ticket).expect_err("nothing was sent");
                let CommError::Deadline { operation, .. } = error else { panic!("{error}") };
                assert_eq!((operation.role, operation.peer()), (Role::Receive, Rank(0)));
                assert_eq!(operation.label, envelope(FORTH, 9, 4).into());
            }
            done.wait();
            member.close();
        });
    }
}

#[test]
fn a_dead_peer_shows_at_once() {
    for kind in EVERY {
        run(kind, 2, &[FORTH, BACK], |mut member| {
            member.control.barrier().expect("both are here");
            if member.endpoint.rank() == Rank(1) {
                return;
            }
            let start = Instant::now();
            let ticket = member.endpoint.post_recv(BACK, envelope(BACK, 0, 0), floats_of(4));
            let error = ticket.and_then(|ticket| member.endpoint.wait_recv(ticket)).expect_err("nobody sends");
            assert!(matches!(error, CommError::PeerLost { rank: Rank(1), .. }), "{kind:?}: {error}");
            // A send without end, so that no buffer can take it.
            let ticket = member.endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(SIZES[2], 0.0));
            let error = ticket.and_then(|ticket| member.endpoint.wait_send(ticket));
            if !kind.buffers() {
                let error = error.expect_err("nobody receives");
                assert!(matches!(error, CommError::PeerLost { rank: Rank(1), .. }), "{kind:?}: {error}");
            }
            assert!(start.elapsed() < AT_ONCE, "{kind:?}");
        });
    }
}

/// Rank 2 dies. Rank 0, which waits for rank 1 only, is told that it was rank 2; so is rank 1, which waits for all.
#[test]
fn every_rank_learns_which_one_died() {
    for kind in EVERY {
        let told = meeting(2);
        run(kind, 3, &[BACK], |mut member| {
            member.control.barrier().expect("all are here");
            let start = Instant::now();
            let error = match member.endpoint.rank() {
                Rank(2) => return,
                Rank(1) => member.control.barrier().expect_err("one is missing"),
                _ => {
                    let ticket = member.endpoint.post_recv(BACK, envelope(BACK, 0, 0), floats_of(4));
                    ticket.and_then(|ticket| member.endpoint.wait_recv(ticket)).expect_err("nobody sends")
                }
            };
            assert!(matches!(error, CommError::PeerLost { rank: Rank(2), .. }), "{kind:?}: {error}");
            assert!(start.elapsed() < AT_ONCE, "{kind:?}");
            told.wait();
        });
    }
}

#[test]
fn what_was_sent_before_a_peer_left_still_arrives() {
    for kind in EVERY {
        let left = meeting(2);
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            if endpoint.rank() == Rank(0) {
                let ticket = endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(1000, 1.0)).expect("posted");
                endpoint.wait_send(ticket).expect("sent");
                // Between GPUs it is left together, where the others come in time.
                endpoint.set_deadline(10 * SHORT);
                member.close();
                left.wait();
            } else {
                let first = endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(1000)).expect("posted");
                left.wait();
                assert_eq!(endpoint.wait_recv(first), Ok(floats(1000, 1.0)), "{kind:?}");
                let second = endpoint.post_recv(FORTH, envelope(FORTH, 0, 1), floats_of(1000));
                let error = second.and_then(|second| endpoint.wait_recv(second)).expect_err("the peer has left");
                assert!(matches!(error, CommError::PeerLost { rank: Rank(0), .. }), "{kind:?}: {error}");
                member.close();
            }
        });
    }
}

#[test]
fn a_channel_that_was_not_built_or_points_the_other_way_is_refused() {
    for kind in EVERY {
        run(kind, 2, &[FORTH], |mut member| {
            let endpoint = &mut member.endpoint;
            assert_eq!(endpoint.channels(), [FORTH]);
            let rank = endpoint.rank();
            let unknown = endpoint.post_send(BACK, envelope(BACK, 0, 0), floats(1, 0.0)).expect_err("not built");
            assert_eq!(unknown, CommError::NoChannel { rank, channel: BACK });
            let wrong_end = if rank == Rank(0) {
                endpoint.post_recv(FORTH, envelope(FORTH, 0, 0), floats_of(1)).map(drop)
            } else {
                endpoint.post_send(FORTH, envelope(FORTH, 0, 0), floats(1, 0.0)).map(drop)
            };
            let role = if rank == Rank(0) { Role::Receive } else { Role::Send };
            assert_eq!(wrong_end, Err(CommError::WrongEnd { rank, channel: FORTH, role }));
            member.close();
        });
    }
}

#[test]
fn two_fabrics_at_once_do_not_mix() {
    for kind in EVERY {
        crate::common::each(vec![1_u32, 2], |job| {
            run(kind, 2, &[FORTH, BACK], |mut member| {
                let (out, back) = out_and_in(&member.endpoint);
                for step in 0..20 {
                    let endpoint = &mut member.endpoint;
                    let receive = endpoint.post_recv(back, envelope(back, step, job), floats_of(50)).expect("posted");
                    let send = endpoint.post_send(out, envelope(out, step, job), floats(50, job as f32));
                    endpoint.wait_send(send.expect("posted")).expect("sent");
                    assert_eq!(endpoint.wait_recv(receive), Ok(floats(50, job as f32)), "{kind:?}");
                    let jobs = member.control.all_gather_f64(&[f64::from(job)]).expect("both give");
                    assert_eq!(jobs, [[f64::from(job)], [f64::from(job)]]);
                }
                member.close();
            })
        });
    }
}
