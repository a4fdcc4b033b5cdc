//! Requests that are sent once more.

use bytes::Bytes;
use http::Request;

use super::upload::Upload;

/// Whether a request may be sent once more that an upstream may have read: to do it twice is as
/// good as once (RFC 9110, section 9.2.2), and its whole body is at hand.
pub(super) fn may_repeat(request: &Request<Upload>) -> bool {
    request.method().is_idempotent() && request.body().at_hand().is_some()
}

/// A copy of a request, which is kept while the request is sent.
pub(super) struct Spare {
    request: Request<Upload>,
    /// The whole body. `None`: it was not at hand.
    body: Option<Bytes>,
}

impl Spare {
    /// A copy without the extensions, which no upstream gets.
    pub(super) fn of(request: &Request<Upload>) -> Self {
        let body = request.body().at_hand();
        let mut copy = Request::new(request.body().clone());
        copy.method_mut().clone_from(request.method());
        copy.uri_mut().clone_from(request.uri());
        copy.headers_mut().clone_from(request.headers());
        Self { request: copy, body }
    }

    /// The request, nothing of which was sent.
    pub(super) fn unsent(self) -> Request<Upload> {
        self.request
    }

    /// The request with its whole body, which may have been sent. `None`: the body was not at hand.
    pub(super) fn whole(self) -> Option<Request<Upload>> {
        self.request.body().restore(self.body?);
        Some(self.request)
    }

    /// The request, if it may be sent once more although an upstream may have read it.
    pub(super) fn repeated(self) -> Option<Request<Upload>> {
        if self.request.method().is_idempotent() { self.whole() } else { None }
    }
}
