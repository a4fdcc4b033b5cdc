//! Folders and ports that no other test has.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

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

/// A port of this machine that is free now. Another process may take it before the test does.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("the listener has an address").port()
}
