//! Headers and body of a response to a request that is over the limit.

use std::time::Duration;

use http::Request;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use tollgate::Timestamp;
use tollgate_http::RequestHead;
use tollgate_proxy::Generation;
use tollgate_rules::Ruling;

use super::proto::{HeaderValue, RateLimitResponse};
use super::status::Judged;
use crate::core::Core;

/// Headers and body of a refusal, and how long it lasts.
pub(super) struct Refusal {
    lasts: (Ruling, Option<Duration>),
    /// What the client is told beyond the exact wait.
    pub(super) jitter: Duration,
    headers: Vec<HeaderValue>,
    body: Vec<u8>,
}

impl Refusal {
    /// That of a descriptor which does not pass, decided at this time: as rule and file say.
    #[cold]
    pub(super) fn of(core: &Core, rules: &Generation, judged: &Judged<'_>, now: Timestamp) -> Option<Self> {
        let line = judged.told()?;
        let refusal = rules.http.refusal(&judged.lines)?;
        // Bodies repeat nothing of the request.
        let request = Request::new(());
        let response = refusal.respond(RequestHead::of(&request), now, &core.unix_zero);
        let headers = response.headers().iter().filter(|(name, _)| *name != CONTENT_LENGTH);
        let headers = headers.map(|(name, value)| header(name.as_str(), value.as_bytes())).collect();
        let lasts = (line.ruling, line.retry_after);
        Some(Self { lasts, jitter: refusal.jitter(), headers, body: response.into_body().into_bytes() })
    }

    /// Of two refusals of a call the one that lasts longer, the first of equal ones.
    pub(super) fn longer(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) if other.lasts > one.lasts => Some(other),
            (one, other) => one.or(other),
        }
    }

    /// Puts it into a response.
    pub(super) fn write(self, response: &mut RateLimitResponse) {
        (response.response_headers_to_add, response.raw_body) = (self.headers, self.body);
    }
}

/// `Retry-After` alone, in whole seconds: Envoy sends none.
pub(super) fn retry_after(response: &mut RateLimitResponse, seconds: u64) {
    let seconds = seconds.max(1).to_string();
    response.response_headers_to_add.push(header(RETRY_AFTER.as_str(), seconds.as_bytes()));
}

fn header(name: &str, value: &[u8]) -> HeaderValue {
    match std::str::from_utf8(value) {
        Ok(value) => HeaderValue { key: name.into(), value: value.into(), raw_value: Vec::new() },
        Err(_) => HeaderValue { key: name.into(), value: String::new(), raw_value: value.into() },
    }
}
