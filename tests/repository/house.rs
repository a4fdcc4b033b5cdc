//! What the engine and the crates above it are to lose: types, files and counts of the time when
//! each caller had a structure of its own. A line is struck off when it is gone; it may not come
//! back.

use crate::tidy::{File, files};

/// Types that went: their work is done by another.
const GONE_TYPES: &[&str] = &[
    "Answer",
    "Asked",
    "Asks",
    "By",
    "CallDecision",
    "CallError",
    "Each",
    "Face",
    "Glance",
    "Global",
    "HomeProbe",
    "Keyed",
    "LimitDecision",
    "Limits",
    "Mark",
    "MultiDecision",
    "MultiLimiter",
    "One",
    "OneKey",
    "OneWord",
    "Patient",
    "PerCallBuilder",
    "PerCallLimiter",
    "PerCallRule",
    "Prepared",
    "PreparedCall",
    "Probe",
    "Refusal",
    "Seen",
    "Several",
    "SingleLimitWords",
    "Turn",
    "Words",
];

/// Files and folders that are still there.
const FILES: &[&str] = &[];

/// How often the engine says these, where fewer would do. A count may only fall.
const COUNTS: &[(&str, usize)] =
    &[("static LIMITERS", 1), ("pub fn check_n(", 3), ("from_nanos(u64::MAX)", 0)];

/// The most lines of the engine with its inline tests. Less, and it is lowered. (It rose once, by
/// 168: one form of saved files came here from four crates, which lost 680.)
const MOST_LINES: usize = 22_164;

fn engine() -> Vec<File> {
    let is_product =
        |file: &File| file.path.starts_with("src/") && !file.path.contains("/edges") && !is_test(file);
    files().into_iter().filter(|file| file.path.ends_with(".rs") && is_product(file)).collect()
}

fn is_test(file: &File) -> bool {
    file.path.contains("/tests/") || file.path.ends_with("/tests.rs")
}

fn defines(file: &File, name: &str) -> bool {
    let is_definition = |line: &str| {
        let line = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        let mut words = line.trim_start_matches("pub ").split(|letter: char| !letter.is_alphanumeric());
        let is_type = words.next().is_some_and(|word| ["struct", "enum", "trait", "type"].contains(&word));
        is_type && words.next() == Some(name)
    };
    file.code().any(|(_, line)| is_definition(line))
}

#[test]
fn a_type_that_went_does_not_come_back() {
    let engine = engine();
    for name in GONE_TYPES {
        let file = engine.iter().find(|file| defines(file, name));
        assert!(file.is_none(), "{name} is back, in {}", file.expect("it was found").path);
    }
}

#[test]
fn a_file_that_is_to_go_is_still_there() {
    let engine = engine();
    for path in FILES {
        let is_there = engine.iter().any(|file| file.path.starts_with(path));
        assert!(is_there, "{path} is gone: strike it off");
    }
}

#[test]
fn the_counts_of_the_engine_only_fall() {
    let engine = engine();
    for (text, most) in COUNTS {
        let found: usize =
            engine.iter().map(|file| file.code().filter(|(_, line)| line.contains(text)).count()).sum();
        assert_eq!(found, *most, "`{text}`: the count may only fall; when it fell, lower it here");
    }
    let lines: usize = engine.iter().map(|file| file.text.lines().count()).sum();
    assert!(lines <= MOST_LINES, "the engine has {lines} lines, of {MOST_LINES} at most");
}

fn product() -> Vec<File> {
    let is_product = |file: &File| file.path.contains("src/") && !is_test(file);
    files().into_iter().filter(is_product).collect()
}

#[test]
fn one_room_above_the_engine_charges_limits_together() {
    let imports = |line: &str| {
        let mut names = line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        line.contains("tollgate::") && names.any(|name| ["together", "together_if"].contains(&name))
    };
    let charges =
        |file: &&File| file.path.starts_with("crates/") && file.code().any(|(_, line)| imports(line));
    let product = product();
    let paths: Vec<&str> = product.iter().filter(charges).map(|file| &*file.path).collect();
    assert_eq!(paths, ["crates/tollgate-rules/src/set/brief.rs", "crates/tollgate-rules/src/set/joint.rs"]);
}

#[test]
fn both_layers_decide_by_one_session_of_rules() {
    let product = product();
    for gone in ["tollgate-backend", "tollgate-stored", "tollgate-tower/src/saved"] {
        let file = product.iter().find(|file| file.path.starts_with(&format!("crates/{gone}/")));
        assert!(file.is_none(), "{gone} is back, in {}", file.expect("it was found").path);
    }
    let limits = |file: &&File| {
        let is_of_tower = file.path.starts_with("crates/tollgate-tower/src/");
        is_of_tower && file.code().any(|(_, line)| line.contains("Limiter::builder("))
    };
    assert!(product.iter().find(limits).is_none(), "the middleware keeps no limiter beside its rules");
}

#[test]
fn the_workspace_has_one_form_of_saved_files() {
    let product = product();
    for text in ["enum RestoreError", "fn replace<T>(path: &Path", "SipHasher13::new()"] {
        let defined = product.iter().filter(|file| file.code().any(|(_, line)| line.contains(text)));
        let paths: Vec<&str> = defined.map(|file| &*file.path).collect();
        assert!(matches!(paths[..], [only] if only.starts_with("src/saved/")), "`{text}`: {paths:?}");
    }
}
