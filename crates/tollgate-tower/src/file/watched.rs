//! What a layer shares with its services.

use tollgate_rules_file::Watched;

use super::decide::FileState;

/// What a layer shares with its services, and the thread that watches its file, if it has one.
pub(super) struct WatchedState {
    // Dropped first: the thread ends before the rules are gone.
    pub(super) _watched: Option<Watched>,
    pub(super) state: FileState,
}
