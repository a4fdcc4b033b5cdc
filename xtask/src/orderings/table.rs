//! The table of `docs/proof/orderings.md`: each weakening, with the model that catches it or the
//! reason why none does.
//!
//! `cargo xtask mutate-orderings` prints the table, and tries the model of the table first. A test
//! compares its rows with the sources.

use std::path::Path;
use std::{fs, io};

/// The result of a weakening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This model fails, named `file::test`.
    Caught(String),
    /// No model can catch the weakening; the reason why the ordering stays.
    Kept(String),
    /// No model catches the weakening, and there is no reason.
    Survived,
}

impl Verdict {
    fn parse(text: &str) -> Option<Self> {
        if let Some(model) = text.strip_prefix('`') {
            return Some(Self::Caught(model.strip_suffix('`')?.into()));
        }
        text.strip_prefix("kept: ").map(|why| Self::Kept(why.into()))
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Caught(model) => write!(f, "`{model}`"),
            Self::Kept(why) => write!(f, "kept: {why}"),
            Self::Survived => f.write_str("**survived**"),
        }
    }
}

/// The rows of the page as in [`Weakening::row`](super::ledger::Weakening::row), with their
/// verdicts.
#[derive(Debug)]
pub(super) struct Table(Vec<(String, Option<Verdict>)>);

/// The head of the table.
pub(super) const HEAD: &str = "| where | ordering | weakened to | edges | caught by |\n|---|---|---|---|---|";

impl Table {
    /// Reads the page.
    pub(super) fn read(root: &Path) -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string(root.join("docs/proof/orderings.md"))?))
    }

    fn parse(page: &str) -> Self {
        let after = page.split_once(HEAD).map_or("", |(_, after)| after);
        let rows = after.trim_start_matches('\n').lines().take_while(|line| line.starts_with("| `"));
        Self(
            rows.filter_map(split_verdict)
                .map(|(row, verdict)| (row.into(), Verdict::parse(verdict)))
                .collect(),
        )
    }

    /// Returns the verdict of a row.
    pub(super) fn verdict(&self, row: &str) -> Option<&Verdict> {
        self.0.iter().find(|(known, _)| known == row)?.1.as_ref()
    }
}

/// Splits a row into its first four columns and the last.
fn split_verdict(line: &str) -> Option<(&str, &str)> {
    let (ends, _) = line.match_indices(" | ").nth(3)?;
    let verdict = line[ends + 3..].strip_suffix(" |")?;
    Some((&line[..ends + 2], verdict))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orderings::ledger::Ledger;
    use crate::root;

    fn page() -> Table {
        Table::read(root()).expect("the page can be read")
    }

    #[test]
    fn the_page_has_a_row_for_each_ordering_only() {
        let ledger = Ledger::read(root()).expect("the sources can be read");
        let rows: Vec<String> = ledger.weakenings().iter().map(|weakening| weakening.row()).collect();
        let shown: Vec<String> = page().0.into_iter().map(|(row, _)| row).collect();
        assert_eq!(shown, rows, "docs/proof/orderings.md: `cargo xtask mutate-orderings` prints the table");
    }

    #[test]
    fn every_row_has_a_model_that_exists_or_a_reason() {
        for (row, verdict) in page().0 {
            match verdict {
                Some(Verdict::Caught(model)) => {
                    let (file, test) = model.split_once("::").expect("a model is a file and a test");
                    let models = fs::read_to_string(root().join(format!("loom-tests/tests/{file}.rs")));
                    let models = models.expect("the file of the model is there");
                    assert!(models.contains(&format!("fn {test}()")), "{row} {model} is not written");
                }
                Some(Verdict::Kept(why)) => assert!(why.len() > 20, "{row} says too little"),
                _ => panic!("{row} names no model and no reason"),
            }
        }
    }

    #[test]
    fn every_model_of_an_edge_is_run() {
        let read = |path: &str| fs::read_to_string(root().join(path)).expect("the models can be read");
        let models: String =
            ["mod", "growth", "log"].map(|file| read(&format!("src/table/edges/{file}.rs"))).concat();
        let list = read("loom-tests/tests/edges.rs");
        let names: Vec<_> =
            models.lines().filter_map(|line| line.strip_prefix("pub ")?.strip_suffix(" {")).collect();
        assert!(names.len() > 20, "the models must be found");
        for name in names {
            assert!(list.contains(&format!("    {name};\n")), "{name} is not in loom-tests/tests/edges.rs");
        }
    }

    #[test]
    fn a_row_is_split_from_its_verdict() {
        let page = format!(
            "{HEAD}\n| `src/a.rs: f` | Acquire | Relaxed | S1, S2 | `slots::one` |\n| `src/a.rs: g` | Release | Relaxed | S1 | kept: so | it is |\n\nmore"
        );
        let table = Table::parse(&page);
        let of = |function: &str, ordering: &str, edges: &str| {
            table.verdict(&format!("| `src/a.rs: {function}` | {ordering} | Relaxed | {edges} |")).cloned()
        };
        assert_eq!(of("f", "Acquire", "S1, S2"), Some(Verdict::Caught("slots::one".into())));
        assert_eq!(of("g", "Release", "S1"), Some(Verdict::Kept("so | it is".into())));
        assert_eq!(of("h", "Release", "S1"), None);
    }
}
