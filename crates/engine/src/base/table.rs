//! A table of text for a terminal. Each column is as wide as its widest cell.

use std::fmt;

/// The side of the column on which a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows below a head row that names the columns.
#[derive(Debug)]
pub struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows yet.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Table {
        let (head, aligns) = columns.into_iter().map(|(name, align)| (name.to_string(), align)).unzip();
        Table { aligns, rows: vec![head] }
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
        let columns: Vec<(usize, Align)> = (0..).map(width).zip(self.aligns.iter().copied()).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&columns).map(|(cell, &(width, align))| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            write!(f, "{}{}", if number > 0 { "\n" } else { "" }, line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, Table};

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("scope", Align::Left), ("n", Align::Right), ("note", Align::Left)]);
        table.row(["a".into(), "1000".into(), String::new()]);
        table.row(["größer".into(), "7".into(), "x".into()]);
        assert_eq!(table.to_string(), "scope      n  note\na       1000\ngrößer     7  x");
    }
}
