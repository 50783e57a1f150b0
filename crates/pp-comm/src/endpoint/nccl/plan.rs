//! Which communicators a run has, in one order that is the same on every rank: said over the control plane before any is made.

use std::collections::BTreeMap;
use std::io;

use nccl_rs::{UniqueId, Version, require_version};
use pp_schedule::{Channel, Rank};

use super::spec::Communicators;
use crate::channel_fields::{put_channel, take_channel};
use crate::control::Control;
use crate::error::{CommError, Communicator};
use crate::group::{Group, is_for_collectives};
use crate::wire::{Fields, Payload, invalid};

/// A communicator to be made: what it is for, and its ranks in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) of: Communicator,
    pub(super) ranks: Vec<Rank>,
}

/// What one rank says.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    /// Why it has no NCCL that will do; empty where it has.
    fault: String,
    communicators: Communicators,
    channels: Vec<Channel>,
    groups: Vec<(u32, Vec<Rank>)>,
}

/// The communicators of the run, in the order in which they are made. Every rank gets the same list, or the same error.
pub(super) fn agree(
    control: &mut Control,
    channels: &[Channel],
    (communicators, groups): (Communicators, &[Group]),
    minimum: Version,
) -> Result<Vec<Planned>, CommError> {
    let word = Word {
        fault: require_version(minimum).err().map(|error| error.to_string()).unwrap_or_default(),
        communicators,
        channels: channels.iter().filter(|channel| !is_for_collectives(**channel)).copied().collect(),
        groups: groups.iter().map(|group| (group.id(), group.ranks().to_vec())).collect(),
    };
    let words = control.all_gather(&word.encode())?;
    let words: io::Result<Vec<Word>> = words.iter().map(|word| Word::decode(word)).collect();
    plan(&words.map_err(|error| CommError::System {
        what: "compare what the ranks want of NCCL".to_owned(),
        reason: error.to_string(),
    })?)
}

/// An id for each of the planned communicators, drawn by its first rank. The drawing rank must stay until it is made.
pub(super) fn share_ids(control: &mut Control, plan: &[Planned]) -> Result<Vec<UniqueId>, CommError> {
    let me = control.rank();
    let mine = plan.iter().filter(|planned| planned.ranks[0] == me);
    let drawn: Result<Vec<UniqueId>, _> = mine.map(|_| UniqueId::new()).collect();
    let (fault, ids) = match drawn {
        Ok(ids) => (String::new(), ids),
        Err(error) => (error.to_string(), Vec::new()),
    };
    let word = Payload::default().bytes(fault.as_bytes());
    let word = ids.iter().fold(word, |word, id| word.array(id.as_bytes()));
    let mut lists = Vec::new();
    for (rank, word) in (0..).map(Rank).zip(control.all_gather(&word.0)?) {
        let (fault, ids) = decode_ids(&word).map_err(|error| CommError::NoNccl { rank, reason: error.to_string() })?;
        if !fault.is_empty() {
            return Err(CommError::NoNccl { rank, reason: fault });
        }
        lists.push(ids.into_iter());
    }
    let of = |planned: &Planned| {
        let rank = planned.ranks[0];
        let id = lists.get_mut(rank.idx()).and_then(Iterator::next);
        id.ok_or_else(|| CommError::NoNccl { rank, reason: format!("it drew no id for {}", planned.of) })
    };
    plan.iter().map(of).collect()
}

fn decode_ids(word: &[u8]) -> io::Result<(String, Vec<UniqueId>)> {
    let mut fields = Fields(word);
    let fault = String::from_utf8_lossy(fields.bytes()?).into_owned();
    let mut ids = Vec::new();
    while !fields.0.is_empty() {
        ids.push(UniqueId::from_bytes(fields.array()?));
    }
    Ok((fault, ids))
}

/// Every channel's communicator, or the one of all, then those of the groups.
fn plan(words: &[Word]) -> Result<Vec<Planned>, CommError> {
    let ranked = || (0..).map(Rank).zip(words);
    if let Some((rank, word)) = ranked().find(|(_, word)| !word.fault.is_empty()) {
        return Err(CommError::NoNccl { rank, reason: word.fault.clone() });
    }
    let wanted = words[0].communicators;
    if let Some((rank, word)) = ranked().find(|(_, word)| word.communicators != wanted) {
        let reason = format!("it asks for communicators {:?}, but rank 0 for {wanted:?}", word.communicators);
        return Err(CommError::NoNccl { rank, reason });
    }
    let mut planned = Vec::new();
    match wanted {
        Communicators::PerChannel => {
            let mut channels: Vec<Channel> = words.iter().flat_map(|word| word.channels.iter().copied()).collect();
            channels.sort_unstable();
            channels.dedup();
            planned.extend(channels.into_iter().map(|channel| Planned {
                of: Communicator::Channel(channel),
                ranks: vec![channel.source, channel.destination],
            }));
        }
        Communicators::One => planned.push(Planned {
            of: Communicator::All { n_ranks: words.len() as u32 },
            ranks: (0..words.len() as u32).map(Rank).collect(),
        }),
    }
    let mut groups = BTreeMap::<u32, (Rank, &[Rank])>::new();
    for (rank, word) in ranked() {
        for (id, ranks) in &word.groups {
            let &mut (first, known) = groups.entry(*id).or_insert((rank, ranks));
            if known != ranks {
                let reason = format!("its group {id} is of ranks {ranks:?}, but that of rank {first} of {known:?}");
                return Err(CommError::NoNccl { rank, reason });
            }
        }
    }
    for (id, (_, ranks)) in groups {
        if let Some(&rank) = ranks.iter().find(|rank| !has_group(words, **rank, id)) {
            let reason = format!("it does not ask for a communicator of group {id}, which it is in; others do");
            return Err(CommError::NoNccl { rank, reason });
        }
        planned.push(Planned { of: Communicator::Group { id, ranks: ranks.to_vec() }, ranks: ranks.to_vec() });
    }
    Ok(planned)
}

