//! Bodies that come before an upstream is taken, and those that come too slowly.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tollgate_server::Settings;
use tollgate_testing::servers::loopback;
use tollgate_testing::upstream::{Body, Gate, Written, echo, upstream};
use tollgate_testing::wait::{LONG, eventually};

use super::streams::metric;
use super::support::{start, start_with};

const ANY: &str = "rule = [{ name = 'any', key = 'everyone', limits = '1000/s' }]";

/// Long enough for a request to reach an upstream that does not wait for its body.
const WHILE: Duration = Duration::from_millis(200);

/// Sends a head that announces so many bytes.
async fn announce(stream: &mut TcpStream, length: usize) {
    let head = format!("POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut answer = vec![0; 4096];
    let read = timeout(LONG, stream.read(&mut answer)).await.expect("it is answered").unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

/// Two clients that send a byte now and then would hold both workers of an upstream.
#[tokio::test]
async fn a_client_that_trickles_its_body_takes_no_upstream() {
    let gate = Gate::new().await;
    gate.open();
    for scheme in ["http", "h2c"] {
        let url = gate.url.replace("http", scheme);
        let proxy = start(ANY, &[url]).await;
        let before = gate.arrived.load(Relaxed);
        let mut stream = proxy.connect().await;
        announce(&mut stream, 20).await;
        for _ in 0..19 {
            stream.write_all(b"x").await.unwrap();
            sleep(WHILE / 20).await;
        }
        assert_eq!(gate.arrived.load(Relaxed), before, "{scheme}: it waits for its body");
        assert_eq!(proxy.status("/").await, 200, "{scheme}");
        stream.write_all(b"x").await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "), "{scheme}");
        assert_eq!(gate.arrived.load(Relaxed), before + 2, "{scheme}");
    }
}

#[tokio::test]
async fn a_body_that_was_held_arrives_whole_with_its_length() {
    for scheme in ["http", "h2c"] {
        let proxy = start(ANY, &[echo().await.replace("http", scheme)]).await;
        let mut chunked = proxy.connect().await;
        let head = "POST /one HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n";
        for part in [head, "3\r\nabc\r\n", "4\r\ndefg\r\n", "0\r\n\r\n"] {
            chunked.write_all(part.as_bytes()).await.unwrap();
            sleep(WHILE / 10).await;
        }
        let said = answer(&mut chunked).await;
        assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("abcdefg"), "{scheme}: {said}");
        assert!(said.contains("\ncontent-length: 7\n") || scheme == "h2c", "{scheme}: {said}");
        assert!(!said.contains("\ntransfer-encoding"), "{scheme}: {said}");
    }
}

#[tokio::test]
async fn trailers_follow_a_body_that_was_held() {
    let address = upstream(|request: Request<Incoming>| async move {
        let whole = request.into_body().collect().await.unwrap();
        let (trailers, data) = (whole.trailers().cloned().unwrap_or_default(), whole.to_bytes());
        let body: Body = Full::from(data).with_trailers(async { Some(Ok(trailers)) }).boxed();
        Response::new(body)
    });
    let proxy = start(ANY, &[format!("h2c://{}", address.await)]).await;
    let mut sender = proxy.http2().await;
    let (writes, body) = Written::new();
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("7"))]);
    let body = body.with_trailers(Box::pin(async { Some(Ok(trailers)) }));
    let request = Request::post("http://a.test/").header("te", "trailers").body(body).unwrap();
    let answer = sender.send_request(request);
    for part in ["ab", "cd"] {
        sleep(WHILE / 10).await;
        writes.send(Some(part.into())).await.unwrap();
    }
    drop(writes);
    let whole = timeout(LONG, answer).await.unwrap().unwrap().into_body().collect().await.unwrap();
    assert_eq!(whole.trailers().unwrap()["x-sum"], "7");
    assert_eq!(whole.to_bytes(), "abcd");
}

