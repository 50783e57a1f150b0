//! Times and bandwidths as they are typed: exact numbers, plain or with a unit.

use std::fmt;
use std::str::FromStr;

use super::decimal::{Decimal, NoDecimal};
use crate::quantity::{Bandwidth, KNOWN_TIMES, QuantityError, nanoseconds_in};

/// A time: `18.5`, in a unit of the typist's own, or `18.5ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) number: Decimal,
    /// The power of ten that makes it nanoseconds; none without a unit.
    pub(super) nanoseconds: Option<u32>,
}

/// A text that is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAmount {
    /// What stands in front is no number.
    #[error(transparent)]
    Number(#[from] NoDecimal),
    /// What stands behind the number is no unit.
    #[error("`{unit}` is no unit of time; known: {KNOWN_TIMES}, or none, if no time has one")]
    Unit { unit: String },
}

impl FromStr for Amount {
    type Err = NoAmount;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // What a number may be is for the number to say: a unit starts with a letter, and ends the text.
        let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |last| last + 1);
        let (number, unit) = text.split_at(end);
        let (number, unit) = if end == 0 { (text, "") } else { (number, unit.trim()) };
        let number = number.parse()?;
        match unit {
            "" => Ok(Self { number, nanoseconds: None }),
            unit => match nanoseconds_in(unit) {
                None => Err(NoAmount::Unit { unit: unit.chars().take(40).collect() }),
                power => Ok(Self { number, nanoseconds: power }),
            },
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.nanoseconds {
            None => "",
            Some(0) => "ns",
            Some(3) => "us",
            Some(6) => "ms",
            Some(_) => "s",
        };
        write!(f, "{}{unit}", self.number)
    }
}

/// Bytes over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    /// So many per unit of time, whatever that is: `1000`.
    PerUnit(Decimal),
    /// `50GB/s`.
    PerSecond(Bandwidth),
}

/// A text that is no bandwidth.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRate {
    #[error("{0}; or per second, such as 50GB/s")]
    Number(#[from] NoDecimal),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error(
        "a bandwidth of 0: over such a link no message arrives; give more, or leave it out where messages are free"
    )]
    Zero,
}

impl FromStr for Rate {
    type Err = NoRate;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim_end().ends_with("/s") {
            return Ok(Self::PerSecond(text.parse()?));
        }
        let number: Decimal = text.parse()?;
        if number.as_f64() == 0.0 { Err(NoRate::Zero) } else { Ok(Self::PerUnit(number)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_from_numbers() {
        for (text, nanoseconds) in
            [("18.5", None), ("18.5ms", Some(6)), ("3 us", Some(3)), ("2S", Some(9)), ("7ns", Some(0))]
        {
            let amount: Amount = text.parse().expect(text);
            assert_eq!(amount.nanoseconds, nanoseconds, "{text}");
            assert_eq!(amount.to_string().parse(), Ok(amount));
        }
        for (text, part) in [
            ("", "`` is no number"),
            ("ms", "`ms` is no number"),
            ("-1ms", "`-1` is no number"),
            ("5min", "`min` is no unit of time; known: ns, us, ms, s"),
        ] {
            let error = text.parse::<Amount>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn bandwidths_are_plain_or_per_second() {
        assert!(matches!("1000.5".parse(), Ok(Rate::PerUnit(_))));
        assert_eq!("50GB/s".parse(), Ok(Rate::PerSecond(Bandwidth(5e10))));
        for (text, part) in [("50GB", "or per second, such as 50GB/s"), ("0", "no message arrives"), ("x/s", "50GB/s")]
        {
            let error = text.parse::<Rate>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
