//! The shape of the repository, which the compiler cannot check.
//!
//! Each rule is a function from a file to its offending lines, with a bad sample below that it must
//! find.

use std::fmt;
use std::path::{Path, PathBuf};

/// The most lines of a file.
const LONGEST_FILE: usize = 500;

/// The most lines of a file of one protocol: threads that take part in it are read together.
const LONGEST_PROTOCOL: usize = 800;

/// The files of one protocol each.
const PROTOCOLS: &[&str] = &[
    "src/table/bucket.rs",
    "src/table/growth.rs",
    "src/table/insert.rs",
    "src/table/slot.rs",
    "src/table/view.rs",
];

/// The most columns of a line with a comment.
const WIDEST_COMMENT: usize = 100;

/// The most words of a test's name.
const LONGEST_NAME: usize = 10;

/// The files that may contain `unsafe`.
const UNSAFE_FILES: [&str; 1] = ["src/table/memory.rs"];

/// A file of the repository.
pub(crate) struct File {
    /// The path from the root of the repository, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A line that breaks a rule.
pub(crate) struct Offence {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) why: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.why)
    }
}

impl File {
    fn offence(&self, line: usize, why: impl Into<String>) -> Offence {
        Offence { path: self.path.clone(), line, why: why.into() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_engine(&self) -> bool {
        self.path.starts_with("src/") && self.is_rust()
    }

    /// Returns the lines of code with their numbers, without comments.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        lines.map(|(number, line)| (number, line.split(" // ").next().unwrap_or(line))).filter(|(_, line)| {
            let is_comment = line.starts_with("//");
            !is_comment
        })
    }

    /// Returns every line of code with one of these words.
    fn lines_with<'a>(&'a self, words: &'a [&str], why: &'a str) -> impl Iterator<Item = Offence> {
        self.code().filter_map(move |(number, line)| {
            let word = words.iter().find(|word| has_word(line, word))?;
            Some(self.offence(number, format!("`{word}`: {why}")))
        })
    }
}

/// Returns whether `line` contains `word` with no letter, digit or underscore next to it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let open = |edge: Option<char>, inside: Option<char>| {
            !(edge.is_some_and(is_part) && inside.is_some_and(is_part))
        };
        open(before.chars().next_back(), word.chars().next())
            && open(after.chars().next(), word.chars().next_back())
    })
}

fn is_short(file: &File) -> Vec<Offence> {
    let lines = file.text.lines().count();
    let longest = if PROTOCOLS.contains(&&*file.path) { LONGEST_PROTOCOL } else { LONGEST_FILE };
    let long = file.is_rust() && lines > longest;
    long.then(|| file.offence(lines, format!("{lines} lines: past {longest} we split"))).into_iter().collect()
}

fn comments_fit(file: &File) -> Vec<Offence> {
    if !file.is_rust() {
        return Vec::new();
    }
    // Behind an odd number of quotes the slashes are in a string.
    let has_comment = |line: &str| match line.split_once("//") {
        Some((code, _)) => code.matches('"').count() % 2 == 0,
        None => false,
    };
    let lines = file.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > WIDEST_COMMENT && has_comment(line))
        .map(|(index, _)| file.offence(index + 1, format!("comments end at column {WIDEST_COMMENT}")))
        .collect()
}

fn names_tests_briefly(file: &File) -> Vec<Offence> {
    if !file.is_rust() {
        return Vec::new();
    }
    let mut is_test = false;
    let mut offences = Vec::new();
    for (number, line) in file.code() {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) else { continue };
        is_test = false;
        let name = rest.split('(').next().unwrap_or(rest);
        if name.split('_').count() > LONGEST_NAME {
            offences.push(file.offence(number, format!("`{name}` has more than {LONGEST_NAME} words")));
        }
    }
    offences
}

fn takes_atomics_from_sync(file: &File) -> Vec<Offence> {
    if !file.is_engine() || file.path == "src/sync.rs" {
        return Vec::new();
    }
    file.lines_with(&["sync::atomic", "loom::"], "atomics come from `crate::sync`").collect()
}

fn keeps_unsafe_fenced(file: &File) -> Vec<Offence> {
    if !file.is_rust() || UNSAFE_FILES.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let keyword = concat!("un", "safe");
    let forms = ["{", "fn", "impl", "trait", "extern", "("].map(|next| format!("{keyword} {next}"));
    let mut forms: Vec<&str> = forms.iter().map(String::as_str).collect();
    forms.push(concat!("un", "safe("));
    forms.push(concat!("allow(un", "safe_code"));
    forms.push(concat!("expect(un", "safe_code"));
    file.lines_with(&forms, "only the table's memory needs it").collect()
}

fn begins_with_its_idea(file: &File) -> Vec<Offence> {
    let beginnings = ["//!", "#![doc", "#![cfg_attr(not(doctest), doc"];
    let documented = beginnings.iter().any(|beginning| file.text.starts_with(beginning));
    let missing = file.is_rust() && !documented;
    missing.then(|| file.offence(1, "a file begins by saying what it is: `//! ...`")).into_iter().collect()
}

fn is_finished(file: &File) -> Vec<Offence> {
    if !file.is_rust() {
        return Vec::new();
    }
    let words = [concat!("todo", "!"), concat!("unimple", "mented!"), concat!("#[", "ignore")];
    file.lines_with(&words, "what is here works and is tested").collect()
}

fn stands_alone(file: &File) -> Vec<Offence> {
    let outside = concat!("../", "shared");
    let lines = file.text.lines().enumerate().filter(|(_, line)| line.contains(outside));
    lines.map(|(index, _)| file.offence(index + 1, "only .ci may look outside of the repository")).collect()
}

