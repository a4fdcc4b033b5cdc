//! A connection's requests, from the head to the answer.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Body;
use tollgate_http::RequestHead;
use tollgate_net::listen::{Connection, Drain, Presence, Stream};
use tollgate_net::web::{self, RequestBody, client_left, problem};
use tollgate_rules::Verdict;
use tollgate_tower::{RulesLayer, RulesService};
use tower_layer::Layer;
use tower_service::Service;

use super::dial::UpstreamError;
use super::download::Answered;
use super::forward::{Forward, Passing, Switched};
use super::forwarded::{Origin, distrust, loops};
use super::head::{Judged, goes_further, judge};
use super::marks::Marks;
use super::parked_states::{STATES, States};
use super::parking::{self, MayPark};
use super::shared::Shared;
use super::tunnel::Tunnel;
use super::upload::{BadBody, Upload};
use super::upstreams::Upstreams;
use crate::{ProxySettings, ServerClock, UpstreamCounts};

/// How often idle connections to upstreams are looked at.
const SWEEPS: Duration = Duration::from_secs(1);

/// What all connections of the proxy share.
pub struct Proxy {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: ProxySettings,
    /// The host of a request that names none.
    own_host: HeaderValue,
    upstreams: Arc<Upstreams>,
    pub(super) service: RulesService<Forward>,
    states: States,
}

/// One connection of a client.
struct Client {
    proxy: Arc<Proxy>,
    origin: Arc<Origin>,
    presence: Arc<Presence>,
    /// What becomes of the connection after its last request.
    tunnel: Mutex<Option<Tunnel>>,
}

impl Proxy {
    /// The proxy of these settings, whose upstreams so many threads ask. `on_verdict` hears what
    /// the rules say of each request.
    ///
    /// # Errors
    ///
    /// An upstream cannot be reached at all, or there is none.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(
        shared: Shared,
        forward: &ProxySettings,
        threads: usize,
        states: States,
        drain: &Drain,
        on_verdict: impl Fn(&Verdict<'_, ServerClock>) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, UpstreamError> {
        let upstreams = Arc::new(Upstreams::new(forward, threads)?);
        for server in upstreams.all() {
            let (server, ends) = (Arc::clone(server), drain.ends.clone());
            tokio::spawn(ends.run_until_cancelled_owned(async move {
                loop {
                    tokio::time::sleep(SWEEPS).await;
                    server.sweep();
                }
            }));
        }
        if let Some(path) = &forward.health_path {
            for server in upstreams.all() {
                let (server, path, ends) = (Arc::clone(server), path.clone(), drain.ends.clone());
                let (interval, timeout) = (forward.health_interval, forward.connect_timeout);
                tokio::spawn(async move {
                    while !ends.is_cancelled() {
                        server.ask_health(&path, timeout).await;
                        tokio::select! {
                            () = ends.cancelled() => {}
                            () = tokio::time::sleep(interval) => {}
                        }
                    }
                });
            }
        }
        // Of no file: it is built over rules that are in force.
        let mut layer = RulesLayer::builder("", |origin: &Passing| Some(origin.origin.peer))
            .on_verdict(on_verdict)
            // A part of the body is held meanwhile, so that the client is seen to leave.
            .max_wait_with_body(Duration::MAX)
            .stores(shared.generations.stores.clone())
            .timer(tokio::time::sleep);
        // In HTTP/1 only a connection that is not made leaves a request unsent. What remembers the
        // charges of each request is not worth that.
        if forward.upstreams.iter().any(|upstream| upstream.is_http2) {
            layer = layer.gives_back_unserved();
        }
        if let Some(name) = forward.cost_header.clone() {
            layer = layer.cost_from(move |_, headers| headers.get(&name)?.to_str().ok()?.trim().parse().ok());
        }
        let shared = Arc::new(shared);
        let (parks, asks) = (Arc::clone(&shared), Arc::clone(&shared));
        let layer = layer
            .set_aside(move |head, verdict| parking::set_aside(&parks, head, verdict))
            .beside_stores(move |head, rules, asked| parking::ask_servers(&asks, head, rules, asked))
            .build_over(shared.generations.live.clone());
        let service = layer.layer(Forward::new(&shared.counts, forward, &upstreams));
        let first = upstreams.all().first();
        let own_host =
            first.and_then(|server| HeaderValue::from_str(server.upstream.authority.as_str()).ok());
        let own_host = own_host.ok_or(UpstreamError::None)?;
        let settings = forward.clone();
        let proxy = Arc::new(Self { shared, settings, own_host, upstreams, service, states });
        parking::drain(&proxy, drain);
        Ok(proxy)
    }

    /// The counters of the upstreams.
    pub fn upstream_counts(&self) -> impl Iterator<Item = &Arc<UpstreamCounts>> {
        self.upstreams.all().iter().map(|server| &server.counts)
    }

