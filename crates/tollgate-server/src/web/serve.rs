//! A connection's requests.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::time::MissedTickBehavior;

use super::idle::Activity;
use super::streams::StreamExecutor;
use super::untaken::Untaken;
use crate::listen::{Drain, Observed, Stream};
use crate::settings::Limits;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The most headers of a request.
const HEADERS: usize = 100;

/// The most streams of a connection of HTTP/2 at a time. The server holds at most two parts of the
/// answer of each that its client does not take.
pub(super) const STREAMS: u32 = 200;

/// hyper takes no smaller buffer.
const LEAST_HEAD: usize = 8192;

/// Into how many parts the time of a head is divided: so often a connection is looked at.
pub(crate) const LOOKS: u32 = 4;

/// Serves the requests of a connection, HTTP/1 or HTTP/2, until the client or the server ends it.
/// A head that is too long, too slow or broken is answered by hyper, and closes the connection. A
/// connection that an answer of status 101 hands over has ended here.
pub(crate) async fn serve<F, B>(
    stream: Stream,
    limits: &Limits,
    drain: &Drain,
    handler: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static,
{
    let mut builder = Builder::new(StreamExecutor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(LEAST_HEAD))
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
    let activity = Activity::new();
    let arriving = Arc::clone(&activity);
    let (noticed, untaken) = (Arc::clone(&activity), Untaken::default());
    let (answers, mut opening) = (untaken.clone(), untaken.opening());
    let observed = Observed::new(stream, move |bytes: &[u8]| {
        opening.arrived(bytes);
        arriving.arrived(bytes);
    });
    let service = service_fn(move |request| {
        let (busy, unread) = (noticed.begin(), answers.clone());
        let answer = handler(request);
        async move {
            let answer = answer.await;
            Ok::<_, Infallible>(answer.map(|body| unread.body(body, busy)))
        }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(observed), service);
    let mut looks = tokio::time::interval((limits.read_timeout / LOOKS).max(MILLISECOND));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
            _ = looks.tick() => {
                if activity.is_overdue(limits) {
                    tracing::debug!("a connection was closed: no request came in time");
                    return;
                }
                if untaken.is_overdue(limits.idle_timeout) {
                    tracing::debug!("a connection was closed: its client does not take an answer");
                    return;
                }
            }
            () = drain.ends.cancelled(), if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