/// Returns every file of the repository that a person wrote, except for those in `.ci`.
pub(crate) fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                let generated = ["target", "corpus", "artifacts", "coverage", "node_modules", "generated"]
                    .contains(&&*name);
                if !generated && (!name.starts_with('.') || name == ".github") {
                    folders.push(path);
                }
            } else if [".rs", ".toml", ".md"].iter().any(|ending| name.ends_with(ending)) {
                let relative = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
                files.push(File { path: relative, text: std::fs::read_to_string(&path).unwrap() });
            }
        }
    }
    assert!(files.iter().any(|file| file.path == "src/lib.rs"), "the walk must find the engine");
    files
}

fn every_file(keeps: fn(&File) -> Vec<Offence>) {
    let offences: Vec<_> = files().iter().flat_map(keeps).map(|offence| offence.to_string()).collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

#[test]
fn files_fit_one_sitting() {
    every_file(is_short);
}

#[test]
fn comments_have_at_most_100_columns() {
    every_file(comments_fit);
}

#[test]
fn test_names_have_at_most_ten_words() {
    every_file(names_tests_briefly);
}

#[test]
fn atomics_come_through_one_door() {
    every_file(takes_atomics_from_sync);
}

#[test]
fn unsafe_code_is_confined() {
    every_file(keeps_unsafe_fenced);
}

#[test]
fn every_file_begins_with_its_idea() {
    every_file(begins_with_its_idea);
}

#[test]
fn nothing_is_left_for_later() {
    every_file(is_finished);
}

#[test]
fn the_repository_stands_alone() {
    every_file(stands_alone);
}

mod each_rule {
    use super::*;

    /// Returns the lines that the rule finds in a file with this text.
    fn found(rule: fn(&File) -> Vec<Offence>, path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.into(), text: text.into() };
        rule(&file).iter().map(|offence| offence.line).collect()
    }

    #[test]
    fn a_long_file_is_an_error() {
        assert_eq!(found(is_short, "src/a.rs", &"\n".repeat(LONGEST_FILE + 1)), [LONGEST_FILE + 1]);
        assert!(found(is_short, "src/a.rs", &"\n".repeat(LONGEST_FILE)).is_empty());
        let protocol = PROTOCOLS[0];
        let longest = LONGEST_PROTOCOL;
        assert_eq!(found(is_short, protocol, &"\n".repeat(longest + 1)), [longest + 1]);
        assert!(found(is_short, protocol, &"\n".repeat(longest)).is_empty());
    }

    #[test]
    fn a_wide_comment_is_an_error() {
        let text = |indent: &str, length| format!("{indent}{}\n", "é".repeat(length));
        let bad = [text("//! ", 97), text("    // ", 94), text("f(\"a\"); // ", 90)].concat();
        assert_eq!(found(comments_fit, "src/a.rs", &bad), [1, 2, 3]);
        let good = [text("/// ", 96), text("let code = ", 99), text("let url = \"https://", 99)].concat();
        assert!(found(comments_fit, "src/a.rs", &good).is_empty());
        assert!(found(comments_fit, "README.md", &bad).is_empty());
    }

    #[test]
    fn a_long_test_name_is_an_error() {
        let function = |words| format!("fn {}a() {{}}\n", "a_".repeat(words - 1));
        let test = |words| format!("#[test]\n#[should_panic]\n    {}", function(words));
        let text = [test(LONGEST_NAME), test(LONGEST_NAME + 1), function(LONGEST_NAME + 1)].concat();
        assert_eq!(found(names_tests_briefly, "tests/a.rs", &text), [6]);
    }

    #[test]
    fn an_atomic_from_elsewhere_is_an_error() {
        let rule = takes_atomics_from_sync;
        let bad = "use std::sync::Arc;\nuse std::sync::atomic::AtomicU64;\nuse core::sync::atomic;\nloom::model(f);\n";
        assert_eq!(found(rule, "src/clock/mod.rs", bad), [2, 3, 4]);
        assert!(found(rule, "src/sync.rs", bad).is_empty());
    }

    #[test]
    fn unsafe_code_elsewhere_is_an_error() {
        let bad = concat!("// un", "safe { a comment }\n#![deny(un", "safe_code)]\nun", "safe { f() }\n");
        assert_eq!(found(keeps_unsafe_fenced, "src/key/mod.rs", bad), [3]);
        let allowed = concat!("#![allow(un", "safe_code, reason = \"speed\")]\nun", "safe fn f() {}\n");
        assert_eq!(found(keeps_unsafe_fenced, "src/key/mod.rs", allowed), [1, 2]);
        assert!(found(keeps_unsafe_fenced, "src/table/memory.rs", bad).is_empty());
    }

    #[test]
    fn a_file_without_module_documentation_is_an_error() {
        assert_eq!(found(begins_with_its_idea, "src/a.rs", "use std::fmt;\n"), [1]);
        assert!(found(begins_with_its_idea, "src/a.rs", "//! An idea.\n").is_empty());
    }

    #[test]
    fn a_to_do_comment_is_an_error() {
        let bad = concat!(
            "todo",
            "!();\nun",
            "implemented!();\n#[",
            "ignore]\n#[",
            "ignore = \"slow\"]\nfn f() {}\n"
        );
        assert_eq!(found(is_finished, "tests/a.rs", bad), [1, 2, 3, 4]);
    }

    #[test]
    fn a_path_out_of_the_repository_is_an_error() {
        let bad = concat!("fine\nopen(\"..", "/shared/data\")\n");
        assert_eq!(found(stands_alone, "README.md", bad), [2]);
    }
}
