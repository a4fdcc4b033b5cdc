//! `--save` and `--restore`: carry the debt of keys from one replay to the next.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tollgate::RestoreError;

use super::limiter::ReplayLimiter;
use crate::failure::Failure;
use crate::note::print_note;
use crate::report::figures::counted;

/// The open file of a saved limiter.
#[derive(Debug)]
pub(super) struct Saved {
    name: String,
    file: File,
}

impl Saved {
    /// Opens the file before a long log is read, so that a missing one is reported at once.
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

/// Checks that the state can be written, before a long log is read.
///
/// # Errors
///
/// When it cannot be written.
pub(super) fn check_writable(path: &Path) -> Result<(), Failure> {
    let name = path.display().to_string();
    let temporary = || match fs::metadata(path) {
        Ok(existing) if existing.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // The rename at the end would remove a device or a pipe.
        Ok(existing) if !existing.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "only a file can be replaced by a file"))
        }
        _ => temporary_path(path),
    };
    let create = |path: PathBuf| create_private(&path).and_then(|_| fs::remove_file(&path));
    temporary().and_then(create).map_err(Failure::writing(name))
}

/// Writes the debt of the keys at `t_ns`.
///
/// # Errors
///
/// When it cannot be written; `path` is then unchanged.
pub(super) fn save(path: &Path, limiter: &ReplayLimiter, t_ns: u64) -> Result<(), Failure> {
    let name = path.display().to_string();
    let keys = replace(path, |file| limiter.save(file, t_ns)).map_err(Failure::writing(&name))?;
    print_note(&format!(
        "{name}: saved the debt of {}, and the secret that hashes keys; keep it to yourself",
        counted(keys as u64, "key")
    ));
    Ok(())
}

/// Writes a new file beside `path` and renames it, so that a reader of `path` finds the whole old
/// state or the whole new one.
fn replace<T>(path: &Path, write: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let temporary = temporary_path(path)?;
    let file = create_private(&temporary)?;
    let written = write(&file).and_then(|written| {
        // Without this, a crash after the rename could leave an empty file under `path`.
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        Ok(written)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A name in the same folder: a rename is atomic only within a file system.
fn temporary_path(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this does not name a file"));
    };
    let mut name = name.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(name))
}

/// Creates a file that only its owner can read, because it will hold the secret that hashes keys.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Never opens an existing file or link, which may be another user's.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
