//! The answer to one request, as JSON and as headers.

use std::time::Duration;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use tollgate::Timestamp;
use tollgate_http::{HeaderJson, HeaderSink, LONGEST_WAIT};
use tollgate_proxy::Generation;
use tollgate_rules::{Line, Ruling, Verdict};

use super::tickets::TicketId;
use crate::clock::ServerClock;
use crate::core::Core;

/// The answer to one request, but for its headers and its ticket.
#[derive(Debug, Default)]
pub(super) struct Outcome<'g> {
    /// `admitted`, `refused`, `unavailable`, `never`, `no_key`, `blocked`, `not_charged` or
    /// `error`.
    pub(super) outcome: &'static str,
    /// The rule that refuses, or else the one that has the least left.
    pub(super) rule: Option<&'g str>,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) retry_after: Option<Duration>,
    pub(super) reset_after: Option<Duration>,
    pub(super) delay: Duration,
    /// In Unix seconds.
    pub(super) not_before: Option<f64>,
    pub(super) generation: u64,
}

impl<'g> Outcome<'g> {
    /// Describes a verdict of this generation, and writes its headers.
    pub(super) fn of(
        verdict: &Verdict<'_, ServerClock>,
        generation: &'g Generation,
        core: &Core,
        headers: &mut impl HeaderSink,
    ) -> Self {
        let (lines, decided_at) = (verdict.lines(), verdict.decided_at());
        let (http, zero) = (&generation.http, &core.unix_zero);
        let line = match http.refusal(lines) {
            None => {
                http.write_headers(lines, (decided_at, Duration::ZERO), zero, headers);
                tightest(lines)
            }
            Some(refusal) => {
                refusal.write_headers(decided_at, zero, headers);
                // Of a rule that names one: its body is not sent here.
                headers.remove(&CONTENT_TYPE);
                lines.iter().find(|line| refuses_as(line, verdict))
            }
        };
        let limited = line.filter(|line| line.limit < u64::MAX);
        Self {
            outcome: word(verdict.outcome()),
            rule: line.map(|line| &*http.rule(line).name),
            limit: limited.map(|line| line.limit),
            remaining: limited.map(|line| line.remaining),
            retry_after: verdict.retry_after(),
            reset_after: limited.map(|line| line.reset_after),
            delay: verdict.delay(),
            not_before: None,
            generation: generation.number,
        }
    }

    /// Adds when the request may act.
    pub(super) fn add_not_before(&mut self, core: &Core, decided_at: Timestamp) {
        if self.outcome == word(Ruling::Admitted) {
            let at = core.unix_zero.unix_time(&core.clock, decided_at + self.delay);
            // Rounded up: a caller that waits for it is not early.
            self.not_before = Some(at.as_nanos().div_ceil(1_000_000) as f64 / 1000.0);
        }
    }

    /// The answer to a request that no rule has decided: `not_charged` or `error`.
    pub(super) fn without_numbers(outcome: &'static str, generation: u64) -> Self {
        Self { outcome, generation, ..Self::default() }
    }

    /// Appends the answer as a JSON object that lacks its [end](write_end).
    pub(super) fn write(&self, headers: &HeaderJson, json: &mut Vec<u8>) {
        let mut text = |text: &str| json.extend_from_slice(text.as_bytes());
        text("{\"outcome\":\"");
        text(self.outcome);
        if let Some(rule) = self.rule {
            // Names of rules need no escapes.
            text("\",\"rule\":\"");
            text(rule);
        }
        text("\"");
        let nanos = |wait: Duration| wait.min(LONGEST_WAIT).as_nanos() as u64;
        for (name, number) in [
            (",\"limit\":", self.limit),
            (",\"remaining\":", self.remaining),
            (",\"retry_after_ns\":", self.retry_after.map(nanos)),
            (",\"reset_ns\":", self.reset_after.map(nanos)),
            (",\"delay_ns\":", Some(nanos(self.delay))),
        ] {
            if let Some(number) = number {
                text(name);
                text(itoa::Buffer::new().format(number));
            }
        }
        if let Some(seconds) = self.not_before {
            text(",\"not_before\":");
            text(&serde_json::json!(seconds).to_string());
        }
        text(",\"headers\":");
        headers.write_object(json);
        json.extend_from_slice(b",\"generation\":");
        json.extend_from_slice(itoa::Buffer::new().format(self.generation).as_bytes());
    }
}

/// Appends the end of an answer, with the ticket that the caller may settle.
pub(super) fn write_end(ticket: Option<TicketId>, json: &mut Vec<u8>) {
    if let Some(ticket) = ticket {
        json.extend_from_slice(format!(",\"ticket\":\"{ticket}\"").as_bytes());
    }
    json.push(b'}');
}

/// The status of an answer to one request; `None`: an error.
pub(super) fn status(ruling: Option<Ruling>) -> StatusCode {
    match ruling {
        Some(Ruling::Admitted) => StatusCode::OK,
        Some(Ruling::Unavailable) | None => StatusCode::SERVICE_UNAVAILABLE,
        Some(_) => StatusCode::TOO_MANY_REQUESTS,
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
