//! Inner services, layers, requests, tokio's clock, and servers on real sockets.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::ConnectInfo;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use sfv::{BareItem, Key, List, ListEntry, Parser};
use tokio::time::Instant;
use tollgate::{Clock, Rate, Timestamp, TokenBucket};
use tollgate_tower::{Builder, ClientAddress, KeyBy, Respond, Rule, TollgateLayer};
use tower::{Layer, Service, ServiceExt};

/// Responds at once with the status in `x-want`, without an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo;

impl Service<Request<String>> for Echo {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let mut response = Response::new(String::new());
        if let Some(want) = request.headers().get("x-want") {
            *response.status_mut() = StatusCode::from_bytes(want.as_bytes()).unwrap();
        }
        ready(Ok(response))
    }
}

/// Checks tower's contract: it panics if it is called before it was ready. A clone is not ready.
#[derive(Debug, Default)]
pub(crate) struct ReadinessChecked {
    is_ready: bool,
}

impl Clone for ReadinessChecked {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<String>> for ReadinessChecked {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without being ready");
        Echo.call(request)
    }
}

/// A token bucket of this burst that gets one token back in an hour.
pub(crate) fn hourly_bucket(burst: u64) -> [TokenBucket; 1] {
    [TokenBucket::new(Rate::per_hour(1)).burst(burst)]
}

/// Starts a layer with one rule.
pub(crate) fn layer_with(rule: Rule) -> Builder {
    TollgateLayer::builder().rule(rule)
}

/// The client address that [`request`] attaches.
pub(crate) fn peer_address() -> ClientAddress {
    ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()))
}

pub(crate) fn by_peer() -> KeyBy {
    KeyBy::client(peer_address())
}

pub(crate) fn by_header(name: &'static str) -> KeyBy {
    KeyBy::header(http::HeaderName::from_static(name))
}

/// A request with these headers. `peer` is the address of its connection, and `method` its method.
pub(crate) fn request(path: &str, headers: &[(&str, &str)]) -> Request<String> {
    let mut builder = Request::builder().uri(path);
    for (name, value) in headers {
        builder = match *name {
            "peer" => builder.extension(SocketAddr::new(value.parse::<IpAddr>().unwrap(), 4711)),
            "method" => builder.method(*value),
            _ => builder.header(*name, *value),
        };
    }
    builder.body(String::new()).unwrap()
}

/// Sends a request through the layer to [`Echo`].
pub(crate) async fn send<A>(layer: &TollgateLayer<A>, request: Request<String>) -> Response<String>
where
    A: Respond<String> + Clone,
{
    let response = layer.layer(Echo).oneshot(request).await.unwrap();
    assert_structured(response.headers());
    response
}

/// Reads the fields of the IETF's draft by an independent parser, as a client does.
pub(crate) fn assert_structured(headers: &HeaderMap) {
    for (field, params) in [("ratelimit", &["r", "t"]), ("ratelimit-policy", &["q", "w"])] {
        let Some(value) = headers.get(field) else { continue };
        let list = Parser::new(value.as_bytes()).parse::<List>().unwrap();
        assert!(!list.is_empty(), "{field}");
        for entry in list {
            let ListEntry::Item(item) = entry else { panic!("{field}: an inner list") };
            assert!(item.bare_item.as_string().is_some(), "{field}: no name");
            let keys: Vec<_> = item.params.keys().map(|key| key.as_str()).collect();
            // It is not known when a request in flight ends: no `t`.
            let least = if field == "ratelimit" { 1 } else { 2 };
            assert!(keys.len() >= least && params.starts_with(&keys), "{field}: {keys:?}");
            // A window has at least a second.
            let least = |key: &str| i64::from(key == "w");
            let number = |(key, value): (&Key, &BareItem)| {
                value.as_integer().is_some_and(|number| i64::from(number) >= least(key.as_str()))
            };
            assert!(item.params.iter().all(number), "{field}: {value:?}");
        }
    }
}

/// Sends a request and returns the status of the response.
pub(crate) async fn status<A>(layer: &TollgateLayer<A>, path: &str, headers: &[(&str, &str)]) -> u16
where
    A: Respond<String> + Clone,
{
    send(layer, request(path, headers)).await.status().as_u16()
}

/// Sends the same request `count` times and returns the statuses.
pub(crate) async fn statuses<A>(layer: &TollgateLayer<A>, count: usize, headers: &[(&str, &str)]) -> Vec<u16>
where
    A: Respond<String> + Clone,
{
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(status(layer, "/", headers).await);
    }
    statuses
}

/// Returns a header as text.
pub(crate) fn header<'r, B>(response: &'r Response<B>, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// Tokio's time. In a paused runtime it advances only when all tasks sleep.
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }
}

/// Serves an axum router on a real socket.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    address
}

pub(crate) fn by_axum_peer() -> KeyBy {
    KeyBy::client(ClientAddress::connection(|info: &ConnectInfo<SocketAddr>| Some(info.0.ip())))
}

/// A client with real connections.
#[derive(Clone)]
pub(crate) struct HttpClient(Client<HttpConnector, Empty<Bytes>>, SocketAddr);

impl HttpClient {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http(), address)
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(&self, path: &str, headers: &[(&str, &str)]) -> Response<String> {
        let mut request = Request::builder().uri(format!("http://{}{path}", self.1));
        for (name, value) in headers {
            request = if *name == "method" { request.method(*value) } else { request.header(*name, *value) };
        }
        let response = self.0.request(request.body(Empty::new()).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        assert_structured(&head.headers);
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(head, String::from_utf8(body.to_vec()).unwrap())
    }

    pub(crate) async fn status(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.send(path, headers).await.status().as_u16()
    }
}
