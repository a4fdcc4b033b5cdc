//! Checks of a limiter in shadow mode.

use std::sync::Arc;
use std::time::Duration;

use tollgate::Outcome;

use super::Limiter;
use crate::answer::{Answer, DecidedBy, LimitAnswer};
use crate::shadow::Shadow;

impl Shadow {
    /// Begins a check, and admits the request without waiting for it. Without room, the check is
    /// dropped and counted.
    ///
    /// The check's own clone of the limiter ends with it, so a dropped limiter waits for nothing.
    pub(crate) fn admit(&self, limiter: &Limiter, key: &[u8], cost: u64) -> Answer {
        let metrics = &limiter.layers().metrics;
        match Arc::clone(&self.room).try_acquire_owned() {
            Ok(permit) => {
                let (limiter, key) = (limiter.clone(), key.to_vec());
                self.runtime.spawn(async move {
                    // Counted by the layers, also if it fails.
                    let _ = limiter.check_through_layers(&key, cost).await;
                    drop(permit);
                });
            }
            Err(_) => metrics.dropped(),
        }
        metrics.decided(DecidedBy::Shadow, Outcome::Allowed);
        let limit = limiter.limit();
        let part = LimitAnswer {
            outcome: Outcome::Allowed,
            limit,
            remaining: limit.saturating_sub(cost),
            retry_after: None,
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
        };
        Answer::without_store(DecidedBy::Shadow, Outcome::Allowed, cost, None, part.into(), None)
    }
}
