//! Refusals as gRPC clients expect them.

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response};

use super::plain::sentence;
use super::{Reason, Refusal, Respond};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Answers in gRPC's terms: HTTP 200, no body, and the status in the headers ("trailers-only"); for bodies that are
/// `Default`, as tonic's is.
///
/// | | status | metadata |
/// |---|---|---|
/// | spent for now | 8 `RESOURCE_EXHAUSTED` | `retry-after` in seconds, `grpc-retry-pushback-ms` |
/// | cost above the limit | 3 `INVALID_ARGUMENT` | `grpc-retry-pushback-ms: -1`, which forbids to retry |
/// | no key, and refused for that | 16 `UNAUTHENTICATED` | the same |
/// | backend failed, and refused for that | 14 `UNAVAILABLE` | |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grpc;

impl<B: Default> Respond<B> for Grpc {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let (status, pushback) = match refusal.reason() {
            Reason::Limited => ("8", refusal.retry_after().map(|wait| milliseconds_up(wait).into())),
            Reason::Never => ("3", Some(HeaderValue::from_static("-1"))),
            Reason::NoKey => ("16", Some(HeaderValue::from_static("-1"))),
            Reason::Unavailable => ("14", None),
        };
        headers.insert(GRPC_STATUS, HeaderValue::from_static(status));
        // Plain ASCII without a percent sign, so it is its own percent-encoding.
        if let Ok(message) = HeaderValue::try_from(sentence(refusal)) {
            headers.insert(GRPC_MESSAGE, message);
        }
        if let Some(pushback) = pushback {
            headers.insert(PUSHBACK, pushback);
        }
        response
    }
}

/// Rounded up, and at most what clients read: a 32-bit integer (gRFC A6).
fn milliseconds_up(wait: std::time::Duration) -> i32 {
    i32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}
