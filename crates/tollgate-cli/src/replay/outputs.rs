//! The outputs. Their files are checked before anything is read or written, so that a mistake in
//! the command line costs neither a log nor the time to read one.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::Args;
use super::state;
use crate::demo;
use crate::failure::Failure;
use crate::note::print_note;
use crate::output::print_result;

/// Checks the files that `--decisions`, `--report` and `--save` name.
///
/// # Errors
///
/// When one of them is standard output but must be a file, is also an input or another output, or
/// cannot be written.
pub(super) fn validate(args: &Args) -> Result<(), Failure> {
    let decisions = args.decisions.as_deref().filter(|_| !args.decisions_on_stdout());
    let (report, save) = (args.report.as_deref(), args.save.as_deref());
    let outputs = [("--decisions", decisions), ("--report", report), ("--save", save)];
    let outputs: Vec<_> = outputs.iter().filter_map(|&(option, path)| Some((option, path?))).collect();
    for (i, &(option, path)) in outputs.iter().enumerate() {
        if path.as_os_str() == "-" {
            return Err(Failure::Usage(format!(
                "{option} writes a file, not standard output; a file of this name is ./-"
            )));
        }
        // One file may be restored from and saved to: it is read first and then replaced as a
        // whole.
        let state = args.restore.as_deref().filter(|_| option != "--save");
        if args.reading.files().chain(state).any(|input| is_same(input, path)) {
            let name = path.display();
            return Err(Failure::Usage(format!(
                "{option} would overwrite {name}, which is to be read: name another file"
            )));
        }
        if let Some((other, _)) = outputs[..i].iter().find(|(_, before)| is_same(before, path)) {
            let name = path.display();
            return Err(Failure::Usage(format!("{other} and {option} both write {name}: name two files")));
        }
    }
    if let Some(path) = report {
        check_writable(path).map_err(Failure::writing(path.display().to_string()))?;
    }
    save.map_or(Ok(()), state::check_writable)
}

/// Prints the outcome as `json` or as a `table`, has `write_page` write the page of `--report`, and
/// prints the notes on standard error.
pub(super) fn show(
    args: &Args,
    json: impl FnOnce() -> Value,
    table: &impl Display,
    write_page: impl FnOnce(&Path) -> Result<(), Failure>,
    notes: impl Iterator<Item = String>,
) -> Result<(), Failure> {
    let text = if args.json {
        format!("{}\n", json())
    } else {
        let introduction = if args.reading.is_demo() { introduction() } else { String::new() };
        format!("{introduction}{table}")
    };
    if args.decisions_on_stdout() {
        print_note(text.trim_end_matches('\n'));
    } else {
        print_result(&text)?;
    }
    args.report.as_deref().map_or(Ok(()), write_page)?;
    notes.for_each(|note| print_note(&note));
    Ok(())
}

/// A list of the personas of the made-up day.
fn introduction() -> String {
    demo::introductions().iter().map(|line| format!("  - {line}\n")).collect::<String>() + "\n"
}

/// Whether writing one would change the other. A device or a pipe keeps nothing.
fn is_same(one: &Path, other: &Path) -> bool {
    let is_file = |path: &Path| fs::metadata(path).map_or(true, |metadata| metadata.is_file());
    is_file(one) && is_file(other) && resolved(one) == resolved(other)
}

/// The path without links and `..`, also of a file that does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    let new = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(new).unwrap_or_else(|| path.to_owned())
}

/// Tries to open the file for writing; changes nothing.
fn check_writable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if metadata.is_file() => OpenOptions::new().write(true).open(path).map(drop),
        // Opening and closing a pipe here would end its reader.
        Ok(_) => Ok(()),
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
    }
}
