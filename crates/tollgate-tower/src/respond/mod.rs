//! Responses to refused requests.

mod grpc_responder;
mod http_responder;
mod refusal;

use http::Response;

pub use grpc_responder::GrpcResponder;
pub use http_responder::HttpResponder;
pub use refusal::{Refusal, RefusalReason};

/// Makes the response to a refused request. `B` is the body type of the inner service.
///
/// [`HttpResponder`] serves bodies that are `From<String>` (axum's `Body`, `Full<Bytes>`,
/// `String`), [`GrpcResponder`] serves bodies that are `Default` (tonic's), and a closure serves
/// any body.
///
/// The layer adds the headers that the response lacks: `Retry-After`, `Cache-Control: no-store`,
/// and those of the chosen [`HeaderStyle`](crate::HeaderStyle)s.
///
/// # Examples
///
/// ```
/// use http::{Response, StatusCode};
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{RateLimitLayer, Refusal, Rule};
///
/// fn respond(refusal: &Refusal<'_>) -> Response<String> {
///     let mut response = Response::new(format!("slow down on {}", refusal.head().path()));
///     *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
///     response
/// }
///
/// let layer = RateLimitLayer::builder()
///     .rule(Rule::new("all", [TokenBucket::new(Rate::per_second(10))]))
///     // The cast gives the layer a type with a name.
///     .responder(respond as fn(&Refusal<'_>) -> Response<String>)
///     .build()?;
/// # Ok::<(), tollgate_tower::BuildError>(())
/// ```
pub trait Respond<B> {
    /// Returns the response to a refused request.
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B>;
}

impl<B, F: Fn(&Refusal<'_>) -> Response<B>> Respond<B> for F {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B> {
        self(refusal)
    }
}
