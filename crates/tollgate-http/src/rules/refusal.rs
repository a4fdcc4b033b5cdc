//! The response to a refused request, as the rule (`refuse`) and the file (`[answer]`) say.

use std::fmt;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tollgate::{Clock, Timestamp, TscClock};
use tollgate_rules::{BodyFormat, Line, Rule, Ruling};

use super::chance::Chance;
use super::http_rules::HttpRules;
use crate::{
    GrpcResponder, HeaderSink, HttpResponder, QuotaPolicies, Refusal, RefusalReason, RefusalRecord,
    RequestHead, Respond, UnixZero,
};

/// A refusal by rules: see [`HttpRules::refusal`]. What the rule says of the response comes before
/// what the file says.
pub struct RuleRefusal<'v, C = TscClock> {
    http: &'v HttpRules<C>,
    lines: &'v [Line],
    rule: &'v Rule,
    /// The names of the limits of the line that refuses.
    names: &'v [Box<str>],
    record: RefusalRecord,
    chance: Option<Chance>,
}

impl<'v, C> RuleRefusal<'v, C> {
    /// The refusal by this one of the lines.
    pub(super) fn new(http: &'v HttpRules<C>, lines: &'v [Line], line: &'v Line) -> Self {
        let shows_limit = matches!(line.ruling, Ruling::Refused | Ruling::Never);
        let policies = http.limits(line).policies.as_ref();
        let number = line.number.filter(|_| shows_limit && policies.is_some());
        // A ban, and a store, refuse by no limit of the rule.
        let refusing =
            number.map_or(0, |number| if line.refusing == 0 { 1 << number } else { line.refusing });
        let record = RefusalRecord {
            reason: reason(line.ruling),
            cost: line.cost,
            state: http.shown(line).filter(|_| shows_limit).map(|(_, state)| state),
            retry_after: line.retry_after,
            slowest: number,
            refusing,
        };
        let names = policies.filter(|_| number.is_some()).map_or(&[][..], QuotaPolicies::names);
        Self { http, lines, rule: http.rule(line), names, record, chance: http.chance() }
    }

    /// Returns the rule that refuses.
    #[must_use]
    pub fn rule(&self) -> &'v Rule {
        self.rule
    }

    /// Describes the refusal of a request with this head, with its exact wait: without the jitter
    /// that clients are told.
    #[must_use]
    pub fn describe<'r>(&'r self, head: RequestHead<'r>) -> Refusal<'r> {
        Refusal::new(head, &self.rule.name, self.names, &self.record)
    }

    /// Returns what clients are told beyond the exact wait: at random, and for this refusal always
    /// the same. Zero, unless the file says `jitter`.
    #[must_use]
    pub fn jitter(&self) -> Duration {
        self.chance.map_or(Duration::ZERO, |chance| self.http.jitter(self.rule, chance))
    }

    /// Returns the wait that clients are told.
    fn retry_after(&self) -> Option<Duration> {
        Some(self.record.retry_after?.saturating_add(self.jitter()))
    }

    /// Returns the response without the headers that the file names, and those of the limits.
    fn answer(&self, refusal: &Refusal<'_>) -> Response<String> {
        let (rule, file) = (&self.rule.refuse, &self.http.set().rules().answer);
        let own = (self.record.reason == RefusalReason::BackendFailed).then_some(503);
        let status = own.or(rule.status).or(file.status);
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        match self.body() {
            Some((kind, body)) => {
                let mut response = Response::new(String::from(body));
                *response.status_mut() = status;
                if let Ok(kind) = HeaderValue::from_str(kind) {
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                }
                response
            }
            None => {
                let format = match rule.format.or(file.format).unwrap_or(BodyFormat::Problem) {
                    BodyFormat::Problem => HttpResponder::problem(),
                    BodyFormat::Json => HttpResponder::json(),
                    BodyFormat::Text => HttpResponder::text(),
                };
                format.status(status).respond(refusal)
            }
        }
    }

    /// Returns the text in place of a body that the server writes, with its type. A rule's format
    /// wins over the file's text.
    fn body(&self) -> Option<(&'v str, &'v str)> {
        let said = [&self.rule.refuse, &self.http.set().rules().answer];
        let said = said.into_iter().find(|said| said.body.is_some() || said.format.is_some())?;
        Some((said.content_type.as_deref().unwrap_or("text/plain"), said.body.as_deref()?))
    }
}

