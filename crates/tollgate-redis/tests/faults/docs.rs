//! What `docs/distributed.md` claims.

use std::fs;
use std::path::Path;

/// Each row of a table whose last column is "shown by" names a test.
#[test]
fn each_claim_of_the_page_is_shown_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/distributed.md")).unwrap();
    let files = ["tests/faults", "tests/leased"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let sources: Vec<String> =
        files.into_iter().flatten().map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let mut in_table = false;
    let mut named = 0;
    for line in page.lines() {
        in_table = line.ends_with("shown by |") || in_table && line.starts_with('|');
        let last = line.rsplit('|').nth(1).unwrap_or_default().trim();
        if !in_table || !last.starts_with('`') {
            continue;
        }
        let test = format!("#[test]\nfn {}()", last.trim_matches('`'));
        assert!(sources.iter().any(|source| source.contains(&test)), "no test {last}");
        named += 1;
    }
    assert!(named >= 15, "{named} claims name their test");
}
