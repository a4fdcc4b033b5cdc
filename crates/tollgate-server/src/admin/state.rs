//! What all pages of the administration work on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tollgate_net::Limits;
use tollgate_net::listen::Drain;

use super::history::History;
use crate::core::Core;

/// What the administration of a server needs.
pub(crate) struct Admin {
    pub(super) core: Arc<Core>,
    pub(super) drain: Drain,
    pub(super) limits: Limits,
    /// The rules file.
    pub(super) rules: PathBuf,
    pub(super) token: Option<Box<[u8]>>,
    pub(super) history: History,
    pub(super) started: Instant,
}
