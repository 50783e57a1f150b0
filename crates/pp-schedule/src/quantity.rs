//! Sizes, times and bandwidths as people write them (`80GiB`, `24GB`, `1.2ms`, `50GB/s`), and back.

use std::fmt;
use std::str::FromStr;

/// Ticks where they are nanoseconds: in plans, in traces, and wherever times have units.
pub const TICKS_PER_SECOND: f64 = 1e9;

/// The most that is taken for a size, 1 PiB: sums over all layers stay within 64 bits.
const MAX_BYTES: f64 = (1_u64 << 50) as f64;

/// A number of bytes: `512`, `1.5e9`, `24GB` (powers of 1000), `80GiB` (powers of 1024), whatever the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A time: `1.2ms`, `300us`, `50ns`, `2s`; without a unit it is in milliseconds. Kept in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

/// Bytes per second, written as [`Bytes`] are, with or without `/s`: `50GB/s`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bandwidth(pub f64);

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No number stands in front.
    #[error("`{text}` does not start with a number of at least 0; write {example}")]
    Number {
        /// The text.
        text: String,
        /// Some that work.
        example: &'static str,
    },
    /// What stands behind the number is no unit.
    #[error("`{text}`: `{unit}` is no unit; known: {known}")]
    Unit {
        /// The text.
        text: String,
        /// What stands behind the number.
        unit: String,
        /// Units there are.
        known: &'static str,
    },
    /// More than can be reckoned with.
    #[error("`{text}` is more than {most}, the most that is taken")]
    TooLarge {
        /// The text.
        text: String,
        /// The most.
        most: &'static str,
    },
    /// A bandwidth of nothing.
    #[error(
        "`{text}`: over a link of bandwidth 0 no message arrives; write more, or leave it out where messages are free"
    )]
    NoBandwidth {
        /// The text.
        text: String,
    },
}

const BYTE_UNITS: [(&str, f64); 10] = [
    ("", 1.0),
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

/// Units of time in lower case, and the power of ten that makes them nanoseconds.
const TIME_UNITS: [(&str, u32); 6] = [("ns", 0), ("us", 3), ("\u{b5}s", 3), ("\u{3bc}s", 3), ("ms", 6), ("s", 9)];
/// The units of time, as messages list them.
pub(crate) const KNOWN_TIMES: &str = "ns, us, ms, s";

/// The power of ten that makes a unit of time, whatever its case, nanoseconds; `None` if it is none.
pub(crate) fn nanoseconds_in(unit: &str) -> Option<u32> {
    let unit = unit.to_lowercase();
    TIME_UNITS.into_iter().find(|(name, _)| *name == unit).map(|(_, power)| power)
}

/// The number in front and the unit behind it, in lower case.
fn split(text: &str, example: &'static str) -> Result<(f64, String), QuantityError> {
    let trimmed = text.trim();
    // An exponent's `e` belongs to the number only if digits follow; no unit starts with one.
    let is_number = |at: usize, c: char| {
        let before = trimmed[..at].chars().next_back();
        c.is_ascii_digit() || c == '.' || matches!(c, 'e' | 'E') || (c == '-' && matches!(before, Some('e' | 'E')))
    };
    let end = trimmed.char_indices().find(|&(at, c)| !is_number(at, c)).map_or(trimmed.len(), |(at, _)| at);
    let number: Option<f64> = trimmed[..end].parse().ok();
    match number.filter(|number| *number >= 0.0) {
        Some(number) => Ok((number, trimmed[end..].trim().to_lowercase())),
        None => Err(QuantityError::Number { text: text.to_owned(), example }),
    }
}

const KNOWN_SIZES: &str = "B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)";

fn bytes(text: &str, (number, unit): (f64, String)) -> Result<f64, QuantityError> {
    let Some((_, scale)) = BYTE_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(QuantityError::Unit { text: text.to_owned(), unit, known: KNOWN_SIZES });
    };
    let bytes = number * scale;
    // Not a number is neither.
    if bytes <= MAX_BYTES {
        Ok(bytes)
    } else {
        Err(QuantityError::TooLarge { text: text.to_owned(), most: "1024 TiB" })
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = bytes(text, split(text, "80GiB, 24GB or 1.5e9")?)?;
        // Whole numbers are taken as they are, however long.
        Ok(Self(text.trim().parse().unwrap_or(bytes.round() as u64)))
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = split(text, "1.2ms, 300us or 50ns")?;
        let Some(power) = nanoseconds_in(if unit.is_empty() { "ms" } else { &unit }) else {
            return Err(QuantityError::Unit { text: text.to_owned(), unit, known: KNOWN_TIMES });
        };
        let ticks = number * 10_f64.powi(power as i32);
        let too_large = || QuantityError::TooLarge { text: text.to_owned(), most: "86400 s" };
        if ticks <= Self::MAX.0 as f64 { Ok(Self(ticks.round() as u64)) } else { Err(too_large()) }
    }
}

