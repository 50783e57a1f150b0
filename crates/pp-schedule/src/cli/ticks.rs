//! How times that were typed become ticks.

use super::CommandError;
use super::amount::{Amount, Rate};
use crate::quantity::{Bytes, Time};
use crate::simulate::Scale;

/// The largest cost, in ticks.
const MAX_TICKS: u64 = 1_000_000_000_000_000;

/// What a tick is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ticks {
    /// A part of a plain unit, small enough for all times to be whole.
    Plain {
        /// Digits after the point that are kept.
        places: u32,
        /// Ticks for one unit in the last of them.
        per_place: u64,
    },
    /// A nanosecond; plain times are milliseconds.
    Nanoseconds,
}

impl Ticks {
    /// Ticks in a unit of what is typed without one.
    pub(super) fn per_unit(self) -> f64 {
        match self {
            Self::Plain { places, per_place } => 10_f64.powi(places as i32) * per_place as f64,
            Self::Nanoseconds => 1e6,
        }
    }

    /// A time that a flag gives.
    pub(super) fn of(self, flag: &str, time: Amount) -> Result<u64, CommandError> {
        let (places, factor) = match self {
            Self::Plain { places, per_place } => (places, per_place),
            Self::Nanoseconds => (time.nanoseconds.unwrap_or(6), 1),
        };
        if time.number.places() > places {
            return Err(CommandError::Costs(format!(
                "{flag} {time} is no whole number of nanoseconds; give fewer digits"
            )));
        }
        let ticks = time.number.scaled(places).and_then(|scaled| scaled.checked_mul(factor));
        ticks.filter(|ticks| *ticks <= self.most()).ok_or_else(|| self.too_large(flag, &time.to_string()))
    }

    /// How long a message takes its channel.
    pub(super) fn transfer(self, bytes: Bytes, rate: Rate, scale: &Scale) -> Result<u64, CommandError> {
        let ticks = match (rate, self) {
            (Rate::PerUnit(bandwidth), _) => bytes.0 as f64 / bandwidth.as_f64() * scale.ticks_per_unit,
            (Rate::PerSecond(bandwidth), Self::Nanoseconds) => bandwidth.ticks(bytes.0) as f64,
            (Rate::PerSecond(bandwidth), Self::Plain { .. }) => {
                return Err(CommandError::Costs(format!(
                    "--bandwidth {:.0}B/s is per second, but the times have no units; give them some, such as --forward 18.5ms",
                    bandwidth.0
                )));
            }
        };
        let ticks = ticks.round();
        if ticks <= self.most() as f64 {
            Ok(ticks as u64)
        } else {
            Err(self.too_large("--message-bytes", &bytes.to_string()))
        }
    }

    const fn most(self) -> u64 {
        match self {
            Self::Plain { .. } => MAX_TICKS,
            Self::Nanoseconds => Time::MAX.0,
        }
    }

    fn too_large(self, flag: &str, value: &str) -> CommandError {
        CommandError::Costs(match self {
            Self::Plain { .. } => format!(
                "{flag} {value} is too much: at most {MAX_TICKS} of the smallest steps that all times are written in; give \
                 fewer digits or a larger unit"
            ),
            Self::Nanoseconds => format!("{flag} {value} takes more than {}, the most that is taken", Time::MAX),
        })
    }
}
