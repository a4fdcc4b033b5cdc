//! JSON and problem answers.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

/// An answer with a body that is complete.
pub type Answer = Response<Full<Bytes>>;

/// A body of JSON.
pub fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    // Our own types have no maps with keys that are no text, which alone could fail.
    let body = serde_json::to_vec(body).unwrap_or_default();
    with(status, "application/json", body)
}

/// An error in the body, at this JSON pointer.
pub fn problem_at(pointer: &str, detail: &str) -> Answer {
    let status = StatusCode::BAD_REQUEST;
    let body = serde_json::json!({
        "title": "Bad Request", "status": status.as_u16(), "detail": detail, "pointer": pointer,
    });
    with(status, "application/problem+json", body.to_string())
}

/// A problem (RFC 9457).
pub fn problem(status: StatusCode, detail: &str) -> Answer {
    let title = status.canonical_reason().unwrap_or("Error");
    let body = serde_json::json!({ "title": title, "status": status.as_u16(), "detail": detail });
    with(status, "application/problem+json", body.to_string())
}

/// A body of this type.
pub fn with(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    with_headers(status, HeaderMap::new(), kind, body)
}

/// A body of this type, with other headers beside it.
pub fn with_headers(
    status: StatusCode,
    mut headers: HeaderMap,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Answer {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}
