//! The orderings of the engine, and the happens-before edges that they cite.
//!
//! A file lists its edges in a table of its documentation (`//! | S1 | ...`). An ordering other
//! than `Relaxed` cites its edges in a comment at the end of its line, or alone on the next line
//! where a block begins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// An ordering in the sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Site {
    /// The path from the root of the repository, with slashes.
    pub(super) path: String,
    /// The line, from 1.
    pub(super) line: usize,
    /// The bytes before the ordering in its line.
    pub(super) column: usize,
    /// The function of the ordering.
    pub(super) function: String,
    pub(super) ordering: &'static str,
    pub(super) edges: Vec<String>,
}

impl Site {
    fn location(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }

    /// Returns the orderings that are a step weaker.
    pub(super) fn weaker(&self) -> &'static [&'static str] {
        match self.ordering {
            "SeqCst" => &["AcqRel"],
            "AcqRel" => &["Acquire", "Release"],
            _ => &["Relaxed"],
        }
    }

    fn is_on(&self, side: &str) -> bool {
        [side, "AcqRel", "SeqCst"].contains(&self.ordering)
    }
}

/// A weakening of one ordering.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weakening<'l> {
    /// The index of the site in the ledger.
    pub(super) number: usize,
    pub(super) site: &'l Site,
    pub(super) weaker: &'static str,
}

impl Weakening<'_> {
    /// Returns the row of the table without the verdict. It names the function, because lines move.
    pub(super) fn row(&self) -> String {
        let Site { path, function, ordering, edges, .. } = self.site;
        format!("| `{path}: {function}` | {ordering} | {} | {} |", self.weaker, edges.join(", "))
    }
}

/// All edges and all orderings of the engine.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    edges: BTreeSet<String>,
    pub(super) sites: Vec<Site>,
}

const ORDERINGS: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

impl Ledger {
    /// Reads `src` of the repository.
    pub(super) fn read(root: &Path) -> io::Result<Self> {
        let mut ledger = Self::default();
        for path in sources(&root.join("src"))? {
            let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            ledger.add(&relative, &fs::read_to_string(&path)?);
        }
        Ok(ledger)
    }

    fn add(&mut self, path: &str, text: &str) {
        self.edges.extend(text.lines().filter_map(listed_edge));
        let lines: Vec<_> = text.lines().take_while(|line| *line != "#[cfg(test)]").collect();
        let mut function = "";
        for (index, line) in lines.iter().enumerate() {
            let (code, comment) = line.split_once("//").unwrap_or((line, ""));
            function = declared_function(code).unwrap_or(function);
            if code.trim_start().starts_with("use ") || code.trim_start().starts_with("pub(crate) use ") {
                continue;
            }
            let below = lines.get(index + 1).and_then(|line| line.trim().strip_prefix("//"));
            let mut edges = cited_edges(comment);
            if edges.is_empty() {
                edges = cited_edges(below.unwrap_or_default());
            }
            let found = orderings_in(code).into_iter().map(|(column, ordering)| Site {
                path: path.into(),
                line: index + 1,
                column,
                function: function.into(),
                ordering,
                edges: edges.clone(),
            });
            self.sites.extend(found);
        }
    }

    /// Returns every weakening of every ordering.
    pub(super) fn weakenings(&self) -> Vec<Weakening<'_>> {
        let each = |(number, site): (usize, _)| {
            let site: &Site = site;
            site.weaker().iter().map(move |&weaker| Weakening { number, site, weaker })
        };
        self.sites.iter().enumerate().flat_map(each).collect()
    }

    /// Returns the errors: orderings without an edge, edges that no table lists, and edges without
    /// a release or an acquire.
    pub(super) fn offences(&self) -> Vec<String> {
        let mut offences = Vec::new();
        for site in &self.sites {
            if site.edges.is_empty() {
                offences.push(format!("{}: {} cites no edge", site.location(), site.ordering));
            }
            let unknown = site.edges.iter().filter(|edge| !self.edges.contains(*edge));
            offences.extend(unknown.map(|edge| format!("{}: {edge} is in no ledger", site.location())));
        }
        for edge in &self.edges {
            let missing = ["Release", "Acquire"]
                .into_iter()
                .filter(|side| !self.sites.iter().any(|site| site.edges.contains(edge) && site.is_on(side)));
            offences.extend(missing.map(|side| format!("no {side} cites {edge}")));
        }
        offences
    }
}

