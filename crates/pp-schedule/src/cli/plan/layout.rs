//! Names and tables.

use crate::plan::{Candidate, Recompute};

/// A candidate in words.
pub(super) fn name(candidate: &Candidate) -> String {
    let spec = &candidate.spec;
    let mut text = super::super::title::of_config(&candidate.config);
    if candidate.n_replicas > 1 {
        text += &format!(", {} replicas", candidate.n_replicas);
    }
    if let Some(size) = spec.group_size.filter(|_| !text.contains(" in groups of ")) {
        text += &format!(" in groups of {size}");
    }
    match candidate.recompute {
        Recompute::None => text,
        Recompute::Selective => text + ", attention computed again",
        Recompute::Full => text + ", layers computed again",
    }
}

/// Rows under a head, columns as wide as they have to be; numbers stand to the right. The last column is not padded.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([head[at].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let is_number = |at: usize| {
        let starts_with_digit = |row: &Vec<String>| row[at].starts_with(|c: char| c.is_ascii_digit() || c == '-');
        at + 1 < head.len() && !rows.is_empty() && rows.iter().all(starts_with_digit)
    };
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().enumerate().map(|(at, cell)| match is_number(at) {
            true => format!("{cell:>width$}", width = widths[at]),
            false => format!("{cell:<width$}", width = widths[at]),
        });
        let line = padded.collect::<Vec<_>>().join("  ");
        format!("  {}\n", line.trim_end())
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn numbers_stand_to_the_right() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = table(&["name", "n", "why"], &[row(["a", "5", "x"]), row(["long one", "12", ""])]);
        assert_eq!(text, "  name       n  why\n  a          5  x\n  long one  12\n");
    }
}