#[tokio::test]
async fn a_long_body_takes_an_upstream_with_its_first_part() {
    let gate = Gate::new().await;
    let set = |settings: &mut Settings| settings.forward.buffer_requests = 4096;
    let proxy = start_with(ANY, std::slice::from_ref(&gate.url), set).await;
    let mut stream = proxy.connect().await;
    announce(&mut stream, 1 << 20).await;
    stream.write_all(&[b'x'; 4095]).await.unwrap();
    sleep(WHILE).await;
    assert_eq!(gate.arrived.load(Relaxed), 0);
    stream.write_all(b"x").await.unwrap();
    gate.arrivals(1).await;
}

/// Each waits for an answer to its first part.
#[tokio::test]
async fn a_stream_of_grpc_goes_on_as_it_comes() {
    let address = upstream(|request: Request<Incoming>| async move {
        let mut body = request.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let (writes, answer) = Written::new();
        tokio::spawn(async move {
            writes.send(Some(first)).await.unwrap();
            while let Some(Ok(frame)) = body.frame().await {
                writes.send(frame.into_data().ok()).await.unwrap();
            }
        });
        Response::new(answer.map_err(|error| unreachable!("{error:?}")).boxed())
    })
    .await;
    for (scheme, kind) in [("h2c", "application/grpc+proto"), ("http", "Application/Connect+JSON")] {
        let set = |settings: &mut Settings| {
            settings.forward.idle_timeout = Duration::from_millis(500);
            settings.forward.least_rate = 1_000_000;
        };
        let proxy = start_with(ANY, &[format!("{scheme}://{address}")], set).await;
        let mut sender = proxy.http2().await;
        let (writes, body) = Written::new();
        let request = Request::post("http://a.test/").header("content-type", kind).body(body).unwrap();
        let answer = sender.send_request(request);
        writes.send(Some("first".into())).await.unwrap();
        let mut said = timeout(LONG, answer).await.unwrap_or_else(|_| panic!("{kind}")).unwrap().into_body();
        for number in 0..5 {
            let part = timeout(LONG, said.frame()).await.unwrap().unwrap().unwrap().into_data().unwrap();
            assert_eq!(part, if number == 0 { "first" } else { "next" }, "{kind}");
            // It has no least rate.
            sleep(WHILE).await;
            writes.send(Some("next".into())).await.unwrap();
        }
    }
}

/// It is told to continue for its body, but not if the upstream may want nothing of it.
#[tokio::test]
async fn a_short_body_is_asked_for_first() {
    let gate = Gate::new().await;
    gate.open();
    let proxy = start(ANY, std::slice::from_ref(&gate.url)).await;
    let head = "POST / HTTP/1.1\r\nhost: a.test\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    let mut stream = proxy.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 100 "));
    assert_eq!(gate.arrived.load(Relaxed), 0);
    stream.write_all(b"xx").await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "));
    // The gate answers without its body, for which the upstream's side asks at once.
    let mut stream = proxy.connect().await;
    stream.write_all(head.replace("length: 2", "length: 99999").as_bytes()).await.unwrap();
    let mut said = answer(&mut stream).await;
    while !said.contains("HTTP/1.1 200 ") {
        said += &answer(&mut stream).await;
    }
}

/// Before an upstream is taken, and after that.
#[tokio::test]
async fn a_body_below_the_least_rate_is_408() {
    for buffer in [64 << 10, 0] {
        let set = |settings: &mut Settings| {
            settings.forward.idle_timeout = Duration::from_millis(300);
            settings.forward.buffer_requests = buffer;
        };
        let proxy = start_with(ANY, &[echo().await], set).await;
        let (mut read, mut write) = proxy.connect().await.into_split();
        let head = "POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 99999\r\n\r\n";
        write.write_all(head.as_bytes()).await.unwrap();
        // Each byte comes in time, and gives 2 of the 20 ms back.
        let writing = tokio::spawn(async move {
            while write.write_all(b"x").await.is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
        });
        let mut said = [0; 12];
        timeout(LONG, read.read_exact(&mut said)).await.expect("it has an end").unwrap();
        assert_eq!(&said, b"HTTP/1.1 408", "buffer {buffer}");
        writing.abort();
    }
}

