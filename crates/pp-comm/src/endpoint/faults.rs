//! Rehearsed failures: what is done to a message or a rank so that one can see how a run fails.
//!
//! A fault is named by a text, such as `drop:rank=1,send=5`, the same on every rank; each endpoint takes its own part of it
//! ([`Endpoint::inject`](super::Endpoint::inject)).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use pp_schedule::Rank;

use super::pipe::RoughLinks;
use crate::flight::{Blow, Trigger};

/// Seeds choose among the first sends, steps and actions, which every run of some length comes to.
const SEEDED_SENDS: u64 = 16;
const SEEDED_STEPS: u64 = 3;
const SEEDED_ACTIONS: u64 = 12;

/// The longest that something may be held up.
const MAX_SECONDS: f64 = 1e6;

/// A failure to rehearse.
///
/// ```
/// use pp_comm::Fault;
/// let fault: Fault = "drop:rank=1,send=5".parse()?;
/// assert_eq!(fault.to_string(), "drop:rank=1,send=5");
/// let seeded: Fault = "kill:seed=7".parse()?;
/// assert!(seeded.among(4)?.to_string().starts_with("kill:rank="));
/// assert!("drop:rank=9,send=5".parse::<Fault>()?.among(4).is_err());
/// # Ok::<(), pp_comm::FaultError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    pub(super) what: What,
    pub(super) place: Place,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// A message is not sent, though its sender believes so.
    Drop,
    /// A message leaves with an element less.
    Shorten,
    /// A message leaves with another element type.
    Mistype,
    /// A message is sent twice.
    Duplicate,
    /// A message is sent only after this time, and so is everything after it.
    Delay(Duration),
    /// The process is killed.
    Kill,
    /// The process is stopped.
    Freeze,
    /// The program goes on only after this time.
    Stall(Duration),
    /// Every link stalls at random and moves bytes in pieces. Nothing may come of it.
    Rough,
}

/// Where it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At a rank's n-th send, counted from 1.
    Send { rank: u32, send: u64 },
    /// At an action of a step (programs as they are run, counted from 0).
    Action { rank: u32, step: u64, action: u32 },
    /// Chosen by a seed.
    Seed(u64),
}

/// A text that names no fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// A kind of fault that there is not.
    #[error("`{name}` is no fault; known: drop, shorten, mistype, duplicate, delay, kill, freeze, stall, rough")]
    Kind {
        /// The name given.
        name: String,
    },
    /// Not the words that this kind takes.
    #[error("`{text}` does not say where; write {name}:{form}, or {name}:seed=N to have the place chosen")]
    Form {
        /// What was given.
        text: String,
        /// The kind.
        name: &'static str,
        /// The words it takes.
        form: &'static str,
    },
    /// A value that is no number, or out of range.
    #[error("`{key}={value}` is not {rule}")]
    Value {
        /// The word.
        key: String,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// A rank that there is not.
    #[error("{fault} is for rank {rank}, but the last rank is {}", n_ranks.saturating_sub(1))]
    Rank {
        /// The fault.
        fault: String,
        /// Its rank.
        rank: u32,
        /// Ranks there are.
        n_ranks: u32,
    },
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Shorten => "shorten",
            Self::Mistype => "mistype",
            Self::Duplicate => "duplicate",
            Self::Delay(_) => "delay",
            Self::Kill => "kill",
            Self::Freeze => "freeze",
            Self::Stall(_) => "stall",
            Self::Rough => "rough",
        }
    }

    /// What is said of where and how long.
    const fn form(self) -> &'static str {
        match self {
            Self::Drop | Self::Shorten | Self::Mistype | Self::Duplicate => "rank=R,send=N",
            Self::Delay(_) => "rank=R,send=N,seconds=S",
            Self::Kill | Self::Freeze => "rank=R,step=S,action=A",
            Self::Stall(_) => "rank=R,step=S,action=A,seconds=S",
            Self::Rough => "seed=N",
        }
    }

    const fn is_of_action(self) -> bool {
        matches!(self, Self::Kill | Self::Freeze | Self::Stall(_))
    }

    pub(super) const fn time(self) -> Option<Duration> {
        match self {
            Self::Delay(time) | Self::Stall(time) => Some(time),
            _ => None,
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (name, words) = text.split_once(':').unwrap_or((text, ""));
        let mut words = Words::read(words)?;
        let time = words.take_seconds()?;
        let timed = time.unwrap_or_default();
        let what = match name {
            "drop" => What::Drop,
            "shorten" => What::Shorten,
            "mistype" => What::Mistype,
            "duplicate" => What::Duplicate,
            "delay" => What::Delay(timed),
            "kill" => What::Kill,
            "freeze" => What::Freeze,
            "stall" => What::Stall(timed),
            "rough" => What::Rough,
            _ => return Err(FaultError::Kind { name: name.to_owned() }),
        };
        let place = match words.numbers.as_slice() {
            [(Key::Seed, seed)] => Some(Place::Seed(*seed)),
            _ if what == What::Rough => None,
            [(Key::Rank, rank), (Key::Send, send)] if !what.is_of_action() => {
                Some(Place::Send { rank: small("rank", *rank)?, send: *send })
            }
            [(Key::Rank, rank), (Key::Step, step), (Key::Action, action)] if what.is_of_action() => {
                Some(Place::Action { rank: small("rank", *rank)?, step: *step, action: small("action", *action)? })
            }
            _ => None,
        };
        match place.filter(|_| what.time().is_some() == time.is_some()) {
            Some(Place::Send { send: 0, .. }) => {
                Err(FaultError::Value { key: "send".into(), value: "0".into(), rule: "at least 1, the first" })
            }
            Some(place) => Ok(Self { what, place }),
            None => Err(FaultError::Form { text: text.to_owned(), name: what.name(), form: what.form() }),
        }
    }
}

