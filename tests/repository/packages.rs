//! The published crates: their descriptions, their licences, what the engine's package holds; and
//! what of them the files of the forge repeat.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The crates that a release publishes.
const PUBLISHED: [&str; 11] = [
    "tollgate",
    "tollgate-cli",
    "tollgate-http",
    "tollgate-logs",
    "tollgate-net",
    "tollgate-proxy",
    "tollgate-redis",
    "tollgate-rules",
    "tollgate-rules-file",
    "tollgate-server",
    "tollgate-tower",
];

/// The most bytes of the engine's package before it is compressed, to about a quarter.
const LARGEST_PACKAGE: u64 = 1_200_000;

/// The most names that `ls` shows in the root of the repository.
const MOST_NAMES: usize = 16;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns what `cargo` prints.
fn cargo(arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(run.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// Returns the packages of the workspace, as `cargo metadata` describes them.
fn packages() -> Vec<Value> {
    let text = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    serde_json::from_str::<Value>(&text).unwrap()["packages"].as_array().unwrap().clone()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

fn is_published(package: &Value) -> bool {
    // `publish = false` is a list of no registries.
    package["publish"].as_array().is_none_or(|registries| !registries.is_empty())
}

fn published() -> Vec<Value> {
    packages().into_iter().filter(is_published).collect()
}

/// Returns the folder of a package, from the root of the repository.
fn folder(package: &Value) -> String {
    match name(package) {
        "tollgate" => ".".into(),
        name => format!("crates/{name}"),
    }
}

#[test]
fn exactly_these_crates_are_published() {
    let mut names: Vec<String> = published().iter().map(|package| name(package).to_owned()).collect();
    names.sort();
    assert_eq!(names, PUBLISHED);
}

#[test]
fn every_published_crate_is_packed_and_built() {
    let packs = read("xtask/src/test.rs");
    for package in PUBLISHED {
        let part =
            package.strip_prefix("tollgate-").map_or("-p tollgate{".to_owned(), |part| format!("\"{part}\""));
        assert!(packs.contains(&part), "`packages` of xtask/src/test.rs lacks {package}");
    }
}

#[test]
fn every_published_crate_is_described() {
    for package in published() {
        let name = name(&package);
        let texts = |key: &str| -> Vec<String> {
            let list = package[key].as_array().unwrap();
            list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        let description = package["description"].as_str().unwrap_or_default();
        assert!((20..=100).contains(&description.len()), "{name}: the description is {description:?}");
        // What crates.io takes: at most five of each, and of a keyword at most 20 bytes.
        let (keywords, categories) = (texts("keywords"), texts("categories"));
        assert!((3..=5).contains(&keywords.len()), "{name}: {keywords:?}");
        assert!(keywords.iter().all(|keyword| keyword.len() <= 20), "{name}: {keywords:?}");
        assert!(keywords.iter().any(|keyword| keyword == "rate-limit"), "{name}: {keywords:?}");
        assert!((1..=5).contains(&categories.len()), "{name}: {categories:?}");
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{name}");
        assert_eq!(package["rust_version"], package_of_engine()["rust_version"], "{name}");
        assert_eq!(package["documentation"], format!("https://docs.rs/{name}"), "{name}");
        assert_eq!(package["readme"], "README.md", "{name}");
        let page = read(&format!("{}/README.md", folder(&package)));
        assert!(page.lines().count() >= 20, "{name}: its page says what it is, and shows an example");
    }
}

fn package_of_engine() -> Value {
    packages().into_iter().find(|package| name(package) == "tollgate").unwrap()
}

#[test]
fn every_published_crate_has_the_licences_texts() {
    for package in published() {
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let path = format!("{}/{licence}", folder(&package));
            // A link would be a file with a path in it where links are not checked out.
            assert!(!root().join(&path).is_symlink(), "{path} is a link");
            assert!(read(&path) == read(licence), "{path} differs from {licence}");
        }
    }
}

#[test]
fn published_crates_depend_on_published_versions() {
    for package in published() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            if dependency["path"].is_null() {
                continue;
            }
            // Without a version, cargo leaves a dependency of tests out of the package.
            let is_needed = PUBLISHED.contains(&other);
            let (is_of_tests, has_version) = (dependency["kind"] == "dev", dependency["req"] != "*");
            assert!(is_needed || is_of_tests, "{}: {other} is not published", name(&package));
            assert!(is_needed == has_version || is_of_tests, "{}: {other} by version", name(&package));
            assert!(is_needed || !has_version, "{}: {other} has a version", name(&package));
        }
    }
}

/// A program with rules of its own, a store of their counts, and a service with closures build
/// without what reads files.
#[test]
fn rules_as_data_and_closures_need_no_parser() {
    const PARSERS: [&str; 6] =
        ["annotate-snippets", "saphyr-parser", "serde_json", "toml", "toml_parser", "tollgate-rules-file"];
    let with_rules = &["tollgate-redis", "--features", "rules"];
    for package in [&["tollgate-rules"][..], with_rules, &["tollgate-tower"]] {
        let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package"];
        let tree = cargo(&[&arguments, package].concat());
        let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(names.contains(&"tollgate-rules"), "{tree}");
        let parsers: Vec<_> = PARSERS.iter().filter(|parser| names.contains(parser)).collect();
        assert!(parsers.is_empty(), "{package:?} needs {parsers:?}");
    }
}

#[test]
fn features_are_told_on_docs_rs() {
    for package in published() {
        let (name, folder) = (name(&package), folder(&package));
        let has_features = !package["features"].as_object().unwrap().is_empty();
        // The library of the command is of no use to others.
        if !has_features || name == "tollgate-cli" {
            continue;
        }
        let docs = &package["metadata"]["docs"]["rs"];
        assert_eq!(docs["all-features"], true, "{name}");
        assert_eq!(docs["rustdoc-args"], serde_json::json!(["--cfg", "docsrs"]), "{name}");
        let front = read(&format!("{folder}/src/lib.rs"));
        assert!(front.contains("#![cfg_attr(docsrs, feature(doc_cfg)"), "{name}: src/lib.rs");
    }
}

#[test]
fn the_engines_package_is_its_sources_and_their_pages() {
    let listed = cargo(&["package", "--list", "--allow-dirty", "--offline", "--package", "tollgate"]);
    // On Windows, cargo prints the separators of the system.
    let listed = listed.replace('\\', "/");
    let front = read("src/lib.rs");
    let shown = front.split("include_str!(\"../").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
    // docs.rs shows the files of the package: there the links of the front page lead.
    let linked = front.split("/tollgate/latest/source/").skip(1).filter_map(|rest| rest.lines().next());
    let shown: Vec<&str> = shown.chain(linked).filter(|path| path.starts_with("docs/")).collect();
    for path in &shown {
        assert!(listed.lines().any(|line| line == *path), "src/lib.rs needs {path}: `include` in Cargo.toml");
    }
    // Cargo makes the files that do not exist.
    let mut bytes = 0;
    for path in listed.lines().filter(|path| root().join(path).exists()) {
        let is_source = path.starts_with("src/") && !path.ends_with("/tests.rs");
        assert!(is_source || shown.contains(&path) || !path.contains('/'), "{path} is in the package");
        bytes += std::fs::metadata(root().join(path)).unwrap().len();
    }
    assert!((1..=LARGEST_PACKAGE).contains(&bytes), "{bytes} bytes");
}

#[test]
fn the_oldest_rust_is_tested_on_the_forge() {
    let workflow = read(".github/workflows/platforms.yml");
    let listed = workflow.lines().find_map(|line| line.trim().strip_prefix("rust: ")).unwrap();
    let oldest = package_of_engine()["rust_version"].as_str().unwrap().to_owned();
    assert_eq!(listed, format!("[\"{oldest}\"]"));
    let front = read("README.md");
    assert!(front.contains(&format!("Rust {oldest}")), "README.md does not name Rust {oldest}");
}

#[test]
fn the_forge_runs_what_a_fresh_machine_runs() {
    assert!(read(".github/workflows/ci.yml").lines().any(|line| line.trim() == "- run: .ci/run"));
}

#[test]
fn the_root_shows_at_most_sixteen_names() {
    let entries = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.to_string_lossy().into_owned());
    let mut shown: Vec<String> = names.filter(|name| !name.starts_with('.') && name != "target").collect();
    shown.sort();
    assert!(shown.len() <= MOST_NAMES, "{} names: {shown:?}", shown.len());
}
