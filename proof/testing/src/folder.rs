//! Folders and ports that no other test has.

use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tempfile::TempDir;

/// The ports that tests choose themselves.
const FIXED: Range<u16> = 10_000..32_000;

/// A folder, which is removed with the value.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// An empty folder.
    #[expect(clippy::new_without_default, reason = "each is another folder")]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("tollgate-").tempdir();
        Self(folder.expect("the temporary folder can be written to"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file. Returns its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, bytes).expect("the temporary folder can be written to");
        path
    }
}

/// A port of this machine that is free now, and that no socket gets which asks the system for any:
/// those ports begin at 32,768. Another call in this process gets another one.
pub fn free_port() -> u16 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Processes that test at the same time begin apart.
    let first = std::process::id().wrapping_mul(64);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = || first.wrapping_add(CALLS.fetch_add(1, Relaxed)) % FIXED.len() as u32;
    let mut ports = (0..FIXED.len()).map(|_| FIXED.start + port() as u16);
    ports.find(is_free).expect("a port is free")
}