#[tokio::test]
async fn a_body_above_the_least_rate_may_take_its_time() {
    let set = |settings: &mut Settings| {
        settings.forward.idle_timeout = Duration::from_millis(500);
        settings.forward.least_rate = 1_000;
    };
    let proxy = start_with(ANY, &[echo().await], set).await;
    let mut stream = proxy.connect().await;
    announce(&mut stream, 20 * 400).await;
    for _ in 0..20 {
        stream.write_all(&[b'x'; 400]).await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "));
}

/// Nothing is free, so a connection has 32 KiB: that of an attacker holds three bodies of six, and
/// that of another client its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_holds_no_more_than_its_share() {
    const PART: usize = 10_000;
    let gate = Gate::new().await;
    gate.open();
    let set = |settings: &mut Settings| {
        settings.admin.push(loopback());
        settings.limits.unfinished_bytes = Some(0);
    };
    let proxy = start_with(ANY, std::slice::from_ref(&gate.url), set).await;
    let held = || metric(&proxy, "tollgate_unfinished_bytes{", "\"proxy\"");
    let (mut sender, mut greedy) = (proxy.http2().await, Vec::new());
    for _ in 0..6 {
        let (writes, body) = Written::new();
        let request = Request::post("http://a.test/").body(body).unwrap();
        let asked = tokio::spawn(sender.send_request(request));
        writes.send(Some(Bytes::from_static(&[b'x'; PART]))).await.unwrap();
        greedy.push((writes, asked));
    }
    // What finds no room goes on.
    gate.arrivals(3).await;
    eventually(|| held() == 3.0 * PART as f64).await;
    let mut honest = proxy.connect().await;
    announce(&mut honest, 1_000).await;
    honest.write_all(&[b'x'; 999]).await.unwrap();
    sleep(WHILE).await;
    assert_eq!(gate.arrived.load(Relaxed), 3, "the others are held");
    honest.write_all(b"x").await.unwrap();
    assert!(answer(&mut honest).await.starts_with("HTTP/1.1 200 "));
    drop((greedy, sender, honest));
    eventually(|| held() == 0.0).await;
}

/// Its body broke off before any upstream was taken: that is its own fault.
#[tokio::test]
async fn a_request_whose_body_breaks_off_stays_charged() {
    let rule = "rule = [{ name = 'daily', key = 'everyone', limits = 'fixed-window:9/d' }]";
    let proxy = start(rule, &[echo().await]).await;
    let mut stream = proxy.connect().await;
    announce(&mut stream, 10).await;
    sleep(WHILE).await;
    drop(stream);
    let left = proxy.get("/", &[]).await;
    assert!(left.header("ratelimit").contains("r=7;"), "{}", left.header("ratelimit"));
}

/// A request with half a body, which is held.
#[tokio::test]
async fn half_a_body_gives_its_place_back() {
    let rule = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]";
    let proxy = start(rule, &[echo().await]).await;
    let (writes, body) = Written::new();
    let mut sender = proxy.http2().await;
    let http2 = tokio::spawn(sender.send_request(Request::post("http://a.test/").body(body).unwrap()));
    writes.send(Some(Bytes::from_static(b"x"))).await.unwrap();
    // It comes before the next one.
    sleep(WHILE).await;
    proxy.until("/", 429).await;
    http2.abort();
    drop((writes, sender));
    proxy.until("/", 200).await;
    // The last answer has gone, and its place is back.
    sleep(WHILE).await;
    let mut stream = proxy.connect().await;
    announce(&mut stream, 10).await;
    sleep(WHILE).await;
    proxy.until("/", 429).await;
    drop(stream);
    proxy.until("/", 200).await;
}
