//! Decimal numbers, exactly: costs become whole ticks without rounding.

use std::fmt;
use std::str::FromStr;

/// A non-negative decimal number as it was typed, such as `0.25`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u64,
    /// Digits after the point.
    places: u32,
}

/// The most digits after the point.
const MAX_PLACES: u32 = 9;

impl Decimal {
    /// Digits after the point.
    pub(super) const fn places(self) -> u32 {
        self.places
    }

    /// The number times 10^`places`; `None` where that is no whole number of 64 bits.
    pub(super) fn scaled(self, places: u32) -> Option<u64> {
        self.digits.checked_mul(10_u64.checked_pow(places.checked_sub(self.places)?)?)
    }

    /// The nearest floating-point number.
    pub(super) fn as_f64(self) -> f64 {
        self.digits as f64 / 10_f64.powi(self.places as i32)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

/// A text that is no such number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no number of at least 0, such as 12 or 0.25")]
pub(super) struct NoDecimal {
    text: String,
}

impl FromStr for Decimal {
    type Err = NoDecimal;

    /// Exactly where it has at most [`MAX_PLACES`] digits after the point; other forms of numbers, such as `1e-3` or a third
    /// with all its digits, are rounded to as many.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || NoDecimal { text: text.chars().take(40).collect() };
        if let Some(exact) = exactly(text) {
            return Ok(exact);
        }
        let starts = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let number = text.parse::<f64>().ok().filter(|number| starts && number.is_finite()).ok_or_else(error)?;
        exactly(&format!("{number:.*}", MAX_PLACES as usize)).ok_or_else(error)
    }
}

/// Digits, and perhaps a point and more digits.
fn exactly(text: &str) -> Option<Decimal> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= MAX_PLACES)?;
    Some(Decimal { digits: format!("{whole}{fraction}").parse().ok()?, places })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_exactly() {
        for (text, places, scaled) in [("0", 0, 0), ("12", 0, 12_000), ("0.250", 2, 250), ("7.0", 0, 7000)] {
            let number: Decimal = text.parse().expect(text);
            assert_eq!((number.places(), number.scaled(3)), (places, Some(scaled)), "{text}");
        }
        assert_eq!("0.25".parse::<Decimal>().expect("a number").scaled(1), None);
    }

    #[test]
    fn other_forms_are_rounded() {
        for (text, nanos) in [
            ("0.3333333333333333", 333_333_333),
            ("0.30000000000000004", 300_000_000),
            ("1e-05", 10_000),
            (".5", 500_000_000),
            ("1.", 1_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("0.0000000001", 0),
        ] {
            assert_eq!(text.parse::<Decimal>().expect(text).scaled(9), Some(nanos), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", ".", "-1", "+1", "1,5", "nan", "inf", "infinity", "1e300", "99999999999999999999", "é"] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }
}
