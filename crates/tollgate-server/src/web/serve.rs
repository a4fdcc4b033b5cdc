//! A connection's requests.

use std::convert::Infallible;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;

use super::Answer;
use crate::listen::{Drain, Stream};
use crate::settings::Limits;

/// The most headers of a request.
const HEADERS: usize = 100;

/// Serves the requests of a connection, HTTP/1 or HTTP/2, until the client or the server ends it.
/// A head that is too long, too slow or broken is answered by hyper, and closes the connection.
pub(crate) async fn serve<F>(
    stream: Stream,
    limits: &Limits,
    drain: &Drain,
    handler: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Answer> + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_timeout)
        .max_buf_size(limits.head_bytes)
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
    let service = service_fn(move |request| {
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut is_ending = false;
    loop {
        tokio::select! {
            done = &mut connection => {
                if let Err(error) = done {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
            () = drain.ends.cancelled(), if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
