//! Small pieces of SVG text.

use std::fmt::{self, Write as _};

/// A coordinate with at most two decimals and no more characters than it needs.
pub(super) struct Px(pub(super) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (self.0 * 100.0).round() as i64;
        let (whole, rest) = (hundredths / 100, (hundredths % 100).abs());
        if hundredths < 0 && whole == 0 {
            f.write_str("-")?;
        }
        match rest {
            0 => write!(f, "{whole}"),
            rest if rest % 10 == 0 => write!(f, "{whole}.{}", rest / 10),
            rest => write!(f, "{whole}.{rest:02}"),
        }
    }
}

/// About how wide a text is, in pixels: digits and most letters of the fonts asked for are narrower.
pub(super) fn text_width(n_chars: usize, font: f64) -> f64 {
    n_chars as f64 * font * 0.6
}

/// A line of text; `class` says how it looks.
pub(super) fn text(out: &mut String, class: &str, (x, y): (f64, f64), text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>", Px(x), Px(y), super::escape(text));
}

/// Words in lines of at most `n_chars`; a longer word gets a line of its own.
pub(super) fn wrap(text: &str, n_chars: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= n_chars => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        for (value, text) in
            [(12.0, "12"), (0.5, "0.5"), (-0.25, "-0.25"), (3.211_59, "3.21"), (2.999, "3"), (7.05, "7.05")]
        {
            assert_eq!(Px(value).to_string(), text);
        }
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible", 4), ["incomprehensible"]);
        assert!(wrap(" ", 4).is_empty());
    }
}
