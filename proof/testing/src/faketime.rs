//! The clock of a program that a test starts, by libfaketime.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools;

/// Says by how much the clock of a program is wrong.
pub struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// One that is right, kept in this folder. `None`: libfaketime is missing.
    pub fn right(folder: &Path) -> Option<Self> {
        let clock = Self { library: library()?, file: folder.join("clock") };
        clock.set("+0");
        Some(clock)
    }

    /// Sets it to so much before or after the machine's, such as `-1h`.
    pub fn set(&self, by: &str) {
        // In one step, so that the program never reads half of it.
        let new = self.file.with_extension("new");
        let set = std::fs::write(&new, by).and_then(|()| std::fs::rename(new, &self.file));
        set.expect("the temporary folder can be written to");
    }

    /// Has a program go by it, in its monotonic time as well.
    pub fn drive(&self, command: &mut Command) {
        // The C library's allocator: that of Debian's redis-server asks for the time too early.
        command.env("LD_PRELOAD", format!("{}:libc.so.6", self.library.display()));
        command.env("FAKETIME_TIMESTAMP_FILE", &self.file).env("FAKETIME_NO_CACHE", "1");
    }
}

/// The library of the program `faketime`. `None` is told as missing.
fn library() -> Option<PathBuf> {
    let named = std::env::var_os("TOLLGATE_FAKETIME").map(PathBuf::from);
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let usual = folders.iter().map(|folder| Path::new(folder).join("faketime/libfaketimeMT.so.1"));
    let found = named.into_iter().chain(usual).find(|file| file.is_file());
    found.or_else(|| tools::missing("libfaketime (Debian: faketime)"))
}
