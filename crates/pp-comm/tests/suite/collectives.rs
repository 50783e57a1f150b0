//! The part of the conformance body that is about collectives.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::common::{ALL, AT_ONCE, Kind, meeting, run, run_within};
use pp_comm::{Collective, CommError};
use pp_schedule::Rank;

#[test]
fn a_barrier_waits_for_everybody() {
    for kind in ALL {
        let arrived = AtomicU32::new(0);
        run(kind, 4, &[], |mut member| {
            for round in 1..=10 {
                arrived.fetch_add(1, Ordering::SeqCst);
                member.control.barrier().expect("all arrive");
                assert!(arrived.load(Ordering::SeqCst) >= 4 * round, "{kind:?}");
                member.control.barrier().expect("all arrive");
            }
            member.close();
        });
    }
}

#[test]
fn an_all_gather_gives_every_part_in_rank_order_whatever_its_size() {
    // Rank 2's is as large as a tied embedding's gradient.
    let sizes = [3, 0, 10_000_000, 1];
    let part = |rank: usize, round: usize| vec![(rank + round) as f32 + 0.5; sizes[rank]];
    for kind in ALL {
        run(kind, 4, &[], |mut member| {
            for round in 0..2 {
                let mine = part(member.control.rank().idx(), round);
                let parts = member.control.all_gather_f32(&mine).expect("all give");
                assert_eq!(parts.len(), 4);
                for (rank, found) in parts.into_iter().enumerate() {
                    assert!(found == part(rank, round), "{kind:?}, rank {rank}, round {round}");
                }
                let partial = [0.1 * f64::from(member.control.rank().0), f64::MIN_POSITIVE];
                let partials = member.control.all_gather_f64(&partial).expect("all give");
                assert_eq!(partials[3], [0.1 * 3.0, f64::MIN_POSITIVE]);
            }
            assert_eq!(member.control.all_gather(&[7]), Ok(vec![vec![7]; 4]));
            member.close();
        });
    }
}

#[test]
fn different_collectives_at_once_are_an_error_everywhere() {
    for kind in ALL {
        let told = meeting(3);
        run(kind, 3, &[], |mut member| {
            let error = match member.control.rank() {
                Rank(1) => member.control.all_gather(&[1]).expect_err("others ask for a barrier"),
                _ => member.control.barrier().expect_err("one asks for an all-gather"),
            };
            let CommError::CollectiveMismatch { theirs, ours, .. } = error else { panic!("{kind:?}: {error}") };
            assert!(theirs != ours);
            told.wait();
            member.close();
        });
    }
}

#[test]
fn values_of_different_types_are_an_error_that_names_ranks_and_types() {
    for kind in ALL {
        let told = meeting(3);
        run(kind, 3, &[], |mut member| {
            let error = match member.control.rank() {
                Rank(0) => member.control.all_gather_f64(&[1.0]).expect_err("others give something else"),
                Rank(1) => member.control.all_gather_f32(&[1.0, 2.0, 3.0]).expect_err("others give something else"),
                _ => member.control.all_gather(&[0; 16]).expect_err("others give something else"),
            };
            let text = "rank 1 gives f32 values where rank 0 gives f64 values";
            assert!(error.to_string().contains(text), "{kind:?}: {error}");
            // They have met, and can go on.
            assert_eq!(member.control.all_gather_f32(&[0.5]), Ok(vec![vec![0.5]; 3]), "{kind:?}");
            told.wait();
            member.close();
        });
    }
}

#[test]
fn a_collective_that_somebody_misses_ends_in_a_deadline_that_names_them() {
    for kind in ALL {
        // Over sockets the ranks must also arrive within it.
        let limit = if !matches!(kind, Kind::Memory(_)) { Duration::from_secs(3) } else { Duration::from_millis(300) };
        let told = meeting(3);
        run_within(limit, kind, 3, &[], |mut member| {
            if member.control.rank() != Rank(1) {
                let error = member.control.barrier().expect_err("one is missing");
                let CommError::CollectiveDeadline { collective, missing, limit: of, .. } = &error else {
                    panic!("{kind:?}: {error}")
                };
                assert_eq!((*collective, missing.as_slice(), *of), (Collective::Barrier, [Rank(1)].as_slice(), limit));
                assert!(error.to_string().contains("rank 1 did not arrive"), "{error}");
            }
            told.wait();
            member.close();
        });
    }
}

#[test]
fn a_collective_after_a_rank_has_left_fails_at_once() {
    for kind in ALL {
        let left = meeting(2);
        run(kind, 2, &[], |mut member| {
            if member.control.rank() == Rank(1) {
                member.close();
                left.wait();
                return;
            }
            left.wait();
            let start = Instant::now();
            let error = member.control.barrier().expect_err("rank 1 has left");
            assert!(matches!(error, CommError::PeerLost { rank: Rank(1), .. }), "{kind:?}: {error}");
            assert!(start.elapsed() < AT_ONCE);
            member.close();
        });
    }
}
