//! The file that the rules of a layer are in.

use std::path::PathBuf;

use tollgate_rules_file::{LiveFile, Watched};

use crate::rule::SharedClock;

/// The file that the rules of a layer are in.
pub(crate) struct FileOfRules {
    /// The thread that watches it. `None`: another part of the process reads it.
    pub(crate) _watched: Option<Watched>,
    pub(crate) file: LiveFile<SharedClock>,
    pub(crate) path: PathBuf,
}
