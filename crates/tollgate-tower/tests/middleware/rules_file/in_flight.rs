//! Limits of requests in flight.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame};
use tollgate_tower::RulesLayer;
use tower::{Layer, ServiceExt, service_fn};

use super::{File, X, layer, send, status};
use crate::in_flight::sent;
use crate::support::{HttpClient, header, request, serve};

const TWO: &str = "rule = [{ name = 'at-once', key = 'client', limits = 'in-flight:2' }]";

#[tokio::test]
async fn a_place_is_held_until_the_slow_body_ends() {
    let layer = layer(TWO);
    let senders = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&senders);
    let slow = service_fn(move |_: Request<String>| {
        let (sender, body) = sent();
        kept.lock().unwrap().push(sender);
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let call = || layer.layer(slow.clone()).oneshot(request("/", &[X]));
    let (mut one, two) = (call().await.unwrap(), call().await.unwrap());
    assert_eq!(header(&one, "ratelimit"), Some("\"at-once\";r=1"));
    assert_eq!(header(&two, "ratelimit"), Some("\"at-once\";r=0"));
    let refused = send(&layer, "/", &[X]).await;
    assert_eq!((refused.status().as_u16(), header(&refused, "retry-after")), (429, None));
    assert_eq!(header(&refused, "ratelimit"), Some("\"at-once\";r=0"));
    assert_eq!(status(&layer, "/", &[("peer", "192.0.2.1")]).await, 200);

    senders.lock().unwrap()[0].send(Ok(Frame::data(Bytes::from("some")))).unwrap();
    assert!(one.body_mut().frame().await.is_some());
    assert_eq!(status(&layer, "/", &[X]).await, 429, "its body has not ended");
    senders.lock().unwrap().remove(0);
    assert!(one.body_mut().frame().await.is_none());
    assert_eq!(status(&layer, "/", &[X]).await, 200, "it has ended, and is not dropped");
    drop(two);
    let again = send(&layer, "/", &[X]).await;
    assert_eq!(header(&again, "ratelimit"), Some("\"at-once\";r=1"));
}

#[tokio::test]
async fn an_error_or_a_client_that_leaves_holds_no_place() {
    let layer = layer(TWO);
    let broken = service_fn(|_: Request<String>| async { Err::<Response<String>, _>("broken") });
    let hangs =
        service_fn(|_: Request<String>| std::future::pending::<Result<Response<String>, Infallible>>());
    for _ in 0..3 {
        assert!(layer.layer(broken).oneshot(request("/", &[X])).await.is_err());
        let call = layer.layer(hangs).oneshot(request("/", &[X]));
        assert!(tokio::time::timeout(std::time::Duration::from_millis(1), call).await.is_err());
    }
    let response = send(&layer, "/", &[X]).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"at-once\";r=1"));
}

#[tokio::test]
async fn places_come_back_over_real_connections() {
    let file = File::new(TWO);
    let layer =
        RulesLayer::watch(&file.0, |info: &ConnectInfo<std::net::SocketAddr>| Some(info.0.ip())).unwrap();
    let streams = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&streams);
    let stream = move || async move {
        let (sender, body) = sent();
        kept.lock().unwrap().push(sender);
        Body::new(body.map_err(std::io::Error::other).boxed_unsync())
    };
    let app = Router::new().route("/stream", get(stream)).route("/", get(|| async { "hello" })).layer(layer);
    let client = HttpClient::to(serve(app).await);
    let open: Vec<_> = (0..2)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.status("/stream", &[]).await })
        })
        .collect();
    while streams.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.status("/", &[]).await, 429);
    for stream in streams.lock().unwrap().drain(..) {
        stream.send(Ok(Frame::data(Bytes::from("the end")))).unwrap();
    }
    for response in open {
        assert_eq!(response.await.unwrap(), 200);
    }
    assert_eq!(client.status("/", &[]).await, 200);
}
