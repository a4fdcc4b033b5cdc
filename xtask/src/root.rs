//! Where the repository is.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Returns the root of the repository. The variable of `cargo run` comes first, because a target
/// folder that two checkouts share may contain the binary of the other.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let built = || env!("CARGO_MANIFEST_DIR").into();
        let xtask = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(built));
        xtask.parent().expect("xtask lies in the repository").to_owned()
    });
    &ROOT
}
