//! Heads and bodies that are too long, of clients and of upstreams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tollgate_server::Settings;
use tollgate_testing::client::whole;
use tollgate_testing::upstream::{Written, by_hand, echo, full, recorder, upstream};
use tollgate_testing::wait::{LONG, eventually};

use super::support::{start, start_with, unbuffered};

/// What a request is charged shows that the rules have not seen another one.
const DAILY: &str = "rule = [{ name = 'daily', key = 'everyone', limits = 'fixed-window:9/d' }]";

const ONE_AT_ONCE: &str = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_long_head_is_431_and_reaches_no_upstream() {
    let many: String = (0..101).map(|number| format!("x-{number}: 1\r\n")).collect();
    let (url, record) = recorder(OK).await;
    let proxy = start(DAILY, &[url]).await;
    for head in [
        format!("GET / HTTP/1.1\r\nhost: a.test\r\nx: {}\r\n\r\n", "x".repeat(20 << 10)),
        format!("GET / HTTP/1.1\r\nhost: a.test\r\n{many}\r\n"),
        format!("GET /{} HTTP/1.1\r\nhost: a.test\r\n\r\n", "x".repeat(20 << 10)),
    ] {
        let answer = proxy.raw(head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    let mut sender = proxy.http2::<Empty<Bytes>>().await;
    let request = Request::get("http://a.test/").header("x", "x".repeat(20 << 10));
    let answer = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 431);
    // The known request is the first one that the rules and the upstream see.
    assert!(proxy.get("/known", &[]).await.header("ratelimit").starts_with("\"daily\";r=8;"));
    assert!(record.lock().unwrap().starts_with(b"GET /known "));
}

/// hyper serves the connection after these, and has read the long head with them.
#[tokio::test]
async fn a_long_head_behind_others_is_431() {
    let proxy = start(DAILY, &[echo().await]).await;
    for before in [
        "POST / HTTP/1.1\r\nhost: a.test\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\nx",
        "GET / HTTP/1.1\r\nhost: a.test\r\nconnection: upgrade\r\nupgrade: none\r\n\r\n",
    ] {
        for (length, status) in [(15 << 10, "200"), (17 << 10, "431"), (20 << 10, "431")] {
            let long = format!(
                "GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\nx: {}\r\n\r\n",
                "x".repeat(length)
            );
            let said = proxy.raw(format!("{before}{long}").as_bytes()).await;
            let statuses = said.split("HTTP/1.1 ").filter_map(|answer| answer.get(..3));
            let statuses: Vec<&str> = statuses.filter(|status| ["200", "431"].contains(status)).collect();
            assert_eq!(statuses, ["200", status], "{length} bytes behind {before:?}");
        }
    }
}

/// Of one header without end, and of headers without end.
#[tokio::test]
async fn an_upstreams_endless_head_is_502() {
    for part in ["x-a: b\r\n", "aaaaaaaa"] {
        let upstream = by_hand(move |mut stream| async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await;
            while stream.write_all(part.repeat(1000).as_bytes()).await.is_ok() {}
        })
        .await;
        let proxy = start(ONE_AT_ONCE, &[upstream.url()]).await;
        proxy.twice(502, &upstream.ended).await;
    }
}

#[tokio::test]
async fn a_long_head_of_an_http2_upstream_is_502() {
    let address = upstream(|request: Request<Incoming>| async move {
        let length = if request.uri().path() == "/long" { 20 << 10 } else { 1 };
        Response::builder().header("x-a", "b".repeat(length)).body(full("done")).unwrap()
    });
    let proxy = start(ONE_AT_ONCE, &[format!("h2c://{}", address.await)]).await;
    for (path, status) in [("/long", 502), ("/short", 200), ("/long", 502)] {
        assert_eq!(proxy.status(path).await, status);
    }
}

fn at_most_nine(settings: &mut Settings) {
    settings.forward.max_body = Some(9);
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_413() {
    let (url, record) = recorder(OK).await;
    let proxy = start_with(DAILY, &[url], at_most_nine).await;
    let length = 1 << 20;
    let mut stream = proxy.connect().await;
    let head = format!("POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A client that writes all before it reads sees its answer, too.
    timeout(LONG, stream.write_all(&vec![b'x'; length])).await.unwrap().unwrap();
    let mut answer = [0; 12];
    timeout(LONG, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    let expects = "POST / HTTP/1.1\r\nhost: a.test\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n";
    assert!(proxy.raw(expects.as_bytes()).await.starts_with("HTTP/1.1 413 "), "it is not told to continue");
    let answer = proxy.call("POST", "/known", &[], "nine byte").await;
    assert!(answer.status == 200 && answer.header("ratelimit").starts_with("\"daily\";r=8;"));
    assert!(record.lock().unwrap().starts_with(b"POST /known "));
}

/// Also of one that an upstream has begun to read.
#[tokio::test]
async fn a_body_that_becomes_too_long_is_413() {
    let (broken, counted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (noted, begun) = (Arc::clone(&broken), Arc::clone(&counted));
    let address = upstream(move |request: Request<Incoming>| {
        let (noted, begun) = (Arc::clone(&noted), Arc::clone(&begun));
        async move {
            begun.fetch_add(1, Relaxed);
            if request.into_body().collect().await.is_err() {
                noted.fetch_add(1, Relaxed);
            }
            Response::new(full("done"))
        }
    })
    .await;
    for (number, scheme) in ["http", "h2c"].into_iter().enumerate() {
        let set = |settings: &mut Settings| {
            at_most_nine(settings);
            unbuffered(settings);
        };
        let proxy = start_with(ONE_AT_ONCE, &[format!("{scheme}://{address}")], set).await;
        let mut sender = proxy.http2().await;
        let (writes, body) = Written::new();
        let request = Request::post("http://a.test/").body(body).unwrap();
        let answer = tokio::spawn(sender.send_request(request));
        writes.send(Some(Bytes::from_static(b"nine byte"))).await.unwrap();
        eventually(|| counted.load(Relaxed) > 2 * number).await;
        writes.send(Some(Bytes::from_static(b"s"))).await.unwrap();
        let answer = whole(timeout(LONG, answer).await.unwrap().unwrap().unwrap()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-type")),
            (413, "application/problem+json")
        );
        eventually(|| broken.load(Relaxed) > number).await;
        assert_eq!(proxy.call("POST", "/", &[], "nine byte").await.status, 200, "nothing is in flight");
    }
}

#[tokio::test]
async fn a_body_grown_too_long_while_queued_is_413() {
    let rule =
        "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/h,capacity=2,mode=queue' }]";
    let proxy = start_with(rule, &[echo().await], at_most_nine).await;
    assert_eq!(proxy.status("/").await, 200);
    let long = "POST / HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n9\r\n012345678\r\n1\r\n9\r\n0\r\n\r\n";
    let mut stream = proxy.connect().await;
    stream.write_all(long.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    timeout(LONG, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}
