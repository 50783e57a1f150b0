//! A mesh as text: one grid of its ranks, and the groups below.

use std::fmt;

use pp_schedule::Rank;

use super::axis::{Axis, Coordinates};
use super::shape::Mesh;

/// Up to this many rows and columns are all shown, and this many groups of an axis.
const MOST_SHOWN: u32 = 8;
const MOST_GROUPS: u32 = 64;

/// Lists of groups are broken before this many characters.
const WIDTH: usize = 100;

/// A row per pipeline rank, a column per data-parallel rank, the tensor-parallel ranks within a cell; below it the
/// members of every axis' groups. Beyond 8 rows or columns, and beyond 64 groups of an axis, only the first and the
/// last are shown.
impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tp, dp, pp) = (self.tp(), self.dp(), self.pp());
        let ranks = if self.n_ranks() == 1 { "rank" } else { "ranks" };
        writeln!(f, "{} {ranks}: tp {tp} x dp {dp} x pp {pp}, rank = tp + {tp} * (dp + {dp} * pp)", self.n_ranks())?;
        self.write_grid(f)?;
        Axis::ALL.into_iter().filter(|&axis| axis != Axis::All).try_for_each(|axis| self.write_groups(f, axis))
    }
}

impl Mesh {
    fn write_grid(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |dp: u32, pp: u32| {
            let ranks = (0..self.tp()).filter_map(|tp| self.rank(Coordinates { tp, dp, pp }));
            ranks_text(&ranks.collect::<Vec<_>>())
        };
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(shown(self.dp()).map(|dp| dp.map_or_else(|| "..".to_owned(), |dp| format!("dp {dp}"))));
        for pp in shown(self.pp()) {
            let head = pp.map_or_else(|| "..".to_owned(), |pp| format!("pp {pp}"));
            let cells = shown(self.dp()).map(|dp| match (dp, pp) {
                (Some(dp), Some(pp)) => cell(dp, pp),
                _ => "..".to_owned(),
            });
            rows.push(std::iter::once(head).chain(cells).collect());
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
        for (index, row) in rows.iter().enumerate() {
            write!(f, "{:<1$}{2}", row[0], widths[0], if index == 0 { "  " } else { " |" })?;
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                write!(f, "  {cell:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn write_groups(&self, f: &mut fmt::Formatter<'_>, axis: Axis) -> fmt::Result {
        let n_groups = self.n_groups(axis);
        let size = self.memberships(axis).next().map_or(0, |ranks| ranks.len());
        let noun = if n_groups == 1 { "group" } else { "groups" };
        let mut line = format!("{:<9} ({n_groups} {noun} of {size}):", axis.name());
        let separator = |index: usize| if index == 0 { " " } else { " | " };
        let numbers: Vec<Option<u32>> = shown_of(n_groups, MOST_GROUPS).collect();
        for (index, number) in numbers.into_iter().enumerate() {
            let text = number.map_or_else(|| "..".to_owned(), |number| ranks_text(&self.members(axis, number)));
            if line.len() + text.len() + 3 > WIDTH {
                writeln!(f, "{line}{}", if index == 0 { "" } else { " |" })?;
                line = format!("{:<9} {text}", "");
            } else {
                line.push_str(separator(index));
                line.push_str(&text);
            }
        }
        writeln!(f, "{line}")
    }
}

/// The numbers that are shown of `0..n`: all, or the first ones, a gap, and the last.
fn shown(n: u32) -> impl Iterator<Item = Option<u32>> {
    shown_of(n, MOST_SHOWN)
}

fn shown_of(n: u32, most: u32) -> impl Iterator<Item = Option<u32>> {
    let (first, gap) = if n <= most { (n, false) } else { (2, true) };
    (0..first).map(Some).chain(gap.then_some(None)).chain(gap.then(|| Some(n - 1)))
}

/// Ranks as text: each up to four of them, beyond that runs of neighbours and steps (`0-7`, `0,8..56`).
fn ranks_text(ranks: &[Rank]) -> String {
    if ranks.len() <= 4 {
        return ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    }
    let mut texts = Vec::new();
    let mut rest = ranks;
    while let [first, tail @ ..] = rest {
        let step = tail.first().map_or(1, |second| second.0 - first.0);
        let n_run = 1 + tail.iter().zip(rest).take_while(|(next, before)| next.0 - before.0 == step).count();
        let last = rest[n_run - 1];
        texts.push(match (n_run, step) {
            (1, _) => first.to_string(),
            (2, _) => format!("{first} {last}"),
            (_, 1) => format!("{first}-{last}"),
            _ => format!("{first},{}..{last}", tail[0]),
        });
        rest = &rest[n_run..];
    }
    texts.join(" ")
}
