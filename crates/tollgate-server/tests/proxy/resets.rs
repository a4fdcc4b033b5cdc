//! Upstreams whose connections are reset.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use tollgate_testing::upstream::{Body, Written, full};
use tollgate_testing::wait::LONG;

use super::support::start;

const ONE_AT_ONCE: &str = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]";

/// An upstream that resets its connections when it is told (RST, without a last word). It answers
/// `/half` with half a body, `/free` with a whole one, and others not at all, but resets by itself.
async fn resetting(reset: &Arc<Notify>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let reset = Arc::clone(reset);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_zero_linger().unwrap();
            let (reset, resets) = (Arc::clone(&reset), Arc::clone(&reset));
            let service = service_fn(move |request: Request<Incoming>| answer(request, Arc::clone(&resets)));
            tokio::spawn(async move {
                let told = reset.notified();
                let builder = Builder::new(TokioExecutor::new());
                tokio::select! {
                    _ = builder.serve_connection(TokioIo::new(stream), service) => {}
                    () = told => {}
                }
            });
        }
    });
    address.to_string()
}

async fn answer(request: Request<Incoming>, reset: Arc<Notify>) -> Result<Response<Body>, Infallible> {
    match request.uri().path() {
        "/free" => return Ok(Response::new(full("done"))),
        "/half" => {}
        _ => {
            reset.notify_waiters();
            std::future::pending::<()>().await;
        }
    }
    let (sender, body) = Written::new();
    tokio::spawn(async move {
        let _ = sender.send(Some(Bytes::from_static(b"half"))).await;
        sender.closed().await;
    });
    Ok(Response::new(body.map_err(|error| unreachable!("{error}")).boxed()))
}

#[tokio::test]
async fn an_upstream_that_resets_before_its_head_is_502() {
    let reset = Arc::default();
    let address = resetting(&reset).await;
    for scheme in ["http", "h2c"] {
        let proxy = start(ONE_AT_ONCE, &[format!("{scheme}://{address}")]).await;
        for path in ["/", "/free", "/", "/"] {
            let status = if path == "/" { 502 } else { 200 };
            assert_eq!(proxy.status(path).await, status, "{scheme} {path}");
        }
        let answer = proxy.call("POST", "/", &[], "body").await;
        assert_eq!(answer.status, 502, "{scheme}: it is sent once");
    }
}

/// The client must not take half an answer for a whole one.
#[tokio::test]
async fn an_upstream_that_resets_in_a_body_leaves_it_broken() {
    let reset: Arc<Notify> = Arc::default();
    let address = resetting(&reset).await;
    for scheme in ["http", "h2c"] {
        let proxy = start(ONE_AT_ONCE, &[format!("{scheme}://{address}")]).await;
        for is_http2 in [false, true] {
            let request = Request::get(if is_http2 { "http://a.test/half" } else { "/half" });
            let request = request.header("host", "a.test").body(http_body_util::Empty::<Bytes>::new());
            let request = request.unwrap();
            let answer = if is_http2 {
                proxy.http2().await.send_request(request).await.unwrap()
            } else {
                let stream = TokioIo::new(proxy.connect().await);
                let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
                tokio::spawn(connection);
                sender.send_request(request).await.unwrap()
            };
            let mut body = answer.into_body();
            let half = timeout(LONG, body.frame()).await.unwrap().unwrap().unwrap();
            assert_eq!(half.into_data().unwrap(), "half");
            assert_eq!(proxy.status("/free").await, 429, "it is in flight");
            reset.notify_waiters();
            let end = timeout(LONG, body.frame()).await.unwrap();
            assert!(end.is_some_and(|end| end.is_err()), "{scheme}, HTTP/2: {is_http2}");
            proxy.until("/free", 200).await;
        }
    }
}
