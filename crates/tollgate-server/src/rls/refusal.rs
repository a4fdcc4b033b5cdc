//! Headers and body of a response to a request that is over the limit.

use std::time::Duration;

use http::Request;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use tollgate_http::RequestHead;
use tollgate_rules::{Line, Ruling, Verdict};

use super::proto::{HeaderValue, RateLimitResponse};
use super::status::{passes, told};
use crate::core::{Core, Generation, ServerClock};

/// Headers and body of a refusal, and how long it lasts.
pub(super) struct Refusal {
    lasts: (Ruling, Option<Duration>),
    headers: Vec<HeaderValue>,
    body: Vec<u8>,
}

impl Refusal {
    /// That of a verdict which does not [pass](passes): as the rule and the file say.
    #[cold]
    pub(super) fn of(
        core: &Core,
        generation: &Generation,
        verdict: &Verdict<'_, ServerClock>,
    ) -> Option<Self> {
        let waiting: Vec<Line>;
        let lines = if verdict.is_admitted() && !passes(verdict) {
            // What would have to wait is refused for so long.
            let refused = |line: &Line| {
                let mut line = *line;
                if !line.delay.is_zero() && !line.is_shadow {
                    (line.ruling, line.retry_after) = (Ruling::Refused, Some(line.delay));
                }
                line
            };
            waiting = verdict.lines().iter().map(refused).collect();
            &*waiting
        } else {
            verdict.lines()
        };
        let refusal = generation.http.refusal(lines)?;
        // Bodies repeat nothing of the request.
        let request = Request::new(());
        let response = refusal.respond(RequestHead::of(&request), verdict.decided_at(), &core.unix_zero);
        let headers = response.headers().iter().filter(|(name, _)| *name != CONTENT_LENGTH);
        let headers = headers.map(|(name, value)| header(name.as_str(), value.as_bytes())).collect();
        let line = told(verdict)?;
        let wait = if verdict.is_admitted() { Some(line.delay) } else { line.retry_after };
        let lasts = (line.ruling.max(Ruling::Refused), wait);
        Some(Self { lasts, headers, body: response.into_body().into_bytes() })
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
