//! Tables of text.

/// Rows under a head, columns as wide as they have to be, numbers to the right; each line after so many blanks.
pub(super) fn table(indent: usize, head: &[&str], rows: &[Vec<String>]) -> String {
    let columns: Vec<Column> = (0..head.len()).map(|at| Column::new(head[at], rows, at)).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&columns).map(|(cell, column)| column.pad(cell)).collect();
        format!("{:indent$}{}\n", "", padded.join("  ").trim_end())
    };
    let head = line(&mut head.iter().copied());
    rows.iter().fold(head, |text, row| text + &line(&mut row.iter().map(String::as_str)))
}

struct Column {
    width: usize,
    has_numbers: bool,
}

impl Column {
    fn new(head: &str, rows: &[Vec<String>], at: usize) -> Self {
        let cells = || rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
        let width = cells().chain([head]).map(|cell| cell.chars().count()).max().unwrap_or(0);
        Self { width, has_numbers: !rows.is_empty() && cells().all(is_number) }
    }

    fn pad(&self, cell: &str) -> String {
        let width = self.width;
        if self.has_numbers { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    }
}

/// A number, whatever follows it, or that there is none.
fn is_number(cell: &str) -> bool {
    let first = cell.split(' ').next().unwrap_or_default();
    first == "-" || first.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn numbers_stand_to_the_right() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = table(2, &["name", "n", "why"], &[row(["a", "5", "x"]), row(["long one", "12.5 ms", ""])]);
        assert_eq!(text, "  name            n  why\n  a               5  x\n  long one  12.5 ms\n");
        let text = table(0, &["layers", "n"], &[row(["0-3", "-", ""]), row(["4", "10", ""])]);
        assert_eq!(text, "layers   n\n0-3      -\n4       10\n");
        assert_eq!(table(1, &["a"], &[]), " a\n");
    }
}
