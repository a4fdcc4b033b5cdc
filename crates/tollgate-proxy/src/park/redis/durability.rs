//! Whether a server keeps what it has answered.
//!
//! | `appendonly` | `appendfsync` | a request that was answered 202 |
//! |---|---|---|
//! | yes | always | is synced to the disk before the answer |
//! | yes | everysec, no | may be lost with the machine; the server warns |
//! | no | | is lost with the process: none is kept |
//! | not told | | unknown: the server warns |

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_redis::{FailureKind, Redis};

use super::super::ParkError;

/// How long an answer holds: the setting may be changed while the server runs.
const HOLDS: Duration = Duration::from_secs(10);

/// Whether a server writes to disk before it answers, as it said last.
pub(super) struct Durability {
    /// The server, for logs.
    name: String,
    known: Mutex<Option<(Instant, Kind)>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Always,
    /// As `appendfsync` says.
    Sometimes(String),
    Never,
    Untold,
}

impl Kind {
    fn of(settings: &[(String, String)]) -> Self {
        let setting =
            |name: &str| settings.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
        match (setting("appendonly"), setting("appendfsync")) {
            (Some("yes"), Some("always")) => Self::Always,
            (Some("yes"), Some(other)) => Self::Sometimes(other.to_owned()),
            (Some("no"), _) => Self::Never,
            _ => Self::Untold,
        }
    }

    /// That of several servers is the worst.
    fn rank(&self) -> u8 {
        match self {
            Self::Always => 0,
            Self::Sometimes(_) => 1,
            Self::Untold => 2,
            Self::Never => 3,
        }
    }
}

impl Durability {
    pub(super) fn new(name: String) -> Self {
        Self { name, known: Mutex::default() }
    }

    /// An error: what the server has answered, it does not keep; or it cannot be asked.
    pub(super) async fn holds(&self, redis: &Redis) -> Result<(), ParkError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kind = match known.filter(|(at, _)| at.elapsed() < HOLDS) {
            Some((_, kind)) => kind,
            None => self.ask(redis).await?,
        };
        if kind == Kind::Never { Err(ParkError::NotDurable) } else { Ok(()) }
    }

    async fn ask(&self, redis: &Redis) -> Result<Kind, ParkError> {
        let asked = Instant::now();
        let mut worst: Option<Kind> = None;
        for answer in redis.config("append*").await {
            let kind = match answer {
                Ok(settings) => Kind::of(&settings),
                Err(failed) if may_not_ask(failed.kind) => Kind::Untold,
                Err(failed) => return Err(ParkError::Store(failed.to_string())),
            };
            worst = Some(worst.filter(|worst| worst.rank() >= kind.rank()).unwrap_or(kind));
        }
        let kind = worst.ok_or_else(|| ParkError::Store("no server is known yet".into()))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(_, before)| *before != kind) {
            self.tell(&kind);
        }
        *known = Some((asked, kind.clone()));
        Ok(kind)
    }

    fn tell(&self, kind: &Kind) {
        let store = &*self.name;
        match kind {
            Kind::Always => tracing::info!(store, "the store syncs parked requests before they are answered"),
            Kind::Sometimes(when) => tracing::warn!(
                store,
                appendfsync = when,
                "a crash of the store's machine loses parked requests that were answered 202: set \
                 appendfsync to always"
            ),
            Kind::Untold => tracing::warn!(
                store,
                "the store does not tell whether it keeps parked requests over a crash: let the user run \
                 CONFIG GET, and set appendonly to yes and appendfsync to always"
            ),
            Kind::Never => tracing::error!(store, "no request is parked: {}", ParkError::NotDurable),
        }
    }
}

/// Whether the user may not ask for settings, or the server has no such command.
fn may_not_ask(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Auth | FailureKind::Script)
}
