//! Limits of requests in flight in front of real servers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_tower::{Limit, Rule, TollgateLayer, WrappedBody};

use super::{Sender, in_flight, sent};
use crate::support::{HttpClient, by_header, layer_with, serve};

type Layer = TollgateLayer<tollgate_tower::HttpResponder, WrappedBody>;

async fn panics() -> &'static str {
    panic!("the handler is broken")
}

/// A server of streams that the test feeds, and of requests that fail.
async fn server() -> (Layer, SocketAddr, Arc<Mutex<Vec<Sender>>>) {
    let rule = Rule::new("at-once", [Limit::InFlight(1)]).key(by_header("k"));
    let layer = layer_with(rule).build_in_flight().unwrap();
    let senders = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&senders);
    let stream = move || async move {
        let (sender, body) = sent();
        sender.send(Ok(Frame::data(Bytes::from("some")))).unwrap();
        kept.lock().unwrap().push(sender);
        Body::new(body.map_err(std::io::Error::other).boxed_unsync())
    };
    let upgrade = || async {
        Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("connection", "upgrade")
            .header("upgrade", "echo")
            .body(Body::empty())
            .unwrap()
    };
    let app = Router::new()
        .route("/stream", get(stream))
        .route("/panic", get(panics))
        .route("/upgrade", get(upgrade))
        .route("/none", get(|| async { StatusCode::NO_CONTENT }))
        .layer(layer.clone());
    let address = serve(app).await;
    (layer, address, senders)
}

fn end(senders: &Mutex<Vec<Sender>>) {
    let ended = senders.lock().unwrap().drain(..).next_back().unwrap();
    ended.send(Ok(Frame::data(Bytes::from("end")))).unwrap();
}

async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("a place was not given back");
}

async fn begin(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head} HTTP/1.1\r\nhost: here\r\nk: a\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_that_leaves_mid_body_gives_its_place_back() {
    let (layer, address, senders) = server().await;
    let http = HttpClient::to(address);
    for _ in 0..3 {
        let mut stream = begin(address, "GET /stream").await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!((&answer, in_flight(&layer, "a")), (b"HTTP/1.1 200", 1));
        assert_eq!(http.status("/none", &[("k", "a")]).await, 429);
        assert_eq!(http.status("/none", &[("k", "b")]).await, 204);
        drop(stream);
        until(|| in_flight(&layer, "a") == 0).await;
    }
    // A body that ends gives it back while the connection stays.
    let stream = begin(address, "GET /stream").await;
    until(|| in_flight(&layer, "a") == 1).await;
    end(&senders);
    until(|| in_flight(&layer, "a") == 0).await;
    drop(stream);
}

#[tokio::test]
async fn a_place_is_given_back_over_http2() {
    let (layer, address, senders) = server().await;
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut get = async |path: &str| {
        let request = Request::builder().uri(format!("http://here{path}")).header("k", "a");
        client.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap()
    };
    let stream = get("/stream").await;
    assert_eq!((stream.status().as_u16(), in_flight(&layer, "a")), (200, 1));
    assert_eq!(get("/none").await.status(), 429);
    // The stream is reset, and the connection stays.
    drop(stream);
    until(|| in_flight(&layer, "a") == 0).await;
    let stream = get("/stream").await;
    assert_eq!(in_flight(&layer, "a"), 1);
    end(&senders);
    assert_eq!(stream.into_body().collect().await.unwrap().to_bytes(), "someend");
    until(|| in_flight(&layer, "a") == 0).await;
    assert_eq!(get("/none").await.status(), 204);
}

#[tokio::test]
async fn a_response_without_a_body_holds_no_place() {
    let (layer, address, _senders) = server().await;
    for head in ["GET /none", "HEAD /stream", "GET /upgrade"] {
        let mut stream = begin(address, head).await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        // The connection is open still: that of the upgrade, too.
        until(|| in_flight(&layer, "a") == 0).await;
        drop(stream);
    }
    for _ in 0..2 {
        let mut stream = begin(address, "GET /panic").await;
        assert_eq!(stream.read(&mut [0; 12]).await.unwrap_or(0), 0, "the handler panics");
        until(|| in_flight(&layer, "a") == 0).await;
    }
}