/// The numbers of a fault, in the order in which their forms have them.
#[derive(Debug)]
struct Words {
    numbers: Vec<(Key, u64)>,
    seconds: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Seed,
    Rank,
    Send,
    Step,
    Action,
}

impl Words {
    fn read(text: &str) -> Result<Self, FaultError> {
        let mut words = Self { numbers: Vec::new(), seconds: None };
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let bad = |rule| FaultError::Value { key: name.to_owned(), value: value.to_owned(), rule };
            let key = match name {
                "seconds" => {
                    words.seconds = Some(value.to_owned());
                    continue;
                }
                "seed" => Key::Seed,
                "rank" => Key::Rank,
                "send" => Key::Send,
                "step" => Key::Step,
                "action" => Key::Action,
                _ => return Err(bad("one of rank, send, step, action, seconds, seed with a number")),
            };
            words.numbers.push((key, value.parse().map_err(|_| bad("a whole number of at least 0"))?));
        }
        words.numbers.sort_unstable();
        Ok(words)
    }

    fn take_seconds(&mut self) -> Result<Option<Duration>, FaultError> {
        let Some(value) = self.seconds.take() else { return Ok(None) };
        match value.parse() {
            Ok(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
            _ => Err(FaultError::Value { key: "seconds".into(), value, rule: "a number of seconds of at most 1e6" }),
        }
    }
}

fn small(key: &str, value: u64) -> Result<u32, FaultError> {
    let bad = |_| FaultError::Value { key: key.to_owned(), value: value.to_string(), rule: "below 4294967296" };
    u32::try_from(value).map_err(bad)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.what.name())?;
        match self.place {
            Place::Send { rank, send } => write!(f, "rank={rank},send={send}")?,
            Place::Action { rank, step, action } => write!(f, "rank={rank},step={step},action={action}")?,
            Place::Seed(seed) => write!(f, "seed={seed}")?,
        }
        self.what.time().map_or(Ok(()), |time| write!(f, ",seconds={}", time.as_secs_f64()))
    }
}

