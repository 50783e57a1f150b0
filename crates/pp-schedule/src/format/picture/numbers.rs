//! Numbers for people: as many digits as tell something.

/// Six digits that tell something, without zeros at the end: `28.5`, `0.0125`, `123457`.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_finite() { "0".to_owned() } else { value.to_string() };
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let text = format!("{value:.*}", (6 - before).clamp(0, 9) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A share in percent: `11.11 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_tell_something() {
        for (value, text) in [
            (0.0, "0"),
            (27.0, "27"),
            (28.5, "28.5"),
            (26.25, "26.25"),
            (1.0 / 3.0, "0.333333"),
            (123_456.7, "123457"),
            (1_234_567.0, "1234567"),
            (0.000_012_5, "0.0000125"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
