//! The timeline as text, for terminals and files: a row per rank, time from left to right, never wider than it may be.
//!
//! Three drawings, from most to least detail; the first that takes no more than some screens is taken:
//!
//! 1. every computation as its token, in columns of equal time, cut into panels;
//! 2. computations as long as their time, with as much of their token as fits them;
//! 3. one panel that shows how busy ranks, or groups of ranks, are.

mod line;
mod proportional;
mod shaded;
mod table;
#[cfg(test)]
mod tests;

use crate::simulate::{Scale, Timeline};

/// The narrowest width a drawing fits into, in characters.
pub const MIN_WIDTH: usize = 24;
/// The most lines that a drawing takes if one with less detail takes fewer.
const MAX_LINES: usize = 100;
/// The most rows of a panel.
const MAX_ROWS: usize = 64;

/// How a timeline is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style<'a> {
    /// Characters per line, at least [`MIN_WIDTH`].
    pub width: usize,
    /// Whether to colour computations by kind, with the escape sequences of terminals that have 256 colours.
    pub colour: bool,
    /// The unit of the times above the rows; ticks without.
    pub scale: Option<&'a Scale>,
}

/// Draws a timeline without colours, times in ticks. Each computation stands as its token (`2F0`: stage, kind, microbatch)
/// where it starts; `-` goes on for as long as it takes, and `.` is a rank that waits.
///
/// ```
/// use pp_schedule::simulate::{Costs, Timeline};
/// use pp_schedule::{Order, ScheduleConfig, ScheduleSpec, format::text};
/// let order = Order::generate(&ScheduleConfig::new(&ScheduleSpec::new(2, 1, 2)).unwrap());
/// let timeline = Timeline::of_order(&order, &Costs::UNIT).unwrap();
/// assert_eq!(
///     text::draw(&timeline, 80),
///     "time   0   1   2   3   4   5   6   7   8\n\
///      rank 0 0F0 0F1 .   .   0B0 --- .   0B1 ---\n\
///      rank 1 .   1F0 1B0 --- 1F1 1B1 --- .   .\n"
/// );
/// ```
pub fn draw(timeline: &Timeline, width: usize) -> String {
    draw_with(timeline, Style { width, colour: false, scale: None })
}

/// Draws a timeline in a style.
///
/// ```
/// use pp_schedule::simulate::{Costs, StageCosts, Timeline};
/// use pp_schedule::{Order, ScheduleConfig, ScheduleSpec, format::text};
/// let order = Order::generate(&ScheduleConfig::new(&ScheduleSpec::new(2, 1, 2)).unwrap());
/// let costs = StageCosts { forward: 997, backward: 1801, backward_input: 900, backward_weight: 901 };
/// let timeline = Timeline::of_order(&order, &Costs::uniform(costs)).unwrap();
/// assert_eq!(
///     text::draw(&timeline, 50),
///     "time   0                         5000\n\
///      rank 0 F0---F1---.........B0--------.....B1-------\n\
///      rank 1 .....F0---B0-------F1----B1-------.........\n\
///      one character is 195.209 ticks\n"
/// );
/// ```
pub fn draw_with(timeline: &Timeline, style: Style<'_>) -> String {
    let width = style.width.max(MIN_WIDTH);
    let style = Style { width, ..style };
    table::draw(timeline, style)
        .or_else(|| proportional::draw(timeline, style))
        .unwrap_or_else(|| shaded::draw(timeline, style))
}

/// A time as it stands above the rows.
fn time(ticks: u64, scale: Option<&Scale>) -> String {
    scale.map_or_else(|| ticks.to_string(), |scale| super::picture::numbers::short(scale.of(ticks)))
}

/// Whether so many panels are few enough to be drawn.
fn is_short(n_panels: usize, n_ranks: usize) -> bool {
    n_ranks <= MAX_ROWS && (n_panels == 1 || n_panels.saturating_mul(n_ranks + 2) <= MAX_LINES)
}

/// What stands before a rank's row, as wide as the widest.
fn margin(n_ranks: usize) -> usize {
    format!("rank {} ", n_ranks.saturating_sub(1)).len()
}

/// The scale of a drawing that has no unit.
fn or_ticks(scale: Option<&Scale>) -> Scale {
    scale.cloned().unwrap_or(Scale { ticks_per_unit: 1.0, unit: "ticks".to_owned() })
}