impl Fault {
    /// The fault in a run of so many ranks: what was left to a seed is chosen, the same on every rank.
    ///
    /// # Errors
    /// [`FaultError::Rank`].
    pub fn among(self, n_ranks: u32) -> Result<Self, FaultError> {
        let place = match self.place {
            Place::Seed(seed) if self.what != What::Rough => {
                let mut dice = Dice(seed);
                let rank = dice.below(n_ranks.max(1).into()) as u32;
                if self.what.is_of_action() {
                    let step = dice.below(SEEDED_STEPS);
                    Place::Action { rank, step, action: dice.below(SEEDED_ACTIONS) as u32 }
                } else {
                    Place::Send { rank, send: 1 + dice.below(SEEDED_SENDS) }
                }
            }
            place => place,
        };
        let fault = Self { place, ..self };
        match fault.rank() {
            Some(Rank(rank)) if rank >= n_ranks => Err(FaultError::Rank { fault: self.to_string(), rank, n_ranks }),
            _ => Ok(fault),
        }
    }

    /// Rough links, if it is that kind: they are given to [`join`](crate::join), on every rank.
    pub const fn rough(self) -> Option<RoughLinks> {
        match (self.what, self.place) {
            (What::Rough, Place::Seed(seed)) => Some(RoughLinks { seed }),
            _ => None,
        }
    }

    /// The rank it is done to; none while that is left to a seed, and for rough links, which all ranks have.
    pub const fn rank(self) -> Option<Rank> {
        match self.place {
            Place::Send { rank, .. } | Place::Action { rank, .. } => Some(Rank(rank)),
            Place::Seed(_) => None,
        }
    }

    /// What is to be done at an action, if it is that kind.
    pub(super) fn trigger(self) -> Option<Trigger> {
        let blow = match self.what {
            What::Kill => Blow::Kill,
            What::Freeze => Blow::Freeze,
            What::Stall(time) => Blow::Stall(time),
            _ => return None,
        };
        match self.place {
            Place::Action { step, action, .. } => Some(Trigger { blow, step, action }),
            _ => None,
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): the same numbers everywhere for a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in [
            "drop:rank=1,send=5",
            "shorten:rank=0,send=1",
            "mistype:seed=3",
            "duplicate:rank=2,send=9",
            "delay:rank=1,send=5,seconds=2.5",
            "kill:rank=2,step=3,action=7",
            "freeze:rank=0,step=0,action=0",
            "stall:seed=1,seconds=9",
            "rough:seed=7",
        ] {
            assert_eq!(text.parse::<Fault>().map(|fault| fault.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("drop:send=5,rank=1".parse::<Fault>().unwrap().to_string(), "drop:rank=1,send=5");
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_would_be() {
        for (text, said) in [
            ("explode:rank=1,send=5", "known: drop, shorten"),
            ("", "known: drop"),
            ("drop", "write drop:rank=R,send=N, or drop:seed=N"),
            ("drop:rank=1,step=1,action=2", "write drop:rank=R,send=N"),
            ("kill:rank=1,send=2", "write kill:rank=R,step=S,action=A"),
            ("drop:rank=1,send=2,seconds=3", "write drop:rank=R,send=N"),
            ("delay:rank=1,send=2", "write delay:rank=R,send=N,seconds=S"),
            ("delay:rank=1,send=2,seconds=-1", "`seconds=-1` is not"),
            ("delay:rank=1,send=2,seconds=NaN", "`seconds=NaN` is not"),
            ("drop:rank=1,rank=2,send=2", "write drop"),
            ("rough:rank=1,send=2", "write rough:seed=N"),
            ("drop:rank=one,send=2", "`rank=one` is not a whole number"),
            ("drop:rank=4294967296,send=2", "`rank=4294967296` is not below"),
            ("drop:rank=1,send=0", "`send=0` is not at least 1"),
            ("drop:rank=1,place=2", "`place=2` is not one of rank"),
        ] {
            let error = text.parse::<Fault>().expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn seeds_choose_among_all_ranks_and_ranks_must_be_there() {
        let rank = |seed: u64| format!("drop:seed={seed}").parse::<Fault>().unwrap().among(3).unwrap().rank();
        let chosen: std::collections::BTreeSet<_> = (0..50).map(rank).collect();
        assert_eq!(chosen, [0, 1, 2].map(|rank| Some(Rank(rank))).into());
        assert_eq!(rank(7), rank(7));
        let error = "drop:rank=3,send=1".parse::<Fault>().unwrap().among(3).expect_err("the last is 2").to_string();
        assert!(error.contains("drop:rank=3,send=1") && error.contains("the last rank is 2"), "{error}");
    }
}
