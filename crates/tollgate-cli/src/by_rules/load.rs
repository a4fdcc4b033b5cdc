//! Reads a rules file for a command that decides by it.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

use tollgate_rules::Rules;
use tollgate_rules_file::{Disk, read};

use crate::failure::Failure;
use crate::note::print_note;

/// Reads a rules file, and prints its errors if it has some. Its warnings are for `rules check`.
///
/// # Errors
///
/// When the file has errors.
pub(crate) fn load(path: &Path) -> Result<Rules, Failure> {
    let reading = read(path, &Disk);
    let errors: Vec<_> = reading.problems().iter().filter(|problem| !problem.is_warning()).collect();
    let colours = stderr().is_terminal();
    errors.iter().for_each(|problem| print_note(&format!("{}\n", problem.draw(colours))));
    if let Some(help) = reading.help().filter(|_| !errors.is_empty()) {
        print_note(&format!("{help}\n\n"));
    }
    let errors = crate::report::figures::counted(errors.len() as u64, "error");
    let rules = reading.into_rules().map_err(|_| Failure::Usage(format!("{}: {errors}", path.display())))?;
    let stored = rules.rules.iter().filter(|rule| rule.store.is_some()).count();
    if stored > 0 {
        let of = crate::report::figures::counted(stored as u64, "rule");
        print_note(&format!(
            "note: {of} with a store: decided here, and the store is neither asked nor changed\n"
        ));
    }
    Ok(rules)
}

/// The path of a rules file, as clap reads it.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("rules are read from files, since they may include others".into()),
        text => Ok(text.into()),
    }
}
