//! Work that takes too long for a thread that serves clients.

use http::StatusCode;
use tollgate_net::web::Answer;
use tollgate_net::workers::beside;

use super::failure::Failure;

/// Runs what reads files and builds limiters where no connection waits for it.
pub(super) async fn blocking(work: impl FnOnce() -> Answer + Send + 'static) -> Result<Answer, Failure> {
    let done = beside(work).await;
    done.map_err(|error| Failure(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
