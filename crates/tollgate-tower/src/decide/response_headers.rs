//! The rate limit headers of a response, and the instant from which their times count.

use std::sync::{Arc, LazyLock};

use http::HeaderMap;
use tollgate::{Clock, Timestamp, TscClock};
use tollgate_http::{LimitHeaders, expose_limits};

use crate::rule::SharedClock;

/// The clock of all layers that have no other. A future reads it without a reference counter, which
/// all cores would share.
static DEFAULT_CLOCK: LazyLock<TscClock> = LazyLock::new(TscClock::new);

/// The clock of a layer, for the future of a response.
#[derive(Clone, Default)]
pub(crate) struct ResponseClock(Option<SharedClock>);

impl ResponseClock {
    /// `None` stands for the clock of all layers that have no other.
    pub(crate) fn new(clock: Option<SharedClock>) -> Self {
        Self(clock)
    }

    /// Returns the clock for the limits of the layer.
    pub(crate) fn shared(&self) -> SharedClock {
        self.0.clone().unwrap_or_else(|| Arc::new(DEFAULT_CLOCK.clone()))
    }

    #[inline]
    fn now(&self) -> Timestamp {
        self.0.as_ref().map_or_else(|| DEFAULT_CLOCK.now(), |clock| clock.now())
    }
}

/// The rate limit headers of a response that is not there yet.
#[derive(Default)]
pub(crate) struct ResponseHeaders {
    headers: LimitHeaders,
    decided_at: Timestamp,
    clock: ResponseClock,
    /// Whether a page in a browser is to read them.
    pub(crate) exposed: bool,
}

impl ResponseHeaders {
    #[inline]
    pub(crate) fn new(headers: LimitHeaders, decided_at: Timestamp, clock: &ResponseClock) -> Self {
        Self { headers, decided_at, clock: clock.clone(), exposed: false }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.headers.is_empty() && !self.exposed
    }

    /// Adds the headers to the response to an admitted request.
    pub(crate) fn write(&mut self, headers: &mut HeaderMap) {
        if !self.headers.is_empty() {
            self.headers.write(headers, self.clock.now().saturating_since(self.decided_at));
        }
        if self.exposed {
            expose_limits(headers);
        }
    }
}
