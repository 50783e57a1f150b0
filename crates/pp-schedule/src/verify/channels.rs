//! Channel agreement: both ends of a channel name the same messages in the same order.

use crate::deps::Message;
use crate::ids::ChannelId;
use crate::program::{Action, Channel, Program, Role};

/// The ends of a channel disagree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{channel}, message {position}: {}", disagreement(*sent, *received))]
pub struct ChannelError {
    /// The channel.
    pub channel: Channel,
    /// The place in the channel's sequence.
    pub position: usize,
    /// What the source sends there; `None` past its last.
    pub sent: Option<Message>,
    /// What the destination expects there; `None` past its last.
    pub received: Option<Message>,
}

fn disagreement(sent: Option<Message>, received: Option<Message>) -> String {
    match (sent, received) {
        (Some(sent), Some(received)) => {
            format!("the source sends the {sent}, but the destination expects the {received}")
        }
        (Some(sent), None) => format!("the source sends the {sent}, but the destination expects no more"),
        (None, Some(received)) => format!("the destination expects the {received}, but the source sends no more"),
        (None, None) => "both ends agree".to_owned(),
    }
}

/// Compares the ends of every channel. Gives, for each rank, the place of each of its transfers in its channel.
pub(super) fn check(program: &Program) -> Result<Vec<Vec<u32>>, ChannelError> {
    let mut counts = [vec![0_u32; program.channels.len()], vec![0_u32; program.channels.len()]];
    let mut places = Vec::with_capacity(program.ranks.len());
    for rank in &program.ranks {
        let mut place = vec![0_u32; rank.transfers.len()];
        for action in &rank.actions {
            let Action::Post(first) = *action else { continue };
            for (transfer, place) in rank.posted(first).unwrap_or_default().iter().zip(&mut place[first as usize..]) {
                let count = &mut counts[role_idx(transfer.role)][transfer.channel.idx()];
                *place = *count;
                *count += 1;
            }
        }
        places.push(place);
    }
    let [sends, receives] = counts;
    let mut sent: Vec<Vec<Message>> = sends.iter().map(|&count| Vec::with_capacity(count as usize)).collect();
    for_each_posted(program, Role::Send, |channel, message| sent[channel.idx()].push(message));
    let mut next = vec![0_usize; program.channels.len()];
    let mut fault = None;
    for_each_posted(program, Role::Receive, |channel, message| {
        let position = next[channel.idx()];
        next[channel.idx()] += 1;
        let other = sent[channel.idx()].get(position).copied();
        if other != Some(message) && fault.is_none() {
            fault = Some((channel, position, other, Some(message)));
        }
    });
    let unreceived = (0..program.channels.len()).find(|&channel| sends[channel] > receives[channel]);
    let fault = fault.or_else(|| {
        let channel = unreceived?;
        let position = receives[channel] as usize;
        Some((ChannelId(channel as u32), position, sent[channel].get(position).copied(), None))
    });
    match fault {
        None => Ok(places),
        Some((channel, position, sent, received)) => {
            Err(ChannelError { channel: program.channels[channel.idx()], position, sent, received })
        }
    }
}

const fn role_idx(role: Role) -> usize {
    match role {
        Role::Send => 0,
        Role::Receive => 1,
    }
}

fn for_each_posted(program: &Program, role: Role, mut visit: impl FnMut(ChannelId, Message)) {
    for rank in &program.ranks {
        for action in &rank.actions {
            let Action::Post(first) = *action else { continue };
            for transfer in rank.posted(first).unwrap_or_default() {
                if transfer.role == role {
                    visit(transfer.channel, transfer.message);
                }
            }
        }
    }
}
