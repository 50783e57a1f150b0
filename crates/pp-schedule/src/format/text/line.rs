//! One line of a drawing: characters, some of them coloured.

use crate::format::palette::{self, Rgb};
use crate::work::WorkKind;

/// The colour of a character's background, as a number among a terminal's 256.
pub(super) type Paint = u8;

/// Characters by their place in the line.
#[derive(Debug, Default)]
pub(super) struct Line {
    cells: Vec<(char, Option<Paint>)>,
}

impl Line {
    /// A line that begins with `head`, padded to a width.
    pub(super) fn new(head: &str, width: usize) -> Self {
        let mut line = Self::default();
        line.put(0, head, None);
        line.reach(width);
        line
    }

    fn reach(&mut self, width: usize) {
        if self.cells.len() < width {
            self.cells.resize(width, (' ', None));
        }
    }

    /// Puts characters at a place, over what is there.
    pub(super) fn put(&mut self, at: usize, text: &str, paint: Option<Paint>) {
        for (offset, character) in text.chars().enumerate() {
            self.reach(at + offset + 1);
            self.cells[at + offset] = (character, paint);
        }
    }

    /// Appends the line and its end to a text, without blanks at the end.
    pub(super) fn push_to(&self, text: &mut String) {
        let length = self.cells.iter().rposition(|cell| *cell != (' ', None)).map_or(0, |last| last + 1);
        for run in self.cells[..length].chunk_by(|one, other| one.1 == other.1) {
            let characters = run.iter().map(|(character, _)| character);
            match run[0].1 {
                None => text.extend(characters),
                Some(paint) => {
                    text.push_str(&format!("\x1b[48;5;{paint};38;5;16m"));
                    text.extend(characters);
                    text.push_str("\x1b[0m");
                }
            }
        }
        text.push('\n');
    }
}

/// Labels above the rows, each where its time is, as many as do not touch each other.
pub(super) fn times(head: &str, margin: usize, labels: impl Iterator<Item = (usize, String)>, width: usize) -> Line {
    let mut line = Line::new(head, margin);
    let mut free = margin;
    for (at, label) in labels {
        let end = at + label.chars().count();
        if at >= free && end <= width {
            line.put(at, &label, None);
            free = end + 1;
        }
    }
    line
}

/// The colour of a kind in a shade, as near as a terminal has it.
pub(super) fn paint(kind: WorkKind, shade: u32, n_shades: u32) -> Paint {
    nearest(palette::fill(kind, shade, n_shades))
}

/// The nearest of the 6 x 6 x 6 colours that all terminals agree on.
fn nearest(colour: Rgb) -> Paint {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |channel: u8| (0..6u8).min_by_key(|&step| STEPS[step as usize].abs_diff(channel)).unwrap_or(0);
    let [red, green, blue] = colour.map(step);
    16 + 36 * red + 6 * green + blue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_colour_are_one_escape_sequence() {
        let mut line = Line::new("rank 0", 8);
        line.put(8, "0F0", Some(75));
        line.put(12, "..", None);
        line.put(16, "  ", None);
        let mut text = String::new();
        line.push_to(&mut text);
        assert_eq!(text, "rank 0  \x1b[48;5;75;38;5;16m0F0\x1b[0m ..\n");
    }

    #[test]
    fn labels_do_not_touch() {
        let labels = [(2, "10"), (4, "20"), (5, "30"), (9, "400")].map(|(at, label)| (at, label.to_owned()));
        let mut text = String::new();
        times("t", 2, labels.into_iter(), 10).push_to(&mut text);
        assert_eq!(text, "t 10 30\n");
    }

    #[test]
    fn kinds_have_colours_of_their_own() {
        let paints: std::collections::BTreeSet<_> = WorkKind::ALL.map(|kind| paint(kind, 0, 1)).into();
        assert_eq!(paints.len(), 4);
    }
}
