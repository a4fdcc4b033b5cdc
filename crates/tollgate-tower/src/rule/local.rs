//! The engine's limiter behind a rule.

use tollgate::{BuildError, MultiLimiter, Quota, WhenFull};

use super::SharedClock;

/// The limits of a rule that this process decides: one or several, all or nothing.
pub(crate) type LocalLimiter = MultiLimiter<[u8], SharedClock>;

/// Builds the limiter. `max_keys`: the engine's default if `None`.
pub(crate) fn local_limiter(
    quotas: &[Quota],
    max_keys: Option<usize>,
    when_full: WhenFull,
    clock: SharedClock,
) -> Result<LocalLimiter, BuildError> {
    let builder = MultiLimiter::builder(quotas.iter().copied()).when_full(when_full).clock(clock);
    if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder }.build()
}
