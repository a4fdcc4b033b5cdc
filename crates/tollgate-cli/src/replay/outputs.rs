//! Where results go, judged before anything is read or written: a slip of the hand costs neither a log nor the time
//! to read one.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::args::Args;
use super::state;
use crate::failure::Failure;

/// Judges the files that `--decisions`, `--report` and `--save` name.
///
/// # Errors
///
/// When one of them is standard output but cannot be, is also read or written under another name, or cannot be written.
pub(super) fn judge(args: &Args) -> Result<(), Failure> {
    let decisions = args.decisions.as_deref().filter(|_| !args.decisions_on_stdout());
    let (report, save) = (args.report.as_deref(), args.save.as_deref());
    let outputs = [("--decisions", decisions), ("--report", report), ("--save", save)];
    let outputs: Vec<_> = outputs.iter().filter_map(|&(option, path)| Some((option, path?))).collect();
    for (i, &(option, path)) in outputs.iter().enumerate() {
        if path.as_os_str() == "-" {
            return Err(Failure::Usage(format!(
                "{option} writes a file, not standard output; one of this name is ./-"
            )));
        }
        // A state may be restored from and saved to one file: it is read first, and then replaced as a whole.
        let state = args.restore.as_deref().filter(|_| option != "--save");
        if args.reading.files().chain(state).any(|read| is_same(read, path)) {
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
        writable(path).map_err(Failure::writing(path.display().to_string()))?;
    }
    save.map_or(Ok(()), state::judge)
}

/// Whether writing one would change the other. What is no file, such as `/dev/null` or a pipe, keeps nothing.
fn is_same(one: &Path, other: &Path) -> bool {
    let is_file = |path: &Path| fs::metadata(path).map_or(true, |metadata| metadata.is_file());
    is_file(one) && is_file(other) && whole(one) == whole(other)
}

/// The path without links and detours, also of a file that is not there yet.
fn whole(path: &Path) -> PathBuf {
    let new = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(new).unwrap_or_else(|| path.to_owned())
}

/// Tries to open the file for writing, and leaves everything as it was.
fn writable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if metadata.is_file() => OpenOptions::new().write(true).open(path).map(drop),
        // A pipe must be opened only once: its reader would notice.
        Ok(_) => Ok(()),
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
    }
}
