//! Text in aligned columns, for terminals of 80 columns.

use std::fmt;

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Rows of cells; every column is as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Columns {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    pub(crate) fn new(sides: impl IntoIterator<Item = Side>) -> Self {
        Self { sides: sides.into_iter().collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.sides.len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, side), width) in row.iter().zip(&self.sides).zip(&widths) {
                line.push_str("  ");
                match side {
                    Side::Left => line.push_str(&format!("{cell:<width$}")),
                    Side::Right => line.push_str(&format!("{cell:>width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A log's key for the terminal: control characters escaped, at most `width` characters.
pub(crate) fn printable(key: &[u8], width: usize) -> String {
    let text = String::from_utf8_lossy(key);
    let mut shown = String::new();
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    match shown.char_indices().nth(width) {
        None => shown,
        Some(_) => shown.chars().take(width - 3).chain("...".chars()).collect(),
    }
}

/// Replaces the narrow spaces of the report's figures, which not every terminal shows.
pub(crate) fn ascii_spaces(figure: String) -> String {
    figure.replace('\u{202f}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut columns = Columns::new([Side::Left, Side::Right]);
        columns.row(["a".to_owned(), "1,000".to_owned()]);
        columns.row(["bcd".to_owned(), "7".to_owned()]);
        columns.row(["e".to_owned()]);
        assert_eq!(columns.to_string(), "  a    1,000\n  bcd      7\n  e\n");
    }

    #[test]
    fn a_key_cannot_disturb_the_terminal() {
        assert_eq!(printable(b"\x1b[2J\xff", 40), "\\u{1b}[2J\u{fffd}");
        assert_eq!(printable(b"0123456789", 10), "0123456789");
        assert_eq!(printable(b"0123456789a", 10), "0123456...");
    }
}
