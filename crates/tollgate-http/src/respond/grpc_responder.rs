//! Refusals for gRPC clients.

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response};

use super::http_responder::sentence;
use super::{Refusal, Respond};
use crate::RefusalReason;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Responds as a gRPC server: HTTP 200, no body, and the status in the headers ("trailers-only").
/// The body type must be `Default`, as tonic's is. A grpc-web client gets the content type that it
/// asked in: `application/grpc-web` or `application/grpc-web-text`. In a browser it needs a CORS
/// layer outside of the limits that exposes `grpc-status` and `grpc-message`.
///
/// | reason | status | metadata |
/// |---|---|---|
/// | the limit is spent | 8 `RESOURCE_EXHAUSTED` | `retry-after`, `grpc-retry-pushback-ms` |
/// | the cost is above the limit | 3 `INVALID_ARGUMENT` | `grpc-retry-pushback-ms: -1` |
/// | the request has no key | 3 `INVALID_ARGUMENT` | `grpc-retry-pushback-ms: -1` |
/// | the backend failed | 14 `UNAVAILABLE` | |
/// | a block | 7 `PERMISSION_DENIED` | `grpc-retry-pushback-ms: -1` |
///
/// A pushback of -1 forbids clients to retry. The statuses mean the same as the HTTP statuses of
/// [`HttpResponder`](crate::HttpResponder): 3 is 400, 7 is 403, 8 is 429, and 14 is 503.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrpcResponder;

impl<B: Default> Respond<B> for GrpcResponder {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(refusal)));
        let (status, pushback) = match refusal.reason() {
            RefusalReason::Limited => ("8", refusal.retry_after().map(|wait| milliseconds_up(wait).into())),
            RefusalReason::CostAboveLimit | RefusalReason::NoKey => {
                ("3", Some(HeaderValue::from_static("-1")))
            }
            RefusalReason::BackendFailed => ("14", None),
            RefusalReason::Blocked => ("7", Some(HeaderValue::from_static("-1"))),
        };
        headers.insert(GRPC_STATUS, HeaderValue::from_static(status));
        // ASCII without a percent sign needs no percent-encoding.
        if let Ok(message) = HeaderValue::try_from(sentence(refusal)) {
            headers.insert(GRPC_MESSAGE, message);
        }
        if let Some(pushback) = pushback {
            headers.insert(PUSHBACK, pushback);
        }
        response
    }
}

/// Returns the content type that the client understands. In both forms of grpc-web the status may
/// be in the headers of a response without a body.
fn content_type(refusal: &Refusal<'_>) -> &'static str {
    let known = ["application/grpc-web-text", "application/grpc-web"];
    let asked_in = refusal.head().header("content-type").unwrap_or_default().to_ascii_lowercase();
    known.into_iter().find(|known| asked_in.starts_with(known.as_bytes())).unwrap_or("application/grpc")
}

/// Rounds up, and stays within the 32-bit integers that clients read (gRFC A6).
fn milliseconds_up(wait: std::time::Duration) -> i32 {
    i32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}
