//! A file that is whole, or the one before.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Replaces the file at `path` by what `write` fills a new one with, and returns what that returns.
///
/// The new one is beside it, under the name with `.new` behind it, until it is whole and on the
/// disk: so the file is the old one or the new one, however the process ends. Only its owner may
/// read it, where the system has such permissions (Unix): saved limiters are secrets. Call it from
/// one thread at a time.
///
/// # Errors
///
/// Those of the file system and of `write`. The file is the old one then.
pub fn replace<T>(path: &Path, write: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let written = fill(beside.as_ref(), write).and_then(|written| {
        fs::rename(&beside, path)?;
        sync_directory(path)?;
        Ok(written)
    });
    if written.is_err() {
        // On a full disk, its room is for the next try.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn fill<T>(beside: &Path, write: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    // One that a killed process left there, with any permissions.
    match fs::remove_file(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(beside)?;
    let written = write(&file)?;
    file.sync_all()?;
    Ok(written)
}

/// The rename itself must outlast a loss of power.
fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