fn has_group(words: &[Word], rank: Rank, id: u32) -> bool {
    words.get(rank.idx()).is_some_and(|word| word.groups.iter().any(|(known, _)| *known == id))
}

impl Word {
    fn encode(&self) -> Vec<u8> {
        let Self { fault, communicators, channels, groups } = self;
        let payload = Payload::default().bytes(fault.as_bytes()).u32(code_of(*communicators));
        let payload = payload.u32(channels.len() as u32);
        let payload = channels.iter().fold(payload, |payload, &channel| put_channel(payload, channel));
        let payload = payload.u32(groups.len() as u32);
        let group = |payload: Payload, (id, ranks): &(u32, Vec<Rank>)| {
            let payload = payload.u32(*id).u32(ranks.len() as u32);
            ranks.iter().fold(payload, |payload, rank| payload.u32(rank.0))
        };
        groups.iter().fold(payload, group).0
    }

    fn decode(word: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(word);
        let fault = String::from_utf8_lossy(fields.bytes()?).into_owned();
        let code = fields.u32()?;
        let communicators = [Communicators::PerChannel, Communicators::One].into_iter().find(|&c| code_of(c) == code);
        let communicators = communicators.ok_or_else(|| invalid(format!("communicators {code}, which are none")))?;
        let channels = (0..fields.u32()?).map(|_| take_channel(&mut fields)).collect::<io::Result<_>>()?;
        let groups = (0..fields.u32()?).map(|_| take_group(&mut fields)).collect::<io::Result<_>>()?;
        if !fields.0.is_empty() {
            return Err(invalid("more than a list of communicators".to_owned()));
        }
        Ok(Self { fault, communicators, channels, groups })
    }
}

fn take_group(fields: &mut Fields<'_>) -> io::Result<(u32, Vec<Rank>)> {
    let (id, n_ranks) = (fields.u32()?, fields.u32()?);
    Ok((id, (0..n_ranks).map(|_| fields.u32().map(Rank)).collect::<io::Result<_>>()?))
}

const fn code_of(communicators: Communicators) -> u32 {
    match communicators {
        Communicators::PerChannel => 0,
        Communicators::One => 1,
    }
}

#[cfg(test)]
mod tests {
    use pp_schedule::{Carries, Direction};

    use super::*;

    const fn channel(source: u32, destination: u32) -> Channel {
        let carries = Carries::Only(Direction::Forward);
        Channel { source: Rank(source), destination: Rank(destination), carries, queue: source }
    }

    fn word(communicators: Communicators, channels: &[Channel], groups: &[(u32, &[u32])]) -> Word {
        let groups = groups.iter().map(|(id, ranks)| (*id, ranks.iter().copied().map(Rank).collect())).collect();
        Word { fault: String::new(), communicators, channels: channels.to_vec(), groups }
    }

    #[test]
    fn every_rank_plans_the_same_from_what_each_knows() {
        let words = |kind| {
            [
                word(kind, &[channel(1, 0), channel(0, 2)], &[(7, &[0, 2])]),
                word(kind, &[channel(1, 0)], &[(3, &[1])]),
                word(kind, &[channel(0, 2)], &[(7, &[0, 2])]),
            ]
        };
        let ranks = |kind| -> Vec<Vec<u32>> {
            let planned = plan(&words(kind)).expect("they agree");
            planned.iter().map(|planned| planned.ranks.iter().map(|rank| rank.0).collect()).collect()
        };
        assert_eq!(ranks(Communicators::PerChannel), [vec![0, 2], vec![1, 0], vec![1], vec![0, 2]]);
        assert_eq!(ranks(Communicators::One), [vec![0, 1, 2], vec![1], vec![0, 2]]);
        for word in words(Communicators::One) {
            assert_eq!(Word::decode(&word.encode()).expect("encoded here"), word);
        }
    }

    #[test]
    fn whoever_differs_is_named() {
        let per_channel = || word(Communicators::PerChannel, &[], &[(1, &[0, 1])]);
        let refused = |other: Word| plan(&[per_channel(), other]).expect_err("they differ").to_string();
        let error = refused(word(Communicators::One, &[], &[(1, &[0, 1])]));
        assert!(error.contains("rank 1 cannot") && error.contains("One, but rank 0 for PerChannel"), "{error}");
        let error = refused(word(Communicators::PerChannel, &[], &[(1, &[1, 0])]));
        assert!(error.contains("rank 1 cannot") && error.contains("group 1"), "{error}");
        let error = refused(word(Communicators::PerChannel, &[], &[]));
        assert!(error.contains("rank 1 cannot") && error.contains("does not ask"), "{error}");
        let error = refused(Word { fault: "NCCL is too old".to_owned(), ..per_channel() });
        assert_eq!(error, "rank 1 cannot take part over NCCL: NCCL is too old");
    }
}
