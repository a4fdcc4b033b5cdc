//! The layer in axum, hyper and tower, and its exactness under concurrent tasks.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, OriginalUri};
use axum::routing::get;
use axum::{Extension, Router};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate::{LeakyBucket, ManualClock, Outcome, Rate, TokenBucket};
use tollgate_tower::{
    Backend, BuildError, HeaderStyle, KeyBy, OnBackendError, RequestHead, RequestLimits, Rule, StoreReply,
    Tollgate, TollgateLayer,
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::cors::{Any, CorsLayer};

use crate::support::{
    Echo, HttpClient, ReadinessChecked, TokioClock, by_axum_peer, by_peer, hourly_bucket, layer_with,
    request, send, serve, statuses,
};

#[tokio::test]
async fn axum_requests_are_limited_by_the_matched_route() {
    let route = KeyBy::extension(|route: &MatchedPath, key| key.push(route.as_str()));
    let layer =
        layer_with(Rule::new("route", hourly_bucket(2)).key(KeyBy::method().and(route).and(by_axum_peer())))
            .build()
            .unwrap();
    let app = Router::new()
        .route("/users/{id}", get(|| async { "user" }).post(|| async { "made" }))
        .route("/posts/{id}", get(|| async { "post" }))
        .route_layer(layer)
        .route("/free", get(|| async { "free" }));
    let http = HttpClient::to(serve(app).await);
    assert_eq!(http.status("/users/1", &[]).await, 200);
    assert_eq!(http.status("/users/2", &[]).await, 200);
    assert_eq!(http.status("/users/3", &[]).await, 429, "the same route with another user");
    assert_eq!(http.status("/users/3", &[("method", "POST")]).await, 200);
    assert_eq!(http.status("/posts/1", &[]).await, 200);
    for _ in 0..4 {
        assert_eq!(http.status("/nowhere", &[]).await, 404);
        assert_eq!(http.status("/free", &[]).await, 200);
    }
    assert_eq!(http.status("/posts/1", &[]).await, 200);
}

#[tokio::test]
async fn a_layer_inside_a_nested_router_sees_the_original_path() {
    let limited = |original: bool, around: bool| {
        let rule = Rule::new("search", hourly_bucket(1)).when(|head| head.path() == "/api/search");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hook = Arc::clone(&seen);
        let layer = layer_with(rule.key(KeyBy::path()))
            .on_limited(move |refusal| hook.lock().unwrap().push(refusal.head().path().to_owned()));
        let layer = if original { layer.original_uri(|uri: &OriginalUri| &uri.0) } else { layer };
        let (inner, layer) = (Router::new().route("/search", get(|| async {})), layer.build().unwrap());
        let outer = Router::new();
        let app = if around {
            outer.nest("/api", inner).layer(layer)
        } else {
            outer.nest("/api", inner.layer(layer))
        };
        (app, seen)
    };
    let path = &["/api/search"][..];
    for (original, around, expected, refused) in [
        (false, false, [200, 200], &[][..]),
        (true, false, [200, 429], path),
        (false, true, [200, 429], path),
    ] {
        let (app, seen) = limited(original, around);
        let http = HttpClient::to(serve(app).await);
        for expected in expected {
            assert_eq!(http.status("/api/search", &[]).await, expected);
        }
        assert_eq!(*seen.lock().unwrap(), refused);
    }
}

#[tokio::test]
async fn a_handler_in_a_nested_router_finds_its_key() {
    async fn left(Extension(limits): Extension<RequestLimits>, request: axum::extract::Request) -> String {
        let search = limits.handle("search").unwrap();
        let key = search.key_of(RequestHead::of(&request));
        key.map_or(String::from("none"), |key| key.peek(0).remaining.to_string())
    }
    let rule = Rule::new("search", hourly_bucket(5)).when(|head| head.path() == "/api/search");
    let layer = layer_with(rule.key(KeyBy::path())).attach_limits();
    let layer = layer.original_uri(|uri: &OriginalUri| &uri.0).build().unwrap();
    let inner = Router::new().route("/search", get(left)).layer(layer);
    let http = HttpClient::to(serve(Router::new().nest("/api", inner)).await);
    for left in ["4", "3"] {
        assert_eq!(http.send("/api/search", &[]).await.body(), left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_refusal_sees_the_original_path() {
    struct Full;
    impl Backend for Full {
        type Error = Infallible;
        type Receipt = ();
        async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply, Infallible> {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(StoreReply::new(Outcome::Denied, 1, 0, Duration::from_secs(1)))
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&seen);
    let rule = Rule::backend("there", Full, OnBackendError::Refuse);
    let layer = layer_with(rule.when(|head| head.path() == "/api/search"))
        .original_uri(|original: &http::Uri| original)
        .on_limited(move |refusal| hook.lock().unwrap().push(refusal.head().path().to_owned()))
        .timer(tokio::time::sleep)
        .build()
        .unwrap();
    let mut nested = request("/search", &[]);
    nested.extensions_mut().insert(http::Uri::from_static("/api/search"));
    assert_eq!(send(&layer, nested).await.status(), 429);
    assert_eq!(*seen.lock().unwrap(), ["/api/search"]);
}

#[tokio::test]
async fn a_refusal_behind_cors_can_be_read_by_scripts() {
    let limit = layer_with(Rule::new("all", hourly_bucket(1))).build().unwrap();
    let cors = CorsLayer::new().allow_origin(Any).expose_headers([http::header::RETRY_AFTER]);
    let http =
        HttpClient::to(serve(Router::new().route("/", get(|| async {})).layer(limit).layer(cors)).await);
    let script = [("origin", "https://example.com"), ("access-control-request-method", "GET")];
    for _ in 0..2 {
        let preflight = http.send("/", &[script[0], script[1], ("method", "OPTIONS")]).await;
        assert_eq!(preflight.status(), 200, "not charged");
    }
    for expected in [200, 429] {
        let response = http.send("/", &script[..1]).await;
        assert_eq!(response.status(), expected);
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
    }
}

#[tokio::test]
async fn two_lines_make_an_axum_server_with_a_named_limit() {
    let limit_of_two = TokenBucket::new(Rate::per_hour(2));
    let limit = TollgateLayer::new("api", limit_of_two, |client: &axum::extract::ConnectInfo<SocketAddr>| {
        Some(client.0.ip())
    })
    .unwrap();
    let http = HttpClient::to(serve(Router::new().route("/", get(|| async { "hello" })).layer(limit)).await);
    assert_eq!(http.status("/", &[]).await, 200);
    let response = http.send("/", &[]).await;
    assert!(response.headers()["ratelimit"].to_str().unwrap().starts_with("\"api\";r=0;t="));
    assert_eq!(response.headers()["ratelimit-policy"], "\"api\";q=2;w=3600");
    assert_eq!(http.status("/", &[]).await, 429);
    let peer = |peer: &SocketAddr| Some(peer.ip());
    let error = TollgateLayer::new("two words", limit_of_two, peer).map(drop);
    assert_eq!(error, Err(BuildError::RuleName { given: "two words".into() }));
}

#[tokio::test]
async fn a_closed_connection_gives_its_turn_back() {
    const SPACING: Duration = Duration::from_secs(3);
    let queue = LeakyBucket::queue(Rate::new(1, SPACING)).capacity(2);
    let asked = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&asked);
    let rule = Rule::new("paced", [queue])
        .key(by_axum_peer())
        .when(move |_| counts.fetch_add(1, Relaxed) < usize::MAX);
    let layer = layer_with(rule).build().unwrap();
    let address = serve(Router::new().route("/", get(|| async { "hello" })).layer(layer)).await;
    let http = HttpClient::to(address);
    assert_eq!(http.status("/", &[]).await, 200);
    let before = asked.load(Relaxed);

    let mut waits = TcpStream::connect(address).await.unwrap();
    waits.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let begun = Instant::now();
    while asked.load(Relaxed) == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(http.status("/", &[]).await, 429, "the waiting request fills the queue");
    drop(waits);
    // The server notices the disconnect. The next request departs when the closed one would have.
    while http.status("/", &[]).await != 200 {
        assert!(begun.elapsed() < 4 * SPACING, "the turn is never given back");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(begun.elapsed() < 2 * SPACING - SPACING / 4, "a departure later: {:?}", begun.elapsed());
}

#[tokio::test]
async fn clients_that_send_half_a_body_keep_no_turns() {
    let spacing = Duration::from_secs(1);
    let queue = LeakyBucket::queue(Rate::new(1, spacing)).capacity(6);
    let layer = layer_with(Rule::new("paced", [queue]).key(by_axum_peer())).build().unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&served);
    let post = move || async move {
        counts.fetch_add(1, Relaxed);
    };
    let app = Router::new().route("/", get(|| async { "hello" }).post(post)).layer(layer);
    let address = serve(app).await;
    let http = HttpClient::to(address);
    assert_eq!(http.status("/", &[]).await, 200);
    let begun = Instant::now();
    for _ in 0..6 {
        let mut half = TcpStream::connect(address).await.unwrap();
        half.write_all(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nhalf").await.unwrap();
        let mut answer = [0; 12];
        half.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 429");
    }
    assert_eq!(http.status("/", &[]).await, 200);
    assert!(begun.elapsed() < 2 * spacing, "a turn was kept: {:?}", begun.elapsed());
    assert_eq!(served.load(Relaxed), 0);
}

/// A limited service has a type that can be written down.
type Limited<S> = Tollgate<S, tollgate_tower::RespondBy<tollgate_tower::HttpResponder>>;

#[tokio::test]
async fn a_hyper_server_is_limited_by_the_attached_address() {
    let layer: TollgateLayer = layer_with(Rule::new("api", hourly_bucket(1)).key(by_peer())).build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let hello = service_fn(|_: Request<Incoming>| async {
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello")))
            });
            let limited: Limited<_> = layer.layer(hello);
            let attached = limited.map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(peer);
                request
            });
            let serving = async move {
                auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), TowerToHyperService::new(attached))
                    .await
            };
            tokio::spawn(async move { serving.await.unwrap_or_default() });
        }
    });
    let http = HttpClient::to(address);
    assert_eq!(http.send("/", &[]).await.body(), "hello");
    assert_eq!(http.status("/", &[]).await, 429);
}

