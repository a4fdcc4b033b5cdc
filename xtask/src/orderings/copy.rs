//! A copy of the tree in which an environment variable weakens one ordering, so that all weakenings
//! need one build.
//!
//! In the copy, the ordering `Acquire` of site 7 is `crate::sync::weakened(7, Acquire)`, which is
//! `Acquire` unless `TOLLGATE_WEAKEN=7:Relaxed` is set. The repository itself is not changed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::ledger::Site;
use crate::tree::mirror;

/// The environment variable that names the weakened site.
pub(super) const VARIABLE: &str = "TOLLGATE_WEAKEN";

const WEAKENED: &str = r#"
/// `ordering`, unless the environment says to weaken this site.
pub(crate) fn weakened(site: usize, ordering: Ordering) -> Ordering {
    static CHOICE: std::sync::OnceLock<Option<(usize, Ordering)>> = std::sync::OnceLock::new();
    let choice = CHOICE.get_or_init(|| {
        let choice = std::env::var("TOLLGATE_WEAKEN").ok()?;
        let (site, weaker) = choice.split_once(':').expect("site:Ordering");
        let weaker = match weaker {
            "Relaxed" => Ordering::Relaxed,
            "Acquire" => Ordering::Acquire,
            "Release" => Ordering::Release,
            "AcqRel" => Ordering::AcqRel,
            _ => panic!("no ordering {weaker}"),
        };
        Some((site.parse().expect("a site's number"), weaker))
    });
    match choice {
        Some((chosen, weaker)) if *chosen == site => *weaker,
        _ => ordering,
    }
}
"#;

/// What the loom models are built from.
const FOLDERS: [&str; 5] = ["src", "docs", "loom-tests/src", "loom-tests/tests", "crates/tollgate-redis/src"];

/// Copies the files that the loom models need into a folder in `target`, with switches for `sites`.
pub(super) fn make(root: &Path, target: &Path, sites: &[Site]) -> io::Result<PathBuf> {
    let copy = target.join("mutate-orderings");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    for folder in FOLDERS {
        mirror(&root.join(folder), &copy.join(folder))?;
    }
    for file in ["loom-tests/Cargo.toml", "loom-tests/Cargo.lock"] {
        if root.join(file).exists() {
            fs::copy(root.join(file), copy.join(file))?;
        }
    }
    fs::write(copy.join("Cargo.toml"), standalone(&fs::read_to_string(root.join("Cargo.toml"))?))?;
    let mut paths: Vec<&str> = sites.iter().map(|site| site.path.as_str()).collect();
    paths.dedup();
    for path in paths {
        let text = fs::read_to_string(root.join(path))?;
        fs::write(copy.join(path), switchable(&text, path, sites))?;
    }
    let sync = copy.join("src/sync.rs");
    fs::write(&sync, fs::read_to_string(&sync)? + WEAKENED)?;
    Ok(copy)
}

/// Returns the manifest without the other members of the workspace and without dependencies of
/// tests.
fn standalone(manifest: &str) -> String {
    let dropped = |header: &str| {
        ["[workspace]", "[dev-dependencies]", "[[test]]", "[[example]]", "[[bench]]", "[profile"]
            .iter()
            .any(|section| header.starts_with(section))
    };
    let mut keep = true;
    let mut standalone = String::from("[workspace]\n\n");
    for line in manifest.lines() {
        if line.starts_with('[') {
            keep = !dropped(line);
        }
        if keep {
            standalone.push_str(line);
            standalone.push('\n');
        }
    }
    standalone
}

/// Returns the text of a file with its orderings behind `weakened`. Sites are numbered over all
/// files.
fn switchable(text: &str, path: &str, sites: &[Site]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the right, so that the columns of the remaining sites stay valid.
    for (number, site) in sites.iter().enumerate().rev().filter(|(_, site)| site.path == path) {
        let line = &mut lines[site.line - 1];
        let begin = match line[..site.column].strip_suffix("Ordering::") {
            Some(before) => before.len(),
            None => site.column,
        };
        let end = site.column + site.ordering.len();
        let ordering = line[begin..end].to_owned();
        line.replace_range(begin..end, &format!("crate::sync::weakened({number}, {ordering})"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_every_file_that_a_model_includes() {
        let models = crate::root().join("loom-tests/tests");
        let mut included = 0;
        for model in fs::read_dir(&models).expect("the models are there") {
            let text = fs::read_to_string(model.expect("an entry").path()).unwrap_or_default();
            let paths =
                text.lines().filter_map(|line| line.strip_prefix("#[path = \"../../")?.strip_suffix("\"]"));
            for path in paths {
                included += 1;
                assert!(FOLDERS.iter().any(|folder| path.starts_with(folder)), "{path} is not copied");
            }
        }
        assert!(included > 1, "{included} files are included");
    }

    #[test]
    fn the_copys_manifest_names_no_program() {
        let manifest = fs::read_to_string(crate::root().join("Cargo.toml")).expect("the manifest is there");
        assert!(
            manifest.contains("\n[[") && !standalone(&manifest).contains("\n[["),
            "a program is not copied"
        );
    }

    #[test]
    fn each_ordering_of_a_line_has_its_own_switch() {
        let site =
            |column, ordering| Site { path: "src/a.rs".into(), line: 1, column, ordering, ..Site::default() };
        let sites = [site(2, "AcqRel"), site(20, "Acquire")];
        let text = switchable("f(AcqRel, Ordering::Acquire)\n", "src/a.rs", &sites);
        let expected = "f(crate::sync::weakened(0, AcqRel), crate::sync::weakened(1, Ordering::Acquire))\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_copy_is_a_workspace_of_its_own() {
        let manifest = "[package]\nname = \"a\"\n[workspace]\nmembers = [\"b\"]\n[dependencies]\nc = \"1\"\n";
        assert_eq!(
            standalone(manifest),
            "[workspace]\n\n[package]\nname = \"a\"\n[dependencies]\nc = \"1\"\n"
        );
    }
}
