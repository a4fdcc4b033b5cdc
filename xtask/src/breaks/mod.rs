//! `cargo xtask break`: breaks the engine and the middleware on purpose; each time the named test
//! must fail.
//!
//! `patch` reads the breaks in `breaks/`, `check` builds and runs the test of a break, and `hunt`
//! runs all breaks in a copy of the tree, so that the user's files stay as they are.

mod check;
mod hunt;
mod patch;

use std::process::ExitCode;

use patch::Break;

/// The options of the command.
#[derive(Default)]
struct Options {
    /// Parts of names; empty: all.
    only: Vec<String>,
    list: bool,
}

pub(crate) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let options = options(words)?;
    let mut breaks = Break::all(crate::root())?;
    let is_named = |broken: &Break, only: &String| broken.name.contains(only.as_str());
    if let Some(only) = options.only.iter().find(|only| !breaks.iter().any(|broken| is_named(broken, only))) {
        return Err(format!("no break has {only} in its name"));
    }
    breaks.retain(|broken| options.only.is_empty() || options.only.iter().any(|only| is_named(broken, only)));
    if options.list {
        print!("{}", table(&breaks));
        return Ok(ExitCode::SUCCESS);
    }
    hunt::run(&breaks)
}

fn options(words: &[&str]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--list" => options.list = true,
            "--only" => {
                options.only.push(words.next().ok_or("--only needs a part of a break's name")?.to_string());
            }
            unknown => return Err(format!("break does not know {unknown}")),
        }
    }
    Ok(options)
}

/// Returns the table of breaks and their tests.
fn table(breaks: &[Break]) -> String {
    let mut table = String::from("| break | fault | caught by |\n|---|---|---|\n");
    for Break { name, what, checks, .. } in breaks {
        let checks: Vec<String> = checks.iter().map(|check| format!("`{check}`")).collect();
        table.push_str(&format!("| `{name}` | {what} | {} |\n", checks.join(", ")));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Break> {
        Break::all(crate::root()).expect("every file of breaks/ can be read")
    }

    #[test]
    fn every_break_still_applies() {
        let breaks = all();
        assert!(breaks.len() >= 20, "there are {} breaks", breaks.len());
        for broken in &breaks {
            for edit in &broken.edits {
                let text = std::fs::read_to_string(crate::root().join(&edit.path)).expect("the file exists");
                assert!(edit.applied(&text).is_ok(), "{}: {:?}", broken.name, edit.applied(&text));
                let is_source = edit.path.starts_with("src/")
                    || ["backend", "cli", "http", "redis", "rules", "server", "stored", "tower"]
                        .iter()
                        .any(|name| edit.path.starts_with(&format!("crates/tollgate-{name}/src/")));
                assert!(is_source, "{}: a break changes the sources, not the tests", broken.name);
            }
        }
    }

    #[test]
    fn every_break_names_a_check_that_exists() {
        for Break { name, checks, .. } in all() {
            for check in checks {
                assert_eq!(check.exists(crate::root()), Ok(()), "{name}");
            }
        }
    }
}
