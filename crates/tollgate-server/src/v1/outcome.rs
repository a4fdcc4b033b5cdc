//! The answer to one request, as JSON and as headers.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use tollgate::Timestamp;
use tollgate_http::RequestHead;
use tollgate_rules::{Line, Ruling, Verdict};

use crate::core::{Core, Generation, ServerClock};

/// The answer to one request.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// `admitted`, `refused`, `unavailable`, `never`, `no_key`, `blocked`, `not_charged` or
    /// `error`.
    pub(super) outcome: &'static str,
    /// The rule that refuses, or else the one that has the least left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "nanos")]
    pub(super) retry_after_ns: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "nanos")]
    pub(super) reset_ns: Option<Duration>,
    #[serde(serialize_with = "nanos")]
    pub(super) delay_ns: Option<Duration>,
    /// In Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_before: Option<f64>,
    #[serde(serialize_with = "as_object")]
    pub(super) headers: HeaderMap,
    pub(super) generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ticket: Option<String>,
}

impl Outcome {
    /// Describes a verdict of this generation. `head` is that of the call.
    pub(super) fn of(
        verdict: &Verdict<'_, ServerClock>,
        generation: &Generation,
        core: &Core,
        head: RequestHead<'_>,
    ) -> Self {
        let (lines, decided_at) = (verdict.lines(), verdict.decided_at());
        let (http, zero) = (&generation.http, &core.unix_zero);
        let (line, headers) = match http.refusal(lines) {
            None => {
                let mut headers = HeaderMap::new();
                http.headers(lines, decided_at, zero).write(&mut headers, Duration::ZERO);
                (tightest(lines), headers)
            }
            Some(refusal) => {
                let mut headers = refusal.respond(head, decided_at, zero).into_parts().0.headers;
                // It describes a body that is not sent here.
                headers.remove(http::header::CONTENT_TYPE);
                (lines.iter().find(|line| refuses_as(line, verdict)), headers)
            }
        };
        let limited = line.filter(|line| line.limit < u64::MAX);
        Self {
            outcome: word(verdict.outcome()),
            rule: line.map(|line| http.set().rules().rules[line.rule].name.clone()),
            limit: limited.map(|line| line.limit),
            remaining: limited.map(|line| line.remaining),
            retry_after_ns: verdict.retry_after(),
            reset_ns: limited.map(|line| line.reset_after),
            delay_ns: Some(verdict.delay()),
            not_before: None,
            headers,
            generation: generation.number,
            ticket: None,
        }
    }

    /// Adds when the request may act.
    pub(super) fn add_not_before(&mut self, core: &Core, decided_at: Timestamp) {
        if self.outcome == word(Ruling::Admitted) {
            let at = decided_at + self.delay_ns.unwrap_or_default();
            let at = core.unix_zero.unix_time(&core.clock, at);
            // Rounded up: a caller that waits for it is not early.
            self.not_before = Some(at.as_nanos().div_ceil(1_000_000) as f64 / 1000.0);
        }
    }

    /// The answer to a request that no rule has decided: `not_charged` or `error`.
    pub(super) fn without_numbers(outcome: &'static str, generation: u64) -> Self {
        Self {
            outcome,
            rule: None,
            limit: None,
            remaining: None,
            retry_after_ns: None,
            reset_ns: None,
            delay_ns: Some(Duration::ZERO),
            not_before: None,
            headers: HeaderMap::new(),
            generation,
            ticket: None,
        }
    }

    /// The status of an answer to one request.
    pub(super) fn status(&self) -> StatusCode {
        match self.outcome {
            _ if self.is_admitted() => StatusCode::OK,
            outcome if outcome == word(Ruling::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Whether the request was admitted.
    pub(super) fn is_admitted(&self) -> bool {
        self.outcome == word(Ruling::Admitted)
    }
}

const fn word(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Admitted => "admitted",
        Ruling::Refused => "refused",
        Ruling::Unavailable => "unavailable",
        Ruling::Never => "never",
        Ruling::NoKey => "no_key",
        Ruling::Blocked => "blocked",
    }
}

/// The enforced line with the least left.
fn tightest(lines: &[Line]) -> Option<&Line> {
    lines.iter().filter(|line| !line.is_shadow).min_by_key(|line| line.remaining)
}

/// Whether a line is that by which the verdict refuses.
fn refuses_as(line: &Line, verdict: &Verdict<'_, ServerClock>) -> bool {
    !line.is_shadow && line.ruling == verdict.outcome() && line.retry_after == verdict.retry_after()
}

fn nanos<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let nanos = duration.unwrap_or_default().as_nanos();
    serializer.serialize_u64(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn as_object<S: Serializer>(headers: &HeaderMap, serializer: S) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(headers.len()))?;
    for (name, value) in headers {
        // Almost always ASCII, which is found many bytes at a time.
        let text = str::from_utf8(value.as_bytes());
        let text = text.map_or_else(|_| String::from_utf8_lossy(value.as_bytes()), Cow::Borrowed);
        object.serialize_entry(name.as_str(), &text)?;
    }
    object.end()
}
