//! Limits of requests in flight.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{AcquireError, BuildError, InFlightLimiter, OwnedInFlight};
use tollgate_http::LimitState;

use super::request::CheckRequest;

/// The places of a request. Dropping it gives them back.
pub(crate) type Place = OwnedInFlight<[u8]>;

/// The limit in flight of a rule, of one of its tiers, or of one key.
#[derive(Debug)]
pub(crate) struct InFlightSet(pub(crate) Arc<InFlightLimiter<[u8]>>);

impl InFlightSet {
    /// Builds the limiter. `max_keys`: the engine's default if `None`.
    pub(crate) fn new(limit: u64, max_keys: Option<usize>) -> Result<Self, BuildError> {
        let builder = InFlightLimiter::builder(limit).per();
        let limiter = if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder }.build()?;
        Ok(Self(Arc::new(limiter)))
    }

    /// Takes the places of a request.
    pub(crate) fn acquire(&self, request: CheckRequest<'_>) -> Result<Place, AcquireError> {
        self.0.try_acquire_n_owned(request.key, request.cost)
    }

    /// Returns what [`acquire`](Self::acquire) would, unless the table is full, and takes nothing.
    pub(crate) fn peek(&self, key: &[u8], cost: u64) -> Result<(), AcquireError> {
        let (limit, in_flight) = (self.0.limit(), self.0.in_flight(key));
        match cost {
            0 => Ok(()),
            _ if cost > limit => Err(AcquireError::Never { units: cost, limit }),
            _ if in_flight.saturating_add(cost) > limit => Err(AcquireError::Busy),
            _ => Ok(()),
        }
    }

    /// Returns the state of the limit. The time at which a place becomes free is not known.
    pub(crate) fn state(&self, key: &[u8]) -> LimitState {
        let limit = self.0.limit();
        let remaining = limit.saturating_sub(self.0.in_flight(key));
        LimitState { limit, remaining, reset: Duration::MAX }
    }

    /// Returns the state of the limit when it refuses a request of this cost. Places that came back
    /// since do not count.
    pub(crate) fn refusing_state(&self, key: &[u8], cost: u64) -> LimitState {
        let state = self.state(key);
        LimitState { remaining: state.remaining.min(cost.saturating_sub(1)), ..state }
    }
}