impl<C: Clock> RuleRefusal<'_, C> {
    /// Returns the response to a request with this head, decided at this time: status, body, and
    /// all headers.
    #[must_use]
    pub fn respond(
        &self,
        head: RequestHead<'_>,
        decided_at: Timestamp,
        unix_zero: &UnixZero,
    ) -> Response<String> {
        self.respond_with(head, decided_at, unix_zero, |refusal| self.answer(refusal))
    }

    /// As [`respond`](Self::respond), but to a client of gRPC or grpc-web in its protocol: it
    /// understands no other status and body. Its status is 200, which means another thing to a
    /// proxy that asks whether a request may pass.
    #[must_use]
    pub fn respond_in_protocol(
        &self,
        head: RequestHead<'_>,
        decided_at: Timestamp,
        unix_zero: &UnixZero,
    ) -> Response<String> {
        if !is_grpc(head) {
            return self.respond(head, decided_at, unix_zero);
        }
        self.respond_with(head, decided_at, unix_zero, |refusal| GrpcResponder.respond(refusal))
    }

    /// Writes the headers of [`respond`](Self::respond), but for the type of its body.
    pub fn write_headers(&self, decided_at: Timestamp, unix_zero: &UnixZero, headers: &mut impl HeaderSink) {
        self.write_headers_with(self.retry_after(), decided_at, unix_zero, headers);
    }

    /// As [`respond`](Self::respond), by a response that `answer` makes: the headers that it lacks
    /// are added.
    pub fn respond_with<B>(
        &self,
        head: RequestHead<'_>,
        decided_at: Timestamp,
        unix_zero: &UnixZero,
        answer: impl FnOnce(&Refusal<'_>) -> Response<B>,
    ) -> Response<B> {
        let retry_after = self.retry_after();
        let record = RefusalRecord { retry_after, ..self.record };
        let refusal = Refusal::new(head, &self.rule.name, self.names, &record);
        let mut response = answer(&refusal);
        self.write_headers_with(retry_after, decided_at, unix_zero, response.headers_mut());
        self.http.cors.permit(head, response.headers_mut());
        response
    }

    fn write_headers_with(
        &self,
        retry_after: Option<Duration>,
        decided_at: Timestamp,
        unix_zero: &UnixZero,
        headers: &mut impl HeaderSink,
    ) {
        let (rule, file) = (&self.rule.refuse, &self.http.set().rules().answer);
        for (name, value) in file.headers.iter().chain(&rule.headers) {
            set(headers, name, value);
        }
        let times = (decided_at, retry_after);
        let styles = self.http.styles_of(self.rule);
        self.http.write_refusal(styles, (self.lines, self.chance), times, unix_zero, headers);
    }
}

impl<C> fmt::Debug for RuleRefusal<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleRefusal")
            .field("rule", &self.rule.name)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

/// Why a line with this ruling refuses.
fn reason(ruling: Ruling) -> RefusalReason {
    match ruling {
        Ruling::Admitted | Ruling::Refused => RefusalReason::Limited,
        Ruling::Unavailable => RefusalReason::BackendFailed,
        Ruling::Never => RefusalReason::CostAboveLimit,
        Ruling::NoKey => RefusalReason::NoKey,
        Ruling::Blocked => RefusalReason::Blocked,
    }
}

/// Returns whether the client of a request speaks gRPC or grpc-web: by the content type, in any
/// case, with or without a message format (`application/grpc-web+proto`).
fn is_grpc(head: RequestHead<'_>) -> bool {
    let kind = head.header("content-type").unwrap_or_default();
    let Some((start, rest)) = kind.split_at_checked(b"application/grpc".len()) else { return false };
    start.eq_ignore_ascii_case(b"application/grpc")
        && rest.first().is_none_or(|next| matches!(next, b'+' | b'-' | b';' | b' '))
}

/// Adds a header in place of one of the same name. The reader of the file has checked both.
fn set(headers: &mut impl HeaderSink, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
        headers.set_value(name, value);
    }
}
