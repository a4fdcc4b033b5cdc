//! The engine's limiter behind a rule, and the states of its limits for headers.

use std::time::Duration;

use tollgate::{BuildError, LimitDecision, MultiDecision, MultiLimiter, Quota, WhenFull};

use super::SharedClock;
use crate::headers::LimitState;

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

/// What headers and queues ask of a decision, limit by limit.
pub(crate) trait LimitStates {
    /// Returns the time until the queue of the limit with this number is empty.
    fn queue_time(&self, number: usize) -> Duration;

    /// Returns a mask with a bit for each limit that refuses, by its number.
    fn refusing(&self) -> u64;

    /// Returns the state of one of the limits.
    fn limit_state(&self, number: usize) -> Option<LimitState>;

    /// Calls `each` with each limit's number, whether it refuses, and its state.
    fn each_state(&self, each: impl FnMut(usize, bool, LimitState));
}

impl LimitStates for MultiDecision<'_> {
    fn queue_time(&self, number: usize) -> Duration {
        self.parts().nth(number).map_or(Duration::ZERO, |limit| limit.reset_after())
    }

    fn refusing(&self) -> u64 {
        self.parts().fold(0, |mask, limit| mask | u64::from(limit.refuses()) << limit.number())
    }

    fn limit_state(&self, number: usize) -> Option<LimitState> {
        self.parts().nth(number).map(|limit| state(&limit))
    }

    #[inline]
    fn each_state(&self, mut each: impl FnMut(usize, bool, LimitState)) {
        self.parts().for_each(|limit| each(limit.number(), limit.refuses(), state(&limit)));
    }
}

fn state(limit: &LimitDecision<'_>) -> LimitState {
    let reset = limit.retry_after().unwrap_or_else(|| limit.reset_after());
    LimitState { limit: limit.limit(), remaining: limit.remaining(), reset }
}
