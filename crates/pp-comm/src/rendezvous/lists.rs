//! Whether all ranks mean the same: were started alike, and expect the same channels. Found out before any link is made,
//! since a link that one side alone expects would cost both of them their whole deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use pp_schedule::{Channel, Rank};

use super::RendezvousError;
use crate::channel_fields::{put_channel, take_channel};
use crate::control::Control;
use crate::wire::{Fields, Payload, invalid};

/// Compares this rank's terms and channels with everybody's. Every rank gets the same error.
pub(super) fn compare(control: &mut Control, terms: u128, channels: &[Channel]) -> Result<(), RendezvousError> {
    let lists = control.all_gather(&encode(terms, channels))?;
    let lists: io::Result<Vec<(u128, BTreeSet<Channel>)>> = lists.iter().map(|list| decode(list)).collect();
    let lists = lists.map_err(RendezvousError::system("compare what the ranks were started with"))?;
    let (terms, channels): (Vec<u128>, Vec<BTreeSet<Channel>>) = lists.into_iter().unzip();
    let other = terms.iter().position(|theirs| theirs != &terms[0]);
    if let Some(rank) = other {
        return Err(RendezvousError::Terms { rank: Rank(u32::try_from(rank).unwrap_or(u32::MAX)) });
    }
    difference(&channels)
}

fn encode(terms: u128, channels: &[Channel]) -> Vec<u8> {
    channels.iter().fold(Payload::default().u128(terms), |payload, &channel| put_channel(payload, channel)).0
}

fn decode(list: &[u8]) -> io::Result<(u128, BTreeSet<Channel>)> {
    let mut fields = Fields(list);
    let terms = fields.u128()?;
    let mut channels = BTreeSet::new();
    while !fields.0.is_empty() {
        if !channels.insert(take_channel(&mut fields)?) {
            return Err(invalid("a channel listed twice".to_owned()));
        }
    }
    Ok((terms, channels))
}

/// The first channel, in the global order, that one of its ends alone has in its list.
fn difference(lists: &[BTreeSet<Channel>]) -> Result<(), RendezvousError> {
    let mut listed_by = BTreeMap::<Channel, Vec<Rank>>::new();
    for (rank, list) in (0..).map(Rank).zip(lists) {
        for &channel in list {
            listed_by.entry(channel).or_default().push(rank);
        }
    }
    for (channel, ranks) in listed_by {
        for (end, other) in [(channel.source, channel.destination), (channel.destination, channel.source)] {
            if ranks.contains(&end) && !ranks.contains(&other) {
                return Err(RendezvousError::OneSided { channel, lists: end, lacks: other });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pp_schedule::{Carries, Direction};

    use super::*;
    use crate::wire::random::Random;

    fn channel(source: u32, destination: u32, queue: u32) -> Channel {
        let carries = Carries::Only(Direction::Forward);
        Channel { source: Rank(source), destination: Rank(destination), carries, queue }
    }

    #[test]
    fn the_first_channel_of_one_end_alone_is_found_whichever_end_it_is() {
        let (forth, back) = (channel(0, 1, 0), channel(1, 0, 0));
        let check = |lists: [&[Channel]; 3]| difference(&lists.map(|list| list.iter().copied().collect()));
        assert!(check([&[forth, back], &[forth, back], &[]]).is_ok());
        let found = |lists: [&[Channel]; 3]| match check(lists) {
            Err(RendezvousError::OneSided { channel, lists, lacks }) => (channel, lists.0, lacks.0),
            other => panic!("{other:?}"),
        };
        assert_eq!(found([&[forth, back], &[forth], &[]]), (back, 0, 1));
        assert_eq!(found([&[forth], &[forth, back], &[]]), (back, 1, 0));
        let far = channel(2, 0, 5);
        assert_eq!(found([&[forth, far], &[forth], &[]]), (far, 0, 2));
    }

    #[test]
    fn any_bytes_are_a_list_or_an_error() {
        let list = [channel(0, 1, 0), channel(1, 0, 7)];
        assert_eq!(decode(&encode(1 << 90, &list)).expect("encoded here"), (1 << 90, BTreeSet::from(list)));
        assert!(decode(&encode(0, &[list[0]; 2])).is_err(), "twice the same");
        let mut random = Random(0x5eed);
        for _ in 0..20_000 {
            if let Ok((terms, channels)) = decode(&random.mutate(&[encode(7, &list)])) {
                let again: Vec<Channel> = channels.iter().copied().collect();
                assert_eq!(decode(&encode(terms, &again)).ok(), Some((terms, channels)));
            }
        }
    }
}
