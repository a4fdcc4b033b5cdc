//! The HTTP/2 connections, health and reflection.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::MissedTickBehavior;
use tollgate_net::Limits;
use tollgate_net::listen::{Connection, Drain, Held, Observed, Observer, Peer, Presence};
use tollgate_net::web::{EarlyResets, LOOKS, Opening, StreamExecutor, Untaken, WINDOW, wrong};
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::service::Routes;
use tonic_health::ServingStatus;

use super::frame::{self, MESSAGE};
use super::proto::DESCRIPTOR;
use super::proto::rate_limit_service_server::{RateLimitServiceServer, SERVICE_NAME};
use super::service::Service;
use crate::core::Core;
use crate::metrics::Listener;

/// The most streams of a connection at a time.
const STREAMS: u32 = 1000;

/// The bytes with which a client begins.
const PREFACE: usize = 24;

/// Calls whose client may send several messages, and waits for an answer to each.
const STREAMING: &str = "/grpc.reflection.";

/// The most bytes of a message of such a call: it names a file or a symbol.
const NAME: usize = 16 << 10;

/// What such a call may hold as long as it lasts: an unread window, a message, and its buffer.
const STREAMED: usize = WINDOW as usize + 2 * NAME;

/// The services of a listener for Envoy.
pub(crate) struct Grpc {
    routes: Routes,
    core: Arc<Core>,
    limits: Limits,
}

impl Grpc {
    /// The services. They are healthy until the server is told to end.
    pub(crate) async fn new(core: &Arc<Core>, limits: Limits, drain: &Drain) -> Self {
        let (mut health, healthy) = tonic_health::server::health_reporter();
        health.set_service_status(SERVICE_NAME, ServingStatus::Serving).await;
        let (draining, ends) = (core.draining.clone(), drain.ends.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = draining.cancelled() => {}
                () = ends.cancelled() => return,
            }
            for service in ["", SERVICE_NAME] {
                health.set_service_status(service, ServingStatus::NotServing).await;
            }
            // Then no call for it waits any longer.
            ends.cancelled().await;
            for service in ["", SERVICE_NAME] {
                health.clear_service_status(service).await;
            }
        });
        let limited = RateLimitServiceServer::new(Service { core: Arc::clone(core) });
        let mut routes = Routes::new(limited.max_decoding_message_size(MESSAGE))
            .add_service(healthy.max_decoding_message_size(MESSAGE));
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTOR)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // The descriptors are our own: a test holds that they are read.
        if let Ok(reflection) = reflection().build_v1() {
            routes = routes.add_service(reflection.max_decoding_message_size(NAME));
        }
        if let Ok(reflection) = reflection().build_v1alpha() {
            routes = routes.add_service(reflection.max_decoding_message_size(NAME));
        }
        Self { routes: routes.prepare(), core: Arc::clone(core), limits }
    }

    /// Serves the calls of a connection until the client or the server ends it.
    pub(crate) async fn serve(&self, connection: Connection) {
        let Connection { stream, peer, presence } = connection;
        let timeout = self.limits.read_timeout;
        let (routes, core) = (self.routes.clone(), Arc::clone(&self.core));
        let untaken = Untaken::default();
        let (answers, calls) = (untaken.clone(), Arc::clone(&presence));
        let service = service_fn(move |request| {
            let (routes, core, untaken) = (routes.clone(), Arc::clone(&core), answers.clone());
            let engaged = calls.engage();
            async move {
                let since = Instant::now();
                let answer = answer(request, (peer, engaged.presence()), routes, &core, timeout).await;
                core.metrics.counts(Listener::Grpc).took(since.elapsed());
                Ok::<_, Infallible>(untaken.answer(answer, engaged))
            }
        });
        let (read, early) = (Arc::new(AtomicUsize::new(0)), EarlyResets::new(STREAMS));
        let opening = untaken.opening();
        let arriving = Arriving { read: Arc::clone(&read), opening, early: Arc::clone(&early) };
        let stream = Observed::new(stream, arriving);
        let mut builder = http2::Builder::new(StreamExecutor::new(&early));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW * STREAMS)
            .max_header_list_size(u32::try_from(self.limits.head_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(self.limits.ping_interval)
            .keep_alive_timeout(timeout);
        let served = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(served);
        let begins = tokio::time::sleep(timeout);
        tokio::pin!(begins);
        let mut looks = tokio::time::interval((timeout / LOOKS).max(Duration::from_millis(1)));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let went_wrong = |kind| self.core.metrics.counts(Listener::Grpc).protocol_error(kind, peer.address());
        let (mut has_begun, mut is_ending) = (false, false);
        loop {
            tokio::select! {
                done = &mut served => {
                    if early.farewell().is_some() {
                        went_wrong("resets");
                        tracing::debug!("a connection was closed: its client resets what it asks");
                    }
                    if let Err(error) = done {
                        if let Some(kind) = wrong(&error) {
                            went_wrong(kind);
                        }
                        tracing::debug!(%error, "a connection ended");
                    }
                    return;
                }
                () = &mut begins, if !has_begun => {
                    has_begun = true;
                    if read.load(Relaxed) < PREFACE {
                        went_wrong("slow");
                        return;
                    }
                }
                _ = looks.tick() => {
                    if untaken.is_overdue(self.limits.idle_timeout) {
                        went_wrong("unread");
                        return;
                    }
                }
                () = presence.ends().cancelled(), if !is_ending => {
                    is_ending = true;
                    served.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// What looks at the bytes that arrive.
struct Arriving {
    /// How many there were.
    read: Arc<AtomicUsize>,
    opening: Opening,
    early: Arc<EarlyResets>,
}

impl Observer for Arriving {
    fn arrived(&mut self, bytes: &[u8]) {
        self.read.fetch_add(bytes.len(), Relaxed);
        self.opening.arrived(bytes);
    }

    fn farewell(&self) -> Option<&'static [u8]> {
        self.early.farewell()
    }
}

/// Answers a call.
async fn answer(
    request: Request<Incoming>,
    (peer, presence): (Peer, &Arc<Presence>),
    mut routes: Routes,
    core: &Core,
    timeout: Duration,
) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    head.extensions.insert(peer);
    let read = if head.uri.path().starts_with(STREAMING) {
        let mut held = Held::new(presence, STREAMED);
        held.hold(0).map_err(|_| frame::no_room()).map(|()| {
            Body::new(body.map_frame(move |frame| {
                let _until_the_call_ends = &held;
                frame
            }))
        })
    } else {
        let holds = || Held::new(presence, bytes_of(&head));
        frame::read(body, holds, timeout).await.map(|body| Body::new(Full::new(body)))
    };
    let body = match read {
        Ok(body) => body,
        Err((kind, status)) => {
            core.metrics.counts(Listener::Grpc).protocol_error(kind, peer.address());
            return status.into_http();
        }
    };
    match routes.call(Request::from_parts(head, body)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The bytes of a head that is kept while its message arrives.
fn bytes_of(head: &Parts) -> usize {
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    head.uri.path_and_query().map_or(0, |target| target.as_str().len()) + fields.sum::<usize>()
}
