//! One client, and what all clients share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use tollgate_net::listen::Peer;

use super::access::{Access, Role};
use super::reply::Version;
use crate::core::Core;
use crate::settings::Settings;

/// What all clients share.
pub(crate) struct Shared {
    pub(super) core: Arc<Core>,
    pub(super) access: Access,
    pub(super) started: Instant,
    pub(super) clients: AtomicU64,
}

impl Shared {
    pub(crate) fn new(core: Arc<Core>, settings: &Settings) -> Self {
        Self { core, access: Access::new(settings), started: Instant::now(), clients: AtomicU64::new(0) }
    }
}

/// One client.
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) name: Vec<u8>,
    pub(super) role: Role,
    pub(super) version: Version,
}

/// The next step after some commands have been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// More bytes: all whole commands are answered.
    Read,
    /// Answers must be sent, or others need a turn, before the commands that are there.
    Turn,
    /// Something that takes long, whose answer comes next.
    Slow(Slow),
    /// The answers are sent, and the connection ends.
    Close,
}

/// What takes too long for a thread that serves others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slow {
    /// `DBSIZE`: reads the whole table.
    CountKeys,
    /// `FLUSHALL`: frees the table.
    ForgetKeys,
}
