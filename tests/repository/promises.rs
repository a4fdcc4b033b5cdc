//! `docs/promises.md`: every row of its table has a section, and every section names existing
//! tests.

use std::path::Path;

const PAGE: &str = include_str!("../../docs/promises.md");

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
    for folder in ["tests", "src", "loom-tests/tests"] {
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
