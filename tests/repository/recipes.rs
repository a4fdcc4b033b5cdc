//! `docs/how-to/library-recipes.md` shows the programs of `examples/` as they are, and `cargo test`
//! runs each of them: it asserts what the page claims.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../docs/how-to/library-recipes.md");
const MANIFEST: &str = include_str!("../../Cargo.toml");

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The programs of a page: their names, by the command that runs each, and their text.
fn shown(page: &str) -> Vec<(&str, &str)> {
    let recipes = page.split("\ncargo run --example ").skip(1);
    let programs = recipes.map(|recipe| {
        let (name, rest) = recipe.split_once('\n').expect("the command is a line");
        let (_, rest) = rest.split_once("\n```rust\n").expect("the program follows its command");
        let (program, _) = rest.split_once("```\n").expect("it ends");
        (name, program)
    });
    programs.collect()
}

/// A program without the lines that say what it is: the page says so above it.
fn program(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_page_shows_each_program_as_it_is() {
    for (name, shown) in shown(PAGE) {
        let path = examples().join(name).with_extension("rs");
        let text = std::fs::read_to_string(path).expect("the page names a program of examples/");
        assert!(shown == program(&text), "docs/how-to/library-recipes.md shows another examples/{name}.rs");
    }
}

#[test]
fn every_program_has_a_recipe_and_is_run() {
    let named: BTreeSet<String> = shown(PAGE).into_iter().map(|(name, _)| format!("{name}.rs")).collect();
    let files = std::fs::read_dir(examples()).expect("it is there").map(Result::unwrap);
    let there: BTreeSet<String> = files.map(|file| file.file_name().into_string().unwrap()).collect();
    assert_eq!(named, there);
    for (name, _) in shown(PAGE) {
        let run = format!("[[example]]\nname = \"{name}\"\ntest = true\nharness = false\n");
        assert!(MANIFEST.contains(&run), "`cargo test` does not run examples/{name}.rs");
    }
}

#[test]
fn a_program_is_found_behind_its_command() {
    let page = "## A\n\n```sh\ncargo run --example a\n```\n\n```rust\nfn main() {}\n```\n";
    assert_eq!(shown(page), [("a", "fn main() {}\n")]);
    assert_eq!(program("//! What it is.\n\nfn main() {}\n"), "fn main() {}\n");
}
