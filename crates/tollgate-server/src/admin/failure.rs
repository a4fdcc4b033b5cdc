//! Why a request of an administrator is not served.

use http::StatusCode;

/// Why a request is not served.
pub(super) struct Failure(pub(super) StatusCode, pub(super) String);

pub(super) fn bad(detail: impl Into<String>) -> Failure {
    Failure(StatusCode::BAD_REQUEST, detail.into())
}
