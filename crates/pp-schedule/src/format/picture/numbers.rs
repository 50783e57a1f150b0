//! Numbers for people: as many digits as tell something.

/// Six digits that tell something, without zeros at the end: `28.5`, `0.0125`, `123457`.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_finite() { "0".to_owned() } else { value.to_string() };
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let text = format!("{value:.*}", (6 - before).clamp(0, 9) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A share in percent: `11.11 %`.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Bytes in the largest binary unit that leaves a whole: `1.25 GiB`, `768 B`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let value = bytes as f64 / 1024f64.powi(power as i32);
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {}", UNITS[power as usize - 1])
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

    #[test]
    fn bytes_are_in_binary_units() {
        for (value, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1_342_177_280, "1.25 GiB"),
            (150 << 20, "150 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }
}
