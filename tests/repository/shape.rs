//! The shape of types and files: where a type's methods are, and what the documentation hides.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Crate, crates};
use crate::tidy::{File, files};

/// The most files in which a type may have inherent `impl` blocks.
const MOST_FILES: usize = 3;

/// The types that are still spread over more files, with their numbers of files. These may only
/// fall.
const SPREAD: &[(&str, usize)] = &[
    ("crates/tollgate-rules-file/src::file::read::Reader", 7),
    ("crates/tollgate-rules/src::set::rule_set::RuleSet", 7),
    ("src::limiter::core::Core", 10),
];

/// How often the crates hide a public item from their documentation. It may only fall.
const HIDDEN: usize = 2;

/// Fails for what was found beyond its bound and is not among the exceptions, and for an exception
/// that is no longer needed in full: so the exceptions only fall.
pub(crate) fn held(what: &str, found: &[(String, usize, String)], exceptions: &[(&str, usize)]) {
    let mut errors = Vec::new();
    for (name, number, why) in found {
        match exceptions.iter().find(|(known, _)| known == name) {
            Some((_, held)) if number == held => {}
            Some((_, held)) if number < held => {
                errors.push(format!("{name}: {number} instead of {held}: lower the exception"));
            }
            _ => errors.push(format!("{what}: {name}, {number}\n{why}")),
        }
    }
    for (known, _) in exceptions {
        if !found.iter().any(|(name, ..)| name == known) {
            errors.push(format!("{known}: the exception is no longer needed"));
        }
    }
    assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
}

/// Returns the types with inherent `impl` blocks in too many files: the type, how many, which.
fn spread_types(krate: &Crate) -> Vec<(String, usize, String)> {
    let mut files: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (of, file) in &krate.impls {
        files.entry(of.join("::")).or_default().insert(file);
    }
    let spread = files.into_iter().filter(|(_, files)| files.len() > MOST_FILES);
    let listed = |files: &BTreeSet<&str>| files.iter().map(|file| format!("  {file}\n")).collect();
    spread.map(|(of, files)| (format!("{}::{of}", krate.folder), files.len(), listed(&files))).collect()
}

/// Returns how often a file of a product hides an item.
fn hidden_items(file: &File) -> usize {
    let is_product = file.path.starts_with("src/")
        || file.path.strip_prefix("crates/").is_some_and(|path| path.contains("/src/"));
    let attribute = concat!("doc(hid", "den)");
    if is_product { file.code().filter(|(_, line)| line.contains(attribute)).count() } else { 0 }
}

#[test]
fn a_type_has_its_methods_in_three_files_at_most() {
    let found: Vec<_> = crates().iter().flat_map(spread_types).collect();
    held("a type with `impl` blocks in too many files", &found, SPREAD);
}

#[test]
fn the_count_of_hidden_items_only_falls() {
    let hidden: usize = files().iter().map(hidden_items).sum();
    assert!(hidden <= HIDDEN, "{hidden} items are hidden instead of {HIDDEN}: the count may only fall");
    assert!(hidden == HIDDEN, "{hidden} items are hidden: lower `HIDDEN`, for the count may only fall");
}

mod each_rule {
    use super::*;
    use crate::modules::in_memory;

    #[test]
    fn a_type_in_four_files_is_an_error() {
        let block = "use crate::T; impl T {}";
        let of_trait = "impl Default for crate::T {} #[cfg(test)] mod tests { impl crate::T {} }";
        let three = [
            ("src/lib.rs", "mod a; mod b; mod c; pub struct T; impl T {} impl T {}"),
            ("src/a.rs", block),
            ("src/b.rs", block),
            ("src/c.rs", of_trait),
        ];
        assert!(spread_types(&in_memory(&three)).is_empty());
        let mut four = three;
        four[3].1 = "impl super::T {}";
        let found = spread_types(&in_memory(&four));
        assert_eq!((&*found[0].0, found[0].1), ("src::T", 4));
    }

    #[test]
    fn a_hidden_item_of_a_product_counts() {
        let text = concat!("#[doc(hid", "den)]\nfn f() {}\n// doc(hid", "den)\n");
        let count = |path: &str| hidden_items(&File { path: path.into(), text: text.into() });
        assert_eq!(count("src/lib.rs"), 1);
        assert_eq!(count("crates/a/src/b.rs"), 1);
        assert_eq!(count("crates/a/tests/b.rs"), 0);
    }

    #[test]
    #[should_panic(expected = "no longer needed")]
    fn an_exception_that_nothing_needs_is_an_error() {
        held("a thing", &[], &[("a", 4)]);
    }

    #[test]
    #[should_panic(expected = "lower the exception")]
    fn an_exception_of_more_than_is_there_is_an_error() {
        held("a thing", &[("a".into(), 4, String::new())], &[("a", 5)]);
    }

    #[test]
    #[should_panic(expected = "a thing: a, 6")]
    fn more_than_an_exception_allows_is_an_error() {
        held("a thing", &[("a".into(), 6, String::new())], &[("a", 5)]);
    }
}
