//! Posts and waits: every message arrives, in its order, and no wait is left behind.

use pp_schedule::{Channel, Direction};

use super::{BACK, FORTH, buffer, channel, explore, label, one_integer, ranks};
use crate::member::Member;

/// Sends two messages and waits for both, the later one first.
fn send_two(mut member: Member) {
    let endpoint = &mut member.endpoint;
    let [first, second] = [0, 1].map(|number| endpoint.post_send(FORTH, label(number), buffer(number.into())));
    for (value, ticket) in [(1, second), (0, first)] {
        let sent = endpoint.wait_send(ticket.expect("it is posted")).expect("nobody is lost");
        assert_eq!(sent, buffer(value), "the buffer comes back");
    }
    member.close();
}

/// Receives them, the later one first.
fn receive_two(mut member: Member) {
    let endpoint = &mut member.endpoint;
    let [first, second] = [0, 1].map(|number| endpoint.post_recv(FORTH, label(number), one_integer()));
    for (value, ticket) in [(1, second), (0, first)] {
        let received = endpoint.wait_recv(ticket.expect("it is posted")).expect("nobody is lost");
        assert_eq!(received, buffer(value));
    }
    member.close();
}

#[test]
fn messages_arrive_in_their_order_whatever_is_waited_for_first() {
    for capacity in [0, 1] {
        explore(3, move || ranks(&[FORTH], capacity, [send_two, receive_two]));
    }
}

/// Posts a send on one channel and a receive on the other, and waits in that order.
fn cross(mut member: Member, out: Channel, back: Channel) {
    let endpoint = &mut member.endpoint;
    let sent = endpoint.post_send(out, label(0), buffer(7)).expect("it is posted");
    let received = endpoint.post_recv(back, label(0), one_integer()).expect("it is posted");
    endpoint.wait_send(sent).expect("nobody is lost");
    endpoint.wait_recv(received).expect("nobody is lost");
    member.close();
}

/// Both send first; as both have posted their receives before they wait, nobody waits forever.
#[test]
fn crossed_sends_meet() {
    explore(3, || ranks(&[FORTH, BACK], 0, [|member| cross(member, FORTH, BACK), |member| cross(member, BACK, FORTH)]));
}

const OTHER: Channel = channel(2, 1, Direction::Backward);

fn send_one(mut member: Member, channel: Channel) {
    let ticket = member.endpoint.post_send(channel, label(0), buffer(3)).expect("it is posted");
    member.endpoint.wait_send(ticket).expect("nobody is lost");
    member.close();
}

fn receive_both(mut member: Member) {
    let endpoint = &mut member.endpoint;
    let [first, second] = [FORTH, OTHER].map(|channel| endpoint.post_recv(channel, label(0), one_integer()));
    for ticket in [second, first] {
        assert_eq!(endpoint.wait_recv(ticket.expect("it is posted")).expect("nobody is lost"), buffer(3));
    }
    member.close();
}

/// Two senders, and a receiver that waits for the one that may come last.
#[test]
fn a_channel_does_not_wait_for_another() {
    let bodies = [|member| send_one(member, FORTH), receive_both, |member| send_one(member, OTHER)];
    explore(2, move || ranks(&[FORTH, OTHER], 0, bodies));
}
