//! `docs/reference/promises.md`: every row of its table has a section, every section names existing
//! tests, and each of those has been seen to fail.

use std::path::Path;

const PAGE: &str = include_str!("../../docs/reference/promises.md");
const FRONT: &str = include_str!("../../README.md");

/// Returns the names in backticks that look like tests: words joined by three underscores or more.
fn tests_in(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter(|name| !name.contains([' ', '/', '.', '(', ':']) && name.matches('_').count() >= 3)
        .collect()
}

/// Appends all test code of the repository.
fn sources(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Returns the sections of the page: heading and text.
fn sections() -> Vec<(&'static str, &'static str)> {
    PAGE.split("\n## ").skip(1).filter_map(|section| section.split_once('\n')).collect()
}

#[test]
fn every_test_that_the_page_names_exists() {
    let mut code = String::new();
    for folder in [
        "tests",
        "src",
        "loom-tests/tests",
        "crates/tollgate-rules/tests",
        "crates/tollgate-server/src",
        "crates/tollgate-server/tests",
        "crates/tollgate-tower/tests",
        "crates/tollgate-cli/tests",
    ] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut code);
    }
    for (heading, text) in sections() {
        let named = tests_in(text);
        assert!(named.len() >= 3, "{heading}: a promise without tests");
        for name in named {
            assert!(code.contains(&format!("fn {name}(")), "{heading}: no test is called {name}");
        }
    }
}

/// Returns the tests that must catch a break, by the last part of their names.
fn tests_with_breaks() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("breaks");
    let breaks = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let texts: Vec<String> = breaks.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect();
    let caught_by =
        texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("caught by: "));
    caught_by.filter_map(|check| Some(check.rsplit_once(':')?.1.trim().to_owned())).collect()
}

#[test]
fn every_test_that_the_page_names_has_a_break() {
    let broken = tests_with_breaks();
    for (heading, text) in sections() {
        for name in tests_in(text) {
            let is_excused = text.contains(&format!("`{name}` (no break: "));
            let is_broken = broken.iter().any(|test| test == name);
            assert!(is_broken || is_excused, "{heading}: no file of breaks/ is caught by {name}");
        }
    }
}

/// The words of a text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_front_page_says_what_the_page_holds() {
    let front = words(FRONT);
    let (_, section) = sections().into_iter().find(|(heading, _)| *heading == "The front page").unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 15, "{} rows", rows.len());
    for row in rows {
        let (said, tests) = row.trim_matches('|').split_once(" | ").unwrap();
        assert!(front.contains(said.trim()), "README.md does not say: {said}");
        assert!(!tests_in(tests).is_empty(), "{row}");
    }
}

#[test]
fn every_row_of_the_table_leads_to_its_section() {
    let slug = |heading: &str| heading.to_lowercase().replace(' ', "-").replace(',', "");
    let slugs: Vec<String> = sections().iter().map(|(heading, _)| slug(heading)).collect();
    let links: Vec<&str> =
        PAGE.split("](#").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
    assert!(links.len() >= 8, "{links:?}");
    for link in links {
        assert!(slugs.iter().any(|slug| slug == link), "no section for #{link} in {slugs:?}");
    }
}

#[test]
fn every_row_speaks_of_every_algorithm() {
    let rows: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| [")).collect();
    assert!(rows.len() >= 8);
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 8, "{row}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{row}");
    }
}
