//! What `docs/how-to/several-machines.md` claims.

use std::fs;
use std::path::Path;

/// Whose tests the page names: of this crate, and of those above it.
const CRATES: [&str; 4] = ["tollgate-redis", "tollgate-rules", "tollgate-server", "tollgate-tower"];

/// Each row of a table whose last column is "shown by" names tests.
#[test]
fn each_claim_of_the_page_is_shown_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/how-to/several-machines.md")).unwrap();
    let mut tests = Vec::new();
    for name in CRATES {
        read_tests(&root.join("crates").join(name).join("tests"), &mut tests);
    }
    let mut in_table = false;
    let mut named = 0;
    for line in page.lines() {
        in_table = line.ends_with("shown by |") || in_table && line.starts_with('|');
        let last = line.rsplit('|').nth(1).unwrap_or_default().trim();
        if !in_table || !last.starts_with('`') {
            continue;
        }
        for test in last.split(", ") {
            let name = test.trim_matches('`');
            assert!(tests.iter().any(|test| test == name), "no test {name}");
            named += 1;
        }
    }
    assert!(named >= 40, "{named} tests are named");
}

/// Adds the names of the functions that stand below an attribute of a test.
fn read_tests(folder: &Path, tests: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_tests(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(path).unwrap();
            let mut is_test = false;
            for line in source.lines().map(str::trim_start) {
                let name = line.trim_start_matches("async ").strip_prefix("fn ");
                if let Some((name, _)) = name.and_then(|rest| rest.split_once('('))
                    && is_test
                {
                    tests.push(name.to_owned());
                }
                is_test = line.starts_with("#[test]")
                    || line.starts_with("#[tokio::test")
                    || is_test && line.starts_with("#[");
            }
        }
    }
}
