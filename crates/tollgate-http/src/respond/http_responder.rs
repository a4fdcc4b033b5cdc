//! Refusals as JSON, problem details, or text.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::{Refusal, Respond};
use crate::RefusalReason;

/// Responds with an HTTP error; by default, as JSON. The body type must be `From<String>`.
///
/// The body repeats nothing of the request, and the names of rules need no escaping.
///
/// | reason | status | `error` | further fields of the JSON |
/// |---|---|---|---|
/// | the limit is spent for now | 429 | `Too Many Requests` | `limit`, `remaining`, `retry_after` |
/// | the cost is above the limit | 400 | `Cost Above Limit` | `limit`, `cost` |
/// | the request has no key | 400 | `No Key To Limit By` | |
/// | the backend failed | 503 | `Rate Limiter Unavailable` | |
/// | a block | 403 | `Blocked` | |
///
/// For example:
///
/// ```json
/// {"error":"Too Many Requests","rule":"api","limit":10,"remaining":0,"retry_after":3}
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpResponder {
    format: BodyFormat,
    /// In place of the status of the reason.
    status: Option<StatusCode>,
}

/// As long as most problems, in bytes.
const PROBLEM: usize = 320;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BodyFormat {
    #[default]
    Json,
    Problem,
    Text,
}

impl HttpResponder {
    /// Responds with `application/json`.
    #[must_use]
    pub const fn json() -> Self {
        Self::of(BodyFormat::Json)
    }

    /// Responds with `application/problem+json` (RFC 9457). If a limit is spent, the problem has
    /// the type `quota-exceeded` and the `violated-policies` of the IETF's rate limit draft.
    #[must_use]
    pub const fn problem() -> Self {
        Self::of(BodyFormat::Problem)
    }

    /// Responds with one line of `text/plain`.
    #[must_use]
    pub const fn text() -> Self {
        Self::of(BodyFormat::Text)
    }

    /// Responds with this status, for every reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response, StatusCode};
    /// use tollgate_http::{HttpResponder, Refusal, RefusalReason, RefusalRecord};
    /// use tollgate_http::{RequestHead, Respond};
    ///
    /// let record = RefusalRecord::without_limit(RefusalReason::Blocked, 1);
    /// let request = Request::new(());
    /// let refusal = Refusal::new(RequestHead::of(&request), "banned", &[], &record);
    /// let hidden = HttpResponder::json().status(StatusCode::NOT_FOUND);
    /// let response: Response<String> = hidden.respond(&refusal);
    /// assert_eq!(response.status(), 404);
    /// ```
    #[must_use]
    pub const fn status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    const fn of(format: BodyFormat) -> Self {
        Self { format, status: None }
    }
}

impl<B: From<String>> Respond<B> for HttpResponder {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B> {
        let status = self.status.unwrap_or_else(|| refusal.reason().status());
        let (kind, body) = match self.format {
            BodyFormat::Json => ("application/json", json(refusal)),
            BodyFormat::Problem => ("application/problem+json", problem(refusal, status)),
            BodyFormat::Text => ("text/plain; charset=utf-8", text(refusal)),
        };
        let mut response = Response::new(B::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

fn json(refusal: &Refusal<'_>) -> String {
    let mut body =
        format!("{{\"error\":\"{}\",\"rule\":\"{}\"", refusal.reason().title(), refusal.limit_name());
    match refusal.reason() {
        RefusalReason::Limited => {
            body += &format!(",\"limit\":{},\"remaining\":{}", refusal.limit(), refusal.remaining());
            if let Some(seconds) = refusal.retry_after_seconds() {
                body += &format!(",\"retry_after\":{seconds}");
            }
        }
        RefusalReason::CostAboveLimit => {
            body += &format!(",\"limit\":{},\"cost\":{}", refusal.limit(), refusal.cost())
        }
        RefusalReason::NoKey | RefusalReason::BackendFailed | RefusalReason::Blocked => {}
    }
    body + "}"
}

fn problem(refusal: &Refusal<'_>, status: StatusCode) -> String {
    let kind = match refusal.reason() {
        RefusalReason::Limited => "https://iana.org/assignments/http-problem-types#quota-exceeded",
        _ => "about:blank",
    };
    let title = match refusal.reason() {
        RefusalReason::Limited => refusal.reason().title(),
        // `about:blank` requires the title of the status (RFC 9457, section 4.2.1).
        _ => status.canonical_reason().unwrap_or_default(),
    };
    let (status, detail) = (status.as_str(), sentence(refusal));
    // In a flood of refusals, to format and to grow it would cost more than the decisions.
    let mut body = String::with_capacity(PROBLEM);
    body.extend(["{\"type\":\"", kind, "\",\"title\":\"", title, "\",\"status\":", status]);
    body.extend([",\"detail\":\"", &detail, "\""]);
    if refusal.reason() == RefusalReason::Limited {
        body.push_str(",\"violated-policies\":[");
        for (index, name) in refusal.limit_names().enumerate() {
            body.extend([if index == 0 { "\"" } else { ",\"" }, name, "\""]);
        }
        body.push(']');
    }
    body.push('}');
    body
}

fn text(refusal: &Refusal<'_>) -> String {
    format!("{}: {}\n", refusal.reason().title(), sentence(refusal))
}

/// Explains the refusal in one line without quotes, backslashes or percent signs.
pub(super) fn sentence(refusal: &Refusal<'_>) -> String {
    let (name, cost, limit) = (refusal.limit_name(), refusal.cost(), refusal.limit());
    match (refusal.reason(), refusal.retry_after_seconds()) {
        // Not formatted, as above.
        (RefusalReason::Limited, Some(seconds)) => {
            let mut digits = itoa::Buffer::new();
            ["the limit ", name, " is spent, retry after ", digits.format(seconds), " s"].concat()
        }
        (RefusalReason::Limited, None) => format!("the limit {name} is spent"),
        (RefusalReason::CostAboveLimit, _) => {
            format!("the cost is {cost}, but {name} admits at most {limit}")
        }
        (RefusalReason::NoKey, _) => format!("the request lacks what {name} is counted by"),
        (RefusalReason::BackendFailed, _) => format!("{name} cannot be decided at the moment"),
        (RefusalReason::Blocked, _) => format!("{name} refuses the request"),
    }
}
