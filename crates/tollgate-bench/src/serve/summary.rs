//! All targets in one table, for the terminal and for a page.

use std::path::Path;

use crate::error::BenchError;

/// Between these lines of a page is the table.
const BEGIN: &str = "<!-- begin: tollgate-bench serve -->\n";
const END: &str = "<!-- end: tollgate-bench serve -->\n";

/// A target, and the figure that was measured.
pub(super) struct Row {
    pub(super) what: String,
    /// Not a number: other programs disturbed the measurement, which tells nothing.
    pub(super) figure: f64,
    pub(super) at_most: f64,
    pub(super) unit: &'static str,
    /// The spread, or what else a reader needs to know.
    pub(super) note: String,
}

/// The targets of a run, and what stands below them.
#[derive(Default)]
pub(super) struct Summary {
    rows: Vec<Row>,
    below: String,
}

impl Summary {
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a table that has no targets.
    pub(super) fn append(&mut self, table: String) {
        self.below += "\n";
        self.below += &table;
    }

    pub(super) fn is_missed(&self) -> bool {
        self.rows.iter().any(|row| !row.is_met())
    }

    /// The table. `head` says of what machine it is.
    pub(super) fn table(&self, head: &str) -> String {
        let rows: String = self.rows.iter().map(Row::line).collect();
        format!("{head}\n\n| | measured | at most | |\n|---|---|---|---|\n{rows}{}", self.below)
    }
}

impl Row {
    fn is_met(&self) -> bool {
        self.figure <= self.at_most
    }

    fn line(&self) -> String {
        let Self { what, figure, at_most, unit, note } = self;
        if figure.is_nan() {
            return format!("| {what} | disturbed{note} | {at_most}{unit} | **not measured** |\n");
        }
        let verdict = if self.is_met() { "met" } else { "**missed**" };
        format!("| {what} | {figure:.2}{unit}{note} | {at_most}{unit} | {verdict} |\n")
    }
}

/// Puts a table into a page, in the place of the one that is there.
pub(super) fn write_into(page: &Path, table: &str) -> Result<(), BenchError> {
    let text = std::fs::read_to_string(page).map_err(|error| BenchError::file(page, error))?;
    let text = replaced(&text, table)
        .ok_or_else(|| BenchError::invalid(page, format!("it has no lines {BEGIN}and {END}")))?;
    std::fs::write(page, text).map_err(|error| BenchError::file(page, error))
}

fn replaced(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_the_one_before() {
        let page = format!("# A\n{BEGIN}old{END}\nrest\n");
        let once = replaced(&page, "| a |").unwrap();
        assert_eq!(once, format!("# A\n{BEGIN}\n| a |\n{END}\nrest\n"));
        assert_eq!(replaced(&once, "| a |"), Some(once));
        assert_eq!(replaced("# A\n", "| a |"), None);
    }

    #[test]
    fn one_missed_target_fails_the_run() {
        let row = |figure| Row { what: "a".to_owned(), figure, at_most: 1.0, unit: "", note: String::new() };
        let mut summary = Summary::default();
        summary.add(row(1.0));
        assert!(!summary.is_missed());
        summary.add(row(1.01));
        assert!(summary.is_missed());
        summary.append("| b |\n".to_owned());
        assert!(summary.table("").ends_with("| a | 1.01 | 1 | **missed** |\n\n| b |\n"));
        let mut disturbed = Summary::default();
        disturbed.add(row(f64::NAN));
        assert!(disturbed.is_missed() && disturbed.table("").contains("**not measured**"));
    }
}
