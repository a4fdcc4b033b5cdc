//! `--save` and `--restore`: what keys owe, from one replay to the next.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tollgate::RestoreError;

use super::gate::Gate;
use crate::failure::{Failure, say};
use crate::report::figures::counted;

/// A saved limiter that was found, not yet read.
#[derive(Debug)]
pub(super) struct Saved {
    name: String,
    file: File,
}

impl Saved {
    /// Opens the file, so that one that is missing is told before a long log is read.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(Self { name, file }),
            Err(error) => Err(Failure::Usage(format!("{name}: cannot be opened: {error}"))),
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The engine's error, with the file's name in front.
    pub(super) fn refused(&self, error: &RestoreError) -> Failure {
        Failure::Usage(format!("{}: {error}", self.name))
    }
}

/// Judges where the state is to be written, so that it is told before a long log is read.
///
/// # Errors
///
/// When it cannot be.
pub(super) fn judge(path: &Path) -> Result<(), Failure> {
    let name = path.display().to_string();
    let free = || match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // A device or a pipe would be gone, and a file in its place.
        Ok(there) if !there.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "only a file can be replaced by a file"))
        }
        _ => beside(path),
    };
    let tried = free().and_then(|beside| private(&beside).and_then(|_| fs::remove_file(&beside)));
    tried.map_err(Failure::writing(name))
}

/// Writes what the keys owe at `t_ns`: to a new file beside `path`, which then takes its name, so that whoever reads
/// `path` finds the old state or the new one, whole.
///
/// # Errors
///
/// When it cannot be written; `path` is then as it was.
pub(super) fn save(path: &Path, gate: &Gate, t_ns: u64) -> Result<(), Failure> {
    let name = path.display().to_string();
    let keys = replace(path, |file| gate.save(file, t_ns)).map_err(Failure::writing(&name))?;
    let owe = if keys == 1 { "owes" } else { "owe" };
    say(&format!(
        "{name}: saved what {} {owe}, and the secret by which keys are named; keep it to yourself",
        counted(keys as u64, "key")
    ));
    Ok(())
}

fn replace<T>(path: &Path, write: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let beside = beside(path)?;
    let file = private(&beside)?;
    let written = write(&file).and_then(|written| {
        // The name must not be ahead of what it names, whenever the machine stops.
        file.sync_all()?;
        fs::rename(&beside, path)?;
        Ok(written)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// In the same folder, because only within a file system is a rename atomic.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name for a file"));
    };
    let mut name = name.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(name))
}

/// Creates a file for its owner only: it will hold the secret by which keys are named.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // New, so that nobody else's file or link is followed.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
