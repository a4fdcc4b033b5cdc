//! Responses to refused requests.

mod grpc_responder;
mod http_responder;
mod record;
mod refusal;

use http::Response;

pub use grpc_responder::GrpcResponder;
pub use http_responder::HttpResponder;
pub use record::RefusalRecord;
pub use refusal::Refusal;

/// Makes the response to a refused request. `B` is the type of the response's body.
///
/// [`HttpResponder`] serves bodies that are `From<String>` (axum's `Body`, `Full<Bytes>`,
/// `String`), [`GrpcResponder`] serves bodies that are `Default` (tonic's), and a closure serves
/// any body.
///
/// The caller adds the headers that the response lacks, by
/// [`LimitHeaders::write_refusal`](crate::LimitHeaders::write_refusal): `Retry-After`,
/// `Cache-Control: no-store`, and those of the chosen [`HeaderStyle`](crate::HeaderStyle)s.
///
/// # Examples
///
/// ```
/// use http::{Request, Response, StatusCode};
/// use tollgate_http::{Refusal, RefusalReason, RefusalRecord, RequestHead, Respond};
///
/// fn respond(refusal: &Refusal<'_>) -> Response<String> {
///     let mut response = Response::new(format!("slow down on {}", refusal.head().path()));
///     *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
///     response
/// }
///
/// let request = Request::builder().uri("/search").body(()).unwrap();
/// let record = RefusalRecord::without_limit(RefusalReason::NoKey, 0);
/// let refusal = Refusal::new(RequestHead::of(&request), "api", &[], &record);
/// assert_eq!(respond.respond(&refusal).body(), "slow down on /search");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot make a response with the body `{B}`",
    label = "no responses with the body `{B}`",
    note = "`HttpResponder` needs a body that is `From<String>`, and `GrpcResponder` one that is `Default`",
    note = "a layer behind the rate limit that changes the body, such as compression, belongs in front \
            of it; or else answer with a closure that makes such a body"
)]
pub trait Respond<B> {
    /// Returns the response to a refused request.
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B>;
}

impl<B, F: Fn(&Refusal<'_>) -> Response<B>> Respond<B> for F {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B> {
        self(refusal)
    }
}
