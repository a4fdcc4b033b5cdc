//! Copies of the repository, in which commands may change what they like.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::root;

/// What cargo writes and git keeps is not part of a copy.
const LEFT_OUT: [&str; 3] = ["target", ".git", "fuzz"];

/// Where cargo puts what it builds, as a path from the file system's root.
pub(crate) fn target() -> io::Result<PathBuf> {
    std::path::absolute(env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from))
}

/// Makes the folder `to` hold what `from` does. What is the same already is not written, so cargo builds only what changed.
pub(crate) fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let path = entry?.path();
        let original = from.join(path.file_name().unwrap_or_default());
        if !original.exists() {
            if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if LEFT_OUT.iter().any(|name| entry.file_name() == OsStr::new(name)) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            mirror(&from, &to)?;
        } else if from.is_file() {
            write(&to, &fs::read(&from)?)?;
        }
    }
    Ok(())
}

/// Writes `bytes` unless the file holds them.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|held| held == bytes) { Ok(()) } else { fs::write(path, bytes) }
}
