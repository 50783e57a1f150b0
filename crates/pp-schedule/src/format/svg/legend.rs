//! What everything in a timeline means.

use std::fmt::Write as _;

use super::boxes::outline;
use super::pen::{Px, text, text_width};
use super::shape::MARGIN;
use super::style::class;
use crate::format::palette;
use crate::format::picture::Picture;
use crate::work::WorkKind;

/// How large most samples are.
const SIZE: (f64, f64) = (24.0, 15.0);
/// How wide the sample of a chunk is.
const CHUNK: f64 = 11.0;

/// What an entry explains.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Kind(WorkKind),
    Chunks(u32),
    Pair,
    Wait,
    Idle,
}

/// Draws it below `top`, in an image so wide; returns where it ends.
pub(super) fn draw(out: &mut String, picture: &Picture<'_>, image: f64, top: f64) -> f64 {
    let n_chunks = picture.timeline.extent().placement.n_chunks();
    let mut entries: Vec<Entry> =
        WorkKind::ALL.into_iter().filter(|&kind| picture.has(kind)).map(Entry::Kind).collect();
    entries.extend((n_chunks > 1).then_some(Entry::Chunks(n_chunks)));
    entries.extend(picture.has_pairs().then_some(Entry::Pair));
    entries.extend([Entry::Wait, Entry::Idle]);
    let (mut x, mut y) = (MARGIN, top);
    for entry in entries {
        let meaning = entry.meaning();
        let whole = entry.width() + 6.0 + text_width(meaning.chars().count(), 11.0);
        if x > MARGIN && x + whole > image - MARGIN {
            (x, y) = (MARGIN, y + SIZE.1 + 8.0);
        }
        entry.draw(out, x, y);
        text(out, "key", (x + entry.width() + 6.0, y + 11.5), &meaning);
        x += whole + 14.0;
    }
    y + SIZE.1 + 20.0
}

impl Entry {
    fn meaning(self) -> String {
        match self {
            Self::Kind(kind) => format!("{} {}", kind.letter(), kind.name()),
            Self::Chunks(n_chunks) => format!("chunks 0 to {}", n_chunks - 1),
            Self::Pair => "overlapped pair".to_owned(),
            Self::Wait => "waiting".to_owned(),
            Self::Idle => "nothing yet, or done".to_owned(),
        }
    }

    fn width(self) -> f64 {
        if let Self::Chunks(n_chunks) = self { CHUNK * f64::from(palette::n_shades(n_chunks)) } else { SIZE.0 }
    }

    fn draw(self, out: &mut String, x: f64, y: f64) {
        let (width, height) = SIZE;
        match self {
            Self::Kind(kind) => sample(out, &class(kind, 0), (x, y), width),
            Self::Chunks(n_chunks) => {
                for shade in 0..palette::n_shades(n_chunks) {
                    sample(out, &class(WorkKind::Forward, shade), (x + CHUNK * f64::from(shade), y), CHUNK);
                }
            }
            Self::Pair => {
                sample(out, &class(WorkKind::Forward, 0), (x, y), width / 2.0);
                sample(out, &class(WorkKind::Backward, 0), (x + width / 2.0, y), width / 2.0);
                // Writing to a string cannot fail.
                let _ =
                    writeln!(out, "<path class=\"pair\" stroke-width=\"2\" d=\"{}\"/>", outline(x, y, width, height));
            }
            Self::Wait => {
                let _ = writeln!(out, "<path class=\"wait\" d=\"{}\"/>", outline(x, y + 4.0, width, height - 8.0));
            }
            Self::Idle => {
                let _ = writeln!(out, "<path class=\"idle\" d=\"M{} {}h{}\"/>", Px(x), Px(y + height / 2.0), Px(width));
            }
        }
    }
}

fn sample(out: &mut String, class: &str, (x, y): (f64, f64), width: f64) {
    let _ = writeln!(out, "<path class=\"box {class}\" d=\"{}\"/>", outline(x, y, width, SIZE.1));
}