#[tokio::test]
async fn a_tower_stack_keeps_its_types() {
    let layer = layer_with(Rule::new("api", hourly_bucket(1))).build().unwrap();
    let stack: Limited<Echo> = ServiceBuilder::new().layer(layer).service(Echo);
    let response: Response<String> = stack.clone().oneshot(request("/", &[])).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(stack.oneshot(request("/", &[])).await.unwrap().status(), 429);
}

#[tokio::test(start_paused = true)]
async fn the_ready_service_is_the_one_that_is_called() {
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(2);
    for (rule, expected) in [
        (Rule::new("at-once", hourly_bucket(3)), [200, 200, 200, 429]),
        (Rule::new("waits", [queue]), [200, 200, 200, 200]),
        (Rule::new("remembered", hourly_bucket(3)).charge_if(|_, _| true), [200, 200, 200, 429]),
    ] {
        let mut service = layer_with(rule)
            .clock(TokioClock::new())
            .timer(tokio::time::sleep)
            .build()
            .unwrap()
            .layer(ReadinessChecked::default());
        for expected in expected {
            let response = service.ready().await.unwrap().call(request("/", &[])).await.unwrap();
            assert_eq!(response.status(), expected);
        }
    }
}

#[tokio::test]
async fn a_closure_that_panics_charges_nothing() {
    let key = KeyBy::request(|head, key| {
        assert_ne!(head.path(), "/boom");
        key.push("all");
    });
    for styles in [&[][..], &[HeaderStyle::Ietf]] {
        let layer = layer_with(Rule::new("first", hourly_bucket(2)))
            .rule(Rule::new("second", hourly_bucket(2)).key(key.clone()))
            .headers(styles.iter().copied())
            .build()
            .unwrap();
        for _ in 0..3 {
            let service = layer.layer(Echo);
            let boom = tokio::spawn(async move { service.oneshot(request("/boom", &[])).await });
            assert!(boom.await.unwrap_err().is_panic());
        }
        assert_eq!(statuses(&layer, 3, &[]).await, [200, 200, 429], "{styles:?}");
    }
}

