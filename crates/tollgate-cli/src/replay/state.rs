//! `--save` and `--restore`: carry the debt of keys from one replay to the next.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tollgate::RestoreError;
use tollgate::saved::replace;

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
    is_writable(path).map_err(Failure::writing(path.display().to_string()))
}

fn is_writable(path: &Path) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this does not name a file"));
    }
    match fs::metadata(path) {
        Ok(existing) if existing.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // The rename at the end would remove a device or a pipe.
        Ok(existing) if !existing.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "only a file can be replaced by a file"))
        }
        _ => {
            let mut beside = path.as_os_str().to_owned();
            beside.push(format!(".{}.tmp", std::process::id()));
            File::create_new(&beside)?;
            fs::remove_file(&beside)
        }
    }
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
