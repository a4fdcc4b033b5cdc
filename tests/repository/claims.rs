//! `docs/proof/claims.md`: each row names what holds it, and that exists.

use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../docs/proof/claims.md");

/// The rows of the tables of claims: the claim, what holds it, and a fault.
fn rows() -> Vec<[&'static str; 3]> {
    let claims = PAGE.split("\n## What runs longer").next().unwrap();
    let rows = claims.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| claim |"));
    let cells = |row: &'static str| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        cells.try_into().unwrap_or_else(|_| panic!("three cells: {row}"))
    };
    rows.map(cells).collect()
}

/// The file or folder of a name in backticks: `src/tests/writes.rs`, `tests/model: against_model`,
/// `rules: tests/set`. None of a module, a command or a target.
fn path(name: &str) -> Option<PathBuf> {
    let (first, second) = name.split_once(": ").unwrap_or((name, ""));
    let path = if second.contains('/') {
        format!("crates/tollgate-{first}/{second}")
    } else if first.contains('/') && !first.contains(' ') {
        first.to_owned()
    } else {
        return None;
    };
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
}

#[test]
fn each_claim_names_what_holds_it_and_a_fault() {
    let rows = rows();
    assert!(rows.len() >= 50, "{} rows", rows.len());
    for [claim, held, fault] in rows {
        assert!(held.contains('`') && !fault.is_empty(), "{claim}");
    }
}

#[test]
fn everything_that_holds_a_claim_exists() {
    let names = rows().into_iter().flat_map(|[_, held, _]| held.split('`').skip(1).step_by(2));
    let paths: Vec<PathBuf> = names.filter_map(path).collect();
    assert!(paths.len() > 50, "{} paths", paths.len());
    for path in paths {
        assert!(path.exists() || path.with_extension("rs").exists(), "{} is gone", path.display());
    }
}