/// Returns every source file in the folder, sorted.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a word is the name of an edge: a capital letter and a digit.
fn is_edge(word: &str) -> bool {
    matches!(word.as_bytes(), [letter, digit] if letter.is_ascii_uppercase() && digit.is_ascii_digit())
}

/// Returns the edge in a row of a table.
fn listed_edge(line: &str) -> Option<String> {
    let (edge, _) = line.strip_prefix("//! | ")?.split_once(" |")?;
    is_edge(edge).then(|| edge.into())
}

/// Returns the edges at the beginning of a comment: `S1, S3; why`.
fn cited_edges(comment: &str) -> Vec<String> {
    let words = comment.split([' ', ',', ';', ':']).filter(|word| !word.is_empty());
    words.take_while(|word| is_edge(word)).map(str::to_owned).collect()
}

/// Returns the function that begins in a line.
fn declared_function(code: &str) -> Option<&str> {
    let (before, after) = code.split_once("fn ")?;
    let name = after.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next()?;
    let is_declared = before.is_empty() || before.ends_with([' ', '\t']);
    (is_declared && !name.is_empty()).then_some(name)
}

/// Returns the orderings in a line of code, with their columns.
fn orderings_in(code: &str) -> Vec<(usize, &'static str)> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    for ordering in ORDERINGS {
        for (at, _) in code.match_indices(ordering) {
            let before = code[..at].chars().next_back().is_some_and(is_part);
            let after = code[at + ordering.len()..].chars().next().is_some_and(is_part);
            if !before && !after {
                found.push((at, ordering));
            }
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(text: &str) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.add("src/a.rs", text);
        ledger
    }

    #[test]
    fn every_ordering_of_the_engine_cites_an_edge() {
        let ledger = Ledger::read(crate::root()).expect("the sources can be read");
        assert!(ledger.sites.len() >= 30, "the orderings must be found");
        assert_eq!(ledger.offences(), Vec::<String>::new());
    }

    #[test]
    fn an_ordering_is_found_with_its_edges() {
        let text = "//! | S1 | a | b | c |\n//! | S2 | a | b | c |\nuse Ordering::Acquire;\nx.cas(1, AcqRel, Acquire) // S1, S2; so\n";
        let ledger = ledger(text);
        let found: Vec<_> = ledger.sites.iter().map(|site| (site.ordering, site.edges.join(" "))).collect();
        assert_eq!(found, [("AcqRel", "S1 S2".into()), ("Acquire", "S1 S2".into())]);
        assert!(ledger.offences().is_empty());
    }

    #[test]
    fn a_row_names_the_function_and_each_half() {
        let text = "//! | S1 | a | b | c |\n    pub(crate) fn take<T>(&self) {\n// in a fn like\nx.swap(1, AcqRel) // S1\n";
        let rows: Vec<_> = ledger(text).weakenings().iter().map(Weakening::row).collect();
        let row = |weaker| format!("| `src/a.rs: take` | AcqRel | {weaker} | S1 |");
        assert_eq!(rows, [row("Acquire"), row("Release")]);
    }

    #[test]
    fn an_edge_with_one_side_is_an_offence() {
        let one_sided = ledger("//! | S1 | a | b | c |\nx.load(Acquire) // S1\n");
        assert_eq!(one_sided.offences(), ["no Release cites S1"]);
    }

    #[test]
    fn an_edge_may_be_cited_where_the_block_begins() {
        let ledger = ledger("//! | S1 | a | b | c |\nmatch x.cas(1, Release, Relaxed) {\n    // S1\n");
        assert_eq!(ledger.sites[0].edges, ["S1"]);
    }

    #[test]
    fn an_ordering_without_an_edge_is_an_offence() {
        assert_eq!(ledger("x.load(Acquire) // because\n").offences(), ["src/a.rs:1: Acquire cites no edge"]);
        assert_eq!(ledger("x.load(Acquire) // S9\n").offences(), ["src/a.rs:1: S9 is in no ledger"]);
        assert!(
            ledger("x.load(Relaxed)\n/// Acquire in words.\nTheAcquired(Acquires)\n").offences().is_empty()
        );
    }
}