    /// Serves one connection until the client or the server ends it.
    pub async fn serve(self: Arc<Self>, connection: Connection) {
        let is_tls = matches!(connection.stream, Stream::Tls(_));
        let origin = Arc::new(Origin::new(connection.peer.address(), is_tls));
        let presence = Arc::clone(&connection.presence);
        // A client that does not read its answer, or sends nothing, is as idle as a body.
        let tunnel_timeout = self.settings.tunnel_timeout;
        let mut limits = self.shared.limits;
        limits.idle_timeout = self.settings.idle_timeout;
        let client = Arc::new(Client {
            proxy: self,
            origin,
            presence: Arc::clone(&presence),
            tunnel: Mutex::default(),
        });
        let counts = Arc::clone(&client.proxy.shared.counts);
        let answering = Arc::clone(&client);
        let handler = move |request| Arc::clone(&answering).answer(request);
        web::serve(connection, &limits, counts, handler).await;
        let tunnel = client.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tunnel) = tunnel {
            let _engaged = presence.engage();
            tunnel.carry(tunnel_timeout).await;
        }
    }
}

impl Client {
    async fn answer(self: Arc<Self>, mut request: Request<RequestBody>) -> Response<Answered> {
        let Proxy { shared, settings, own_host, service, states, .. } = &*self.proxy;
        let switching = hyper::upgrade::on(&mut request);
        let (mut head, body) = request.into_parts();
        let generation = shared.generations.newest();
        let (set, clients) = (generation.http.set(), &generation.http.set().rules().clients);
        let length = body.size_hint().exact();
        let judged = judge(&mut head, length, own_host, &clients.header, settings.keeps_underscores);
        let Judged { upgrade, had } = match judged {
            Ok(judged) => judged,
            Err(detail) => {
                shared.counts.protocol_error("head", self.origin.peer);
                return refused(head.version, StatusCode::BAD_REQUEST, detail);
            }
        };
        if had.has(Marks::LOOP) && loops(&head.headers) {
            shared.counts.protocol_error("loop", self.origin.peer);
            let detail = "the request goes round in a loop: an upstream leads back to this proxy";
            return refused(head.version, StatusCode::LOOP_DETECTED, detail);
        }
        if !goes_further(&mut head) {
            return last_answer(&head.method);
        }
        if let Some(id) = head.uri.path().strip_prefix(STATES)
            && !shared.parks.is_empty()
        {
            let client = generation.http.client().of_peer(self.origin.peer, RequestHead::of_parts(&head));
            // Boxed, as it is rare, and all other requests would have room for it.
            return Box::pin(states.answer(shared, client, &head.method, id)).await.map(Answered::Unasked);
        }
        if !clients.trusted_proxies.iter().any(|network| network.contains(&self.origin.peer)) {
            distrust(&mut head.headers, &clients.header);
        }
        // The body is read when an upstream wants it: hyper tells the client to continue then.
        let is_expecting = had.has(Marks::EXPECT) && head.headers.remove(EXPECT).is_some();
        let ends = settings.total_timeout.map(|total| tokio::time::Instant::now() + total);
        head.extensions.insert(Passing { origin: Arc::clone(&self.origin), ends, upgrade });
        let read = (&*clients.header, set.matcher().headers());
        let upload = Upload::new(body, &head, is_expecting, settings, ends, read, &self.presence);
        if upload.is_too_long() {
            return self.refuse_body(upload, BadBody::TooLong);
        }
        drop(generation);
        let mut service = service.clone();
        // The service is always ready, and learns here that the one inside it is.
        let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
        let mut answered = pin!(service.call(Request::from_parts(head, upload.clone())));
        let answer = poll_fn(|context| match answered.as_mut().poll(context) {
            Poll::Ready(Ok(answer)) => Poll::Ready(Some(answer)),
            Poll::Pending => upload.poll_held(context).map(|()| None),
        });
        let Some(mut answer) = answer.await else {
            // The client has left its queue: what it was charged comes back with the future.
            let bad = upload.failure().unwrap_or(BadBody::Broken);
            return self.refuse_body(upload, bad);
        };
        if let Some(may_park) = answer.extensions_mut().remove::<MayPark>()
            && let Some(answer) = Box::pin(parking::keep(shared, may_park, upload.clone())).await
        {
            return answer.map(Answered::Unasked);
        }
        upload.discard();
        let Some(Switched(upstream)) = answer.extensions_mut().remove() else {
            return answer.map(Answered::Asked);
        };
        let (head, held) = answer.into_parts();
        let tunnel = Tunnel { client: switching, upstream, held };
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        Response::from_parts(head, Answered::Unasked(Default::default()))
    }

    /// Answers a request whose body went to no upstream.
    fn refuse_body(&self, upload: Upload, bad: BadBody) -> Response<Answered> {
        if bad == BadBody::Broken {
            client_left();
        }
        upload.discard();
        self.proxy.shared.counts.protocol_error("body", self.origin.peer);
        let (status, detail) = bad.answer();
        problem(status, detail).map(Answered::Unasked)
    }
}

/// Answers a request that asks who would pass it on, instead of the upstream.
fn last_answer(method: &Method) -> Response<Answered> {
    if method == Method::TRACE {
        return problem(StatusCode::NOT_IMPLEMENTED, "this proxy shows no request").map(Answered::Unasked);
    }
    let mut answer = Response::new(Answered::Unasked(Full::default()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// Answers a request that is not passed on. Its body is not read.
fn refused(version: Version, status: StatusCode, detail: &str) -> Response<Answered> {
    let mut answer = problem(status, detail).map(Answered::Unasked);
    if version <= Version::HTTP_11 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}
