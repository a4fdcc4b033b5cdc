//! The two tables of `README.md` that the tests follow.

const README: &str = include_str!("README.md");

/// An expectation that we contradict on purpose.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contradicted {
    pub(crate) id: String,
    /// Counted from 1.
    pub(crate) step: usize,
    pub(crate) field: String,
}

/// The scenarios that are not replayed.
pub(crate) fn left_out() -> Vec<String> {
    rows("## Left out").into_iter().map(|cells| code(&cells[0])).collect()
}

/// The expectations that must fail.
pub(crate) fn contradicted() -> Vec<Contradicted> {
    let contradicted = rows("## Contradicted").into_iter().map(|cells| Contradicted {
        id: code(&cells[0]),
        step: cells[1].parse().unwrap_or_else(|_| panic!("{} should be the number of a step", cells[1])),
        field: code(&cells[2]),
    });
    contradicted.collect()
}

/// Returns the rows, split into cells, of the table in the section with this heading. Every row
/// needs a reason.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let mut lines = README.lines();
    assert!(lines.any(|line| line == heading), "README.md has no section {heading:?}");
    let section = lines.take_while(|line| !line.starts_with("## "));
    let table: Vec<_> = section.filter(|line| line.starts_with('|')).map(cells).collect();
    let (_head, rows) = table.split_at_checked(2).expect("a head and a ruler");
    for row in rows {
        assert_eq!(row.len(), table[0].len(), "{row:?} does not fit its table");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?} leaves something out");
    }
    rows.to_vec()
}

fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// A cell without its backticks.
fn code(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}
