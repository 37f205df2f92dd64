//! A table of text for a terminal. Each column is as wide as its widest cell.

use std::fmt;

/// Rows below a head row that names the columns.
#[derive(Debug)]
pub struct Table {
    /// How many columns stand on the left; the others stand on the right.
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows yet. The cells of the first `left` columns are aligned left, and all others right.
    pub fn new(left: usize, columns: &[&str]) -> Table {
        Table { left, rows: vec![columns.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row. It has as many cells as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

/// The lines of the table, without a line break at the end.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |text: &String| text.chars().count();
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column < self.left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            write!(f, "{}{}", if number > 0 { "\n" } else { "" }, line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(1, &["scope", "n", "note"]);
        table.row(["a".into(), "1000".into(), String::new()]);
        table.row(["größer".into(), "7".into(), "x".into()]);
        assert_eq!(table.to_string(), "scope      n  note\na       1000\ngrößer     7     x");
    }
}
