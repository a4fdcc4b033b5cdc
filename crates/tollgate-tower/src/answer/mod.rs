//! What a refused client is answered.

mod grpc;
mod plain;
mod refusal;

use http::Response;

pub use grpc::Grpc;
pub use plain::Http;
pub use refusal::{Reason, Refusal};

/// Makes the response to a refused request; `B` is the body type of the inner service, which is kept.
///
/// [`Http`] makes it for bodies that are `From<String>` (axum's `Body`, `Full<Bytes>`, `String`), [`Grpc`] for bodies
/// that are `Default` (tonic's), and a closure for any.
///
/// The layer adds what is not there: `Retry-After`, `Cache-Control: no-store`, and the headers of the chosen
/// [`Style`](crate::Style)s.
///
/// # Examples
///
/// ```
/// use http::{Response, StatusCode};
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{RateLimitLayer, Refusal, Rule};
///
/// fn answer(refusal: &Refusal<'_>) -> Response<String> {
///     let mut response = Response::new(format!("slow down on {}", refusal.head().path()));
///     *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
///     response
/// }
///
/// let layer = RateLimitLayer::builder()
///     .rule(Rule::new("all", [TokenBucket::new(Rate::per_second(10))]))
///     .answer(answer as fn(&Refusal<'_>) -> Response<String>) // a type that has a name
///     .build()?;
/// # Ok::<(), tollgate_tower::BuildError>(())
/// ```
pub trait Respond<B> {
    /// The response to a request that was refused.
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B>;
}

impl<B, F: Fn(&Refusal<'_>) -> Response<B>> Respond<B> for F {
    fn respond(&self, refusal: &Refusal<'_>) -> Response<B> {
        self(refusal)
    }
}
