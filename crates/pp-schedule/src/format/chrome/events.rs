//! Events as they stand in a file: what is ours is kept, what is not is skipped, whatever it looks like.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::ChromeError;
use crate::ids::Rank;
use crate::work::Work;

/// What is kept of a trace's events.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) computes: Vec<Compute>,
    pub(super) extra: Vec<super::Extra>,
    /// The first that is ours and is wrong.
    pub(super) wrong: Option<ChromeError>,
}

/// A computation of a trace. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compute {
    /// Its number among all events.
    pub(super) index: usize,
    pub(super) step: u32,
    pub(super) rank: Rank,
    pub(super) work: Work,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Events;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Events, A::Error> {
                let mut events = Events::default();
                let mut index = 0;
                while let Some(event) = rows.next_element::<Event<'de>>()? {
                    if let Err(what) = events.keep(index, &event) {
                        let name = event.name.text().unwrap_or_default().chars().take(40).collect();
                        events.wrong.get_or_insert(ChromeError::Event { index, name, what });
                    }
                    index += 1;
                }
                Ok(events)
            }
        }
        deserializer.deserialize_seq(Rows)
    }
}

impl Events {
    fn keep(&mut self, index: usize, event: &Event<'_>) -> Result<(), String> {
        let is_compute = match (event.phase.text(), event.category.text()) {
            (Some("X"), Some("compute")) => true,
            (Some("X"), Some("extra")) => false,
            _ => return Ok(()),
        };
        let name = event.name.text().ok_or("it has no name")?;
        let rank = Rank(event.pid.whole("pid", "a rank")?);
        let start = event.start.nanoseconds("ts")?;
        let end = start.saturating_add(event.length.nanoseconds("dur")?);
        let step = match event.args.step {
            Scalar::Missing => 0,
            ref step => step.whole("args.step", "a step's number")?,
        };
        if is_compute {
            let work = name.parse::<Work>().map_err(|error| error.to_string())?;
            self.computes.push(Compute { index, step, rank, work, start, end });
        } else {
            let lane = event.args.lane.text().ok_or("args.lane is missing: expected the name of a lane")?.to_owned();
            self.extra.push(super::Extra { step, rank, lane, name: name.to_owned(), start, end });
        }
        Ok(())
    }
}

/// The fields of an event that mean something here.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow)]
    name: Scalar<'a>,
    #[serde(borrow, rename = "ph")]
    phase: Scalar<'a>,
    #[serde(borrow, rename = "cat")]
    category: Scalar<'a>,
    #[serde(borrow)]
    pid: Scalar<'a>,
    #[serde(borrow, rename = "ts")]
    start: Scalar<'a>,
    #[serde(borrow, rename = "dur")]
    length: Scalar<'a>,
    #[serde(borrow)]
    args: Args<'a>,
}

/// A field of any type.
#[derive(Debug, Default)]
enum Scalar<'a> {
    #[default]
    Missing,
    Number(f64),
    Text(Cow<'a, str>),
    Other,
}

impl Scalar<'_> {
    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// A number of something.
    fn whole(&self, field: &str, what: &str) -> Result<u32, String> {
        match *self {
            Self::Number(number) if number >= 0.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0 => {
                Ok(number as u32)
            }
            ref other => Err(format!("{field} is {other}, expected {what}")),
        }
    }

    /// Microseconds in nanoseconds.
    fn nanoseconds(&self, field: &str) -> Result<u64, String> {
        match *self {
            // Below 2^63 ns; larger times have no room for what follows them.
            Self::Number(number) if (0.0..9e15).contains(&number) => Ok((number * 1000.0).round() as u64),
            ref other => Err(format!("{field} is {other}, expected microseconds from 0 on")),
        }
    }
}

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "`{}`", text.chars().take(40).collect::<String>()),
            Self::Other => f.write_str("neither number nor text"),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Scalar<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Scalar::Number(number as f64))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Scalar::Number(number as f64))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Scalar::Number(number))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Scalar::Other)
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Scalar::Missing)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                IgnoredAny.visit_seq(seq).map(|_| Scalar::Other)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                IgnoredAny.visit_map(map).map(|_| Scalar::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// The arguments of an event that mean something here; none if they are no object.
#[derive(Debug, Default)]
struct Args<'a> {
    step: Scalar<'a>,
    lane: Scalar<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Args<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Args<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut args = Args::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    match &*key {
                        "step" => args.step = map.next_value()?,
                        "lane" => args.lane = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(args)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                IgnoredAny.visit_seq(seq).map(|_| Args::default())
            }
            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Args::default())
            }
            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Args::default())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Args::default())
            }
            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Args::default())
            }
            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Args::default())
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Args::default())
            }
        }
        deserializer.deserialize_any(Any)
    }
}
