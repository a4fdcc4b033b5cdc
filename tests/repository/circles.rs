//! No circle of more than two files: each file of a larger circle is read only after all others.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Crate, crates};
use crate::shape::held;

/// The most files that may import each other in a circle.
const LARGEST_CIRCLE: usize = 2;

/// The circles that are still larger, by their first file, with their numbers of files. These may
/// only fall.
const LARGER: &[(&str, usize)] = &[];

/// Returns the circles of a crate's files: in each, every file reaches every other by imports.
fn circles(krate: &Crate) -> Vec<Vec<&str>> {
    let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in &krate.imports {
        imports.entry(&import.file).or_default().insert(&import.of_file);
        imports.entry(&import.of_file).or_default();
    }
    let reached = |from| {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = vec![from];
        while let Some(file) = next.pop() {
            next.extend(imports[file].iter().filter(|file| reached.insert(**file)));
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reached(*file))).collect();
    let circle = |file: &&str| -> Vec<&str> {
        reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect()
    };
    let circles = imports.keys().map(|file| (file, circle(file)));
    circles.filter(|(file, circle)| circle.first() == Some(*file)).map(|(_, circle)| circle).collect()
}

/// Returns the circles that are too large: the first file, the number of files, all files.
fn large_circles(krate: &Crate) -> Vec<(String, usize, String)> {
    let large = circles(krate).into_iter().filter(|circle| circle.len() > LARGEST_CIRCLE);
    large.map(|circle| (circle[0].to_owned(), circle.len(), described(krate, &circle))).collect()
}

/// Returns the imports of a circle, one a line.
fn described(krate: &Crate, circle: &[&str]) -> String {
    let mut lines = BTreeSet::new();
    for import in &krate.imports {
        if circle.contains(&&*import.file) && circle.contains(&&*import.of_file) {
            lines.insert(format!("  {}:{} imports from {}", import.file, import.line, import.of_file));
        }
    }
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

#[test]
fn files_import_each_other_at_most_in_pairs() {
    let found: Vec<_> = crates().iter().flat_map(large_circles).collect();
    held("a circle of files", &found, LARGER);
}

mod each_rule {
    use super::*;
    use crate::modules::in_memory;

    #[test]
    fn a_circle_of_three_files_is_an_error() {
        let bad = [
            ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
            ("src/a/mod.rs", "mod part; pub(crate) use part::Part; use crate::b::B;"),
            ("src/a/part.rs", "pub(crate) struct Part; fn part() { super::f(); }"),
            ("src/b.rs", "use crate::c; fn f() { c::g(); } #[cfg(test)] use crate::d::D;"),
            ("src/c.rs", "fn f() { vec![crate::a::Part]; }"),
            ("src/d.rs", "use crate::b::B;"),
        ];
        let krate = in_memory(&bad);
        let found = circles(&krate);
        assert_eq!(found, [["src/a/mod.rs", "src/a/part.rs", "src/b.rs", "src/c.rs"]]);
        let found = large_circles(&krate);
        assert_eq!((&*found[0].0, found[0].1), ("src/a/mod.rs", 4));
        assert!(found[0].2.contains("src/c.rs:1 imports from src/a/part.rs"), "{}", found[0].2);
    }

    #[test]
    fn a_pair_of_files_is_no_error() {
        let good = [
            ("src/lib.rs", "mod a; mod b; pub use a::A;"),
            ("src/a.rs", "use crate::b::B; pub struct A;"),
            ("src/b.rs", "use crate::A; pub(in crate::b) struct B;"),
        ];
        let krate = in_memory(&good);
        assert_eq!(circles(&krate), [["src/a.rs", "src/b.rs"]]);
        assert!(large_circles(&krate).is_empty());
    }
}
