//! Refusals as JSON, problem details, or text.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use super::{Reason, Refusal, Respond};

/// Answers in HTTP's own terms; for bodies that are `From<String>`. JSON unless told otherwise.
///
/// Names of rules need no escaping, and nothing of the request is repeated.
///
/// | | status | body |
/// |---|---|---|
/// | spent for now | 429 and `Retry-After` | `{"error":"Too Many Requests","rule":"api","limit":10,"remaining":0,"retry_after":3}` |
/// | cost above the limit | 400 | `{"error":"Cost Above Limit","rule":"api","limit":10,"cost":11}` |
/// | no key, and refused for that | 400 | `{"error":"No Key To Limit By","rule":"api"}` |
/// | backend failed, and refused for that | 503 | `{"error":"Rate Limiter Unavailable","rule":"api"}` |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http(Form);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Json,
    Problem,
    Text,
}

impl Http {
    /// `application/json`.
    #[must_use]
    pub const fn json() -> Self {
        Self(Form::Json)
    }

    /// `application/problem+json` (RFC 9457). A spent limit has the type `quota-exceeded` of the IETF's rate limit draft
    /// and its `violated-policies`.
    #[must_use]
    pub const fn problem() -> Self {
        Self(Form::Problem)
    }

    /// `text/plain`, one line.
    #[must_use]
    pub const fn text() -> Self {
        Self(Form::Text)
    }
}

impl<B: From<String>> Respond<B> for Http {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B> {
        let (kind, body) = match self.0 {
            Form::Json => ("application/json", json(refusal)),
            Form::Problem => ("application/problem+json", problem(refusal)),
            Form::Text => ("text/plain; charset=utf-8", text(refusal)),
        };
        let mut response = Response::new(B::from(body));
        *response.status_mut() = refusal.reason().status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

fn json(refusal: &Refusal<'_>) -> String {
    let mut body =
        format!("{{\"error\":\"{}\",\"rule\":\"{}\"", refusal.reason().title(), refusal.limit_name());
    match refusal.reason() {
        Reason::Limited => {
            body += &format!(",\"limit\":{},\"remaining\":{}", refusal.limit(), refusal.remaining());
            if let Some(seconds) = refusal.retry_after_seconds() {
                body += &format!(",\"retry_after\":{seconds}");
            }
        }
        Reason::Never => body += &format!(",\"limit\":{},\"cost\":{}", refusal.limit(), refusal.cost()),
        Reason::NoKey | Reason::Unavailable => {}
    }
    body + "}"
}

fn problem(refusal: &Refusal<'_>) -> String {
    let kind = match refusal.reason() {
        Reason::Limited => "https://iana.org/assignments/http-problem-types#quota-exceeded",
        _ => "about:blank",
    };
    let status = refusal.reason().status();
    let title = match refusal.reason() {
        Reason::Limited => refusal.reason().title(),
        // The title of `about:blank` is that of the status (RFC 9457, section 4.2.1).
        _ => status.canonical_reason().unwrap_or_default(),
    };
    let mut body = format!(
        "{{\"type\":\"{kind}\",\"title\":\"{title}\",\"status\":{},\"detail\":\"{}\"",
        status.as_u16(),
        sentence(refusal)
    );
    if refusal.reason() == Reason::Limited {
        let names: Vec<_> = refusal.limit_names().collect();
        body += &format!(",\"violated-policies\":[\"{}\"]", names.join("\",\""));
    }
    body + "}"
}

fn text(refusal: &Refusal<'_>) -> String {
    format!("{}: {}\n", refusal.reason().title(), sentence(refusal))
}

/// What happened and what helps, in one line without quotes, backslashes or percent signs.
pub(super) fn sentence(refusal: &Refusal<'_>) -> String {
    let (name, cost, limit) = (refusal.limit_name(), refusal.cost(), refusal.limit());
    match (refusal.reason(), refusal.retry_after_seconds()) {
        (Reason::Limited, Some(seconds)) => format!("the limit {name} is spent, retry after {seconds} s"),
        (Reason::Limited, None) => format!("the limit {name} is spent"),
        (Reason::Never, _) => format!("the cost is {cost}, but {name} admits at most {limit}"),
        (Reason::NoKey, _) => format!("the request lacks what {name} is counted by"),
        (Reason::Unavailable, _) => format!("{name} cannot be decided at the moment"),
    }
}
