//! Ranks that leave, in good order or not, while others wait: what is complete stays complete, and every wait ends.

use pp_schedule::Rank;

use super::{FORTH, buffer, explore, label, one_integer, ranks};
use crate::error::CommError;
use crate::member::Member;

fn is_lost(error: &CommError, rank: u32) -> bool {
    matches!(error, CommError::PeerLost { rank: lost, .. } if *lost == Rank(rank))
}

fn send_and_leave(mut member: Member) {
    let ticket = member.endpoint.post_send(FORTH, label(0), buffer(7)).expect("it is posted");
    // It is on its way, and the channel holds it.
    drop(ticket);
    member.close();
}

fn receive_one_of_two(mut member: Member) {
    let endpoint = &mut member.endpoint;
    let [first, second] = [0, 1].map(|number| endpoint.post_recv(FORTH, label(number), one_integer()));
    assert_eq!(endpoint.wait_recv(first.expect("it is posted")).expect("it was sent"), buffer(7));
    let error = endpoint.wait_recv(second.expect("it is posted")).expect_err("nothing else comes");
    assert!(is_lost(&error, 0), "{error}");
    member.close();
}

#[test]
fn what_was_sent_before_its_sender_left_arrives() {
    explore(3, || ranks(&[FORTH], 1, [send_and_leave, receive_one_of_two]));
}

fn send_until_somebody_fails(mut member: Member) {
    let ticket = member.endpoint.post_send(FORTH, label(0), buffer(7)).expect("it is posted");
    // Its receive may have been posted before the loss, or not.
    match member.endpoint.wait_send(ticket) {
        Ok(sent) => assert_eq!(sent, buffer(7)),
        Err(error) => assert!(is_lost(&error, 2), "{error}"),
    }
    // The message after it never comes, and not because this rank has left.
    member.control.barrier().expect_err("one fails");
    member.close();
}

fn wait_for_what_never_comes(mut member: Member) {
    let endpoint = &mut member.endpoint;
    let [_, second] = [0, 1].map(|number| endpoint.post_recv(FORTH, label(number), one_integer()));
    let error = endpoint.wait_recv(second.expect("it is posted")).expect_err("one fails");
    assert!(is_lost(&error, 2), "{error}");
    member.control.barrier().expect_err("one fails");
    member.close();
}

/// A rank that is dropped ends the posts, waits and collectives of all others, wherever they are.
#[test]
fn a_rank_that_fails_ends_every_wait() {
    explore(2, || ranks(&[FORTH], 0, [send_until_somebody_fails, wait_for_what_never_comes, drop]));
}

fn gather(member: &mut Member, mine: u8) {
    let parts = member.control.all_gather(&[mine]).expect("both are there");
    assert_eq!(parts, [vec![3], vec![4]]);
}

#[test]
fn a_collective_is_whole_for_all_or_names_who_left() {
    fn leave(mut member: Member) {
        gather(&mut member, 3);
        member.close();
    }
    fn stay(mut member: Member) {
        gather(&mut member, 4);
        let error = member.control.barrier().expect_err("the other leaves");
        assert!(is_lost(&error, 0), "{error}");
        member.close();
    }
    explore(3, || ranks(&[], 0, [leave, stay]));
}