impl Time {
    /// The most that is taken for a time: a day.
    pub const MAX: Self = Self(86_400 * TICKS_PER_SECOND as u64);
}

impl FromStr for Bandwidth {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = split(text, "50GB/s or 900GB/s")?;
        let unit = unit.strip_suffix("/s").unwrap_or(&unit).trim_end().to_owned();
        let bandwidth = bytes(text, (number, unit))?;
        if bandwidth > 0.0 { Ok(Self(bandwidth)) } else { Err(QuantityError::NoBandwidth { text: text.to_owned() }) }
    }
}

impl Bandwidth {
    /// How long so many bytes take, in ticks, rounded up; [`u64::MAX`] where that is more.
    pub fn ticks(self, bytes: u64) -> u64 {
        (bytes as f64 / self.0 * TICKS_PER_SECOND).ceil() as u64
    }
}

/// In the largest unit of which there is at least one, with four digits, or all where that is more.
fn in_units(f: &mut fmt::Formatter<'_>, value: f64, units: &[(&str, f64)]) -> fmt::Result {
    let Some(&(unit, scale)) = units.iter().find(|(_, scale)| value >= *scale).or(units.last()) else { return Ok(()) };
    let value = value / scale;
    let digits = match value {
        _ if value.fract() == 0.0 && scale <= 1.0 => 0,
        value if value < 10.0 => 3,
        value if value < 100.0 => 2,
        _ => 1,
    };
    // So that widths apply to the whole.
    f.pad(&format!("{value:.digits$} {unit}"))
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 7] = ["EiB", "PiB", "TiB", "GiB", "MiB", "KiB", "B"];
        let units: [(&str, f64); 7] = std::array::from_fn(|at| (NAMES[at], 1024_f64.powi(6 - at as i32)));
        in_units(f, self.0 as f64, &units)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        in_units(f, self.0 as f64, &[("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_powers_of_1000_and_1024() {
        for (text, bytes) in [
            ("80GiB", 80 << 30),
            ("24GB", 24_000_000_000),
            ("1.5e9", 1_500_000_000),
            ("1.5e-1 kb", 150),
            (" 2 mib ", 2 << 20),
            ("512", 512),
            ("0", 0),
            ("1.5TiB", 3 << 39),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn times_are_read_in_nanoseconds() {
        for (text, ticks) in
            [("1.2ms", 1_200_000), ("300us", 300_000), ("300µs", 300_000), ("2s", 2_000_000_000), ("7", 7_000_000)]
        {
            assert_eq!(text.parse(), Ok(Time(ticks)), "{text}");
        }
        assert_eq!("50GB/s".parse(), Ok(Bandwidth(5e10)));
        assert_eq!("50gib".parse::<Bandwidth>().map(|link| link.ticks(50 << 30)), Ok(1_000_000_000));
    }

    #[test]
    fn anything_else_is_refused_with_what_works() {
        for (text, part) in [
            ("", "80GiB"),
            ("GiB", "80GiB"),
            ("-5GB", "at least 0"),
            ("nan", "at least 0"),
            ("inf", "at least 0"),
            ("80G", "`g` is no unit"),
            ("80Gib/s", "is no unit"),
            ("1e300", "1024 TiB"),
            ("1.2.3GB", "80GiB"),
        ] {
            let error = text.parse::<Bytes>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!("5min".parse::<Time>().unwrap_err().to_string().contains("ns, us, ms, s"));
        assert!("2e5s".parse::<Time>().unwrap_err().to_string().contains("86400 s"));
        assert!("0GB/s".parse::<Bandwidth>().unwrap_err().to_string().contains("leave it out"));
    }

    #[test]
    fn what_is_written_can_be_read() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1023, "1023 B"),
            (1536, "1.500 KiB"),
            (80 << 30, "80.00 GiB"),
            (150 << 20, "150.0 MiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
        assert_eq!(Bytes(u64::MAX).to_string(), "16.00 EiB");
        for (ticks, text) in [(0, "0 ns"), (37, "37 ns"), (1_200_000, "1.200 ms"), (123_400_000_000, "123.4 s")] {
            assert_eq!(Time(ticks).to_string(), text);
            assert_eq!(text.parse(), Ok(Time(ticks)));
        }
    }
}