#[tokio::test]
async fn a_request_whose_service_panics_stays_charged() {
    let broken = service_fn(|request: Request<String>| async move {
        assert!(request.uri().path().is_empty(), "broken");
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let layer = layer_with(Rule::new("api", hourly_bucket(2))).build().unwrap();
    for _ in 0..2 {
        let service = layer.layer(broken);
        assert!(tokio::spawn(service.oneshot(request("/", &[]))).await.unwrap_err().is_panic());
    }
    assert_eq!(statuses(&layer, 1, &[]).await, [429]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_tasks_are_admitted_exactly_the_limit() {
    let layer = layer_with(Rule::new("small", hourly_bucket(700)).key(by_peer()))
        .rule(Rule::new("large", hourly_bucket(1_000)))
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let layer = layer.clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                let client = if task % 2 == 0 { "192.0.2.1" } else { "192.0.2.2" };
                for _ in 0..500 {
                    let mut service = layer.layer(Echo);
                    let response =
                        service.ready().await.unwrap().call(request("/", &[("peer", client)])).await.unwrap();
                    admitted += usize::from(response.status() == 200);
                    tokio::task::yield_now().await;
                }
                (task % 2, admitted)
            })
        })
        .collect();
    let mut admitted = [0; 2];
    for task in tasks {
        let (client, count) = task.await.unwrap();
        admitted[client] += count;
    }
    assert!(admitted.iter().all(|&count| count <= 700), "{admitted:?}");
    // A request that `large` refuses holds a token of `small` until its refund. Meanwhile `small`
    // may refuse another request. After the refunds, the admissions are exactly the limit.
    assert_eq!(admitted.iter().sum::<usize>(), 1_000, "{admitted:?}");
}
