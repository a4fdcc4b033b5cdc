//! Copies of the repository that commands may change.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::root;

/// The folders that are not copied.
const EXCLUDED: [&str; 3] = ["target", ".git", "fuzz"];

/// Returns the absolute path of cargo's target folder.
pub(crate) fn target() -> io::Result<PathBuf> {
    std::path::absolute(env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from))
}

/// Makes the folder `to` a copy of `from`. Files that are equal already are not written, so that
/// cargo builds only what changed.
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
        if EXCLUDED.iter().any(|name| entry.file_name() == OsStr::new(name)) {
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

/// Writes `bytes` unless the file contains them already.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|held| held == bytes) { Ok(()) } else { fs::write(path, bytes) }
}
