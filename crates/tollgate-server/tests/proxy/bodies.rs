//! Bodies on their way: in parts, at the pace of their readers, and not for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_server::Settings;
use tollgate_testing::servers::{Running, loopback};
use tollgate_testing::upstream::{Body, Gate, Written, by_hand, echo, full, recorder, upstream};
use tollgate_testing::wait::{LONG, eventually};

use super::support::{call, start, start_with, unbuffered};

const ONE_AT_ONCE: &str = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]";

const PART: usize = 64 << 10;

/// More than all buffers on the way may hold.
const MOST: usize = 64 << 20;

/// An upstream whose answer never ends, of which it counts the bytes. `/free` is answered at once.
pub(crate) async fn endless(sent: &Arc<AtomicUsize>) -> String {
    let sent = Arc::clone(sent);
    let address = upstream(move |request: Request<Incoming>| {
        let sent = Arc::clone(&sent);
        async move {
            if request.uri().path() == "/free" {
                return Response::new(full("done"));
            }
            let (sender, body) = Written::new();
            tokio::spawn(async move {
                while sender.send(Some(Bytes::from(vec![b'x'; PART]))).await.is_ok() {
                    sent.fetch_add(PART, Relaxed);
                }
            });
            Response::new(body.map_err(|error| unreachable!("{error}")).boxed())
        }
    });
    format!("http://{}", address.await)
}

/// Waits until a count stands still, which must be before it is too high.
async fn until_it_stands_still(count: &AtomicUsize) {
    let mut before = usize::MAX;
    while before != count.load(Relaxed) || before == 0 {
        before = count.load(Relaxed);
        assert!(before < MOST, "{before} bytes are held on the way");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_waits_for_its_reader() {
    let sent = Arc::default();
    let proxy = start(ONE_AT_ONCE, &[endless(&sent).await]).await;
    let mut stream = proxy.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await.unwrap();
    until_it_stands_still(&sent).await;
    let before = sent.load(Relaxed);
    let mut read = vec![0; 2 * before];
    timeout(LONG, stream.read_exact(&mut read)).await.unwrap().unwrap();
    eventually(|| sent.load(Relaxed) > before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_waits_for_its_upstream() {
    let gate = Gate::new().await;
    let proxy = start(ONE_AT_ONCE, std::slice::from_ref(&gate.url)).await;
    let mut stream = proxy.connect().await;
    let head = format!("POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {}\r\n\r\n", 2 * MOST);
    stream.write_all(head.as_bytes()).await.unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let writing = tokio::spawn(async move {
        while stream.write_all(&[b'x'; PART]).await.is_ok() {
            counted.fetch_add(PART, Relaxed);
        }
    });
    until_it_stands_still(&sent).await;
    writing.abort();
}

/// Its client speaks HTTP/2, and its upstream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_http2_waits_for_its_reader() {
    let sent = Arc::default();
    let proxy = start(ONE_AT_ONCE, &[endless(&sent).await.replace("http", "h2c")]).await;
    let mut sender = proxy.http2::<Full<Bytes>>().await;
    let request = Request::get("http://a.test/").body(Full::default()).unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    until_it_stands_still(&sent).await;
    let (before, mut read) = (sent.load(Relaxed), 0);
    while read < 2 * before {
        let frame = timeout(LONG, body.frame()).await.unwrap().unwrap().unwrap();
        read += frame.data_ref().map_or(0, Bytes::len);
    }
    eventually(|| sent.load(Relaxed) > before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_http2_waits_for_its_upstream() {
    let gate = Gate::new().await;
    let proxy = start(ONE_AT_ONCE, &[gate.url.replace("http", "h2c")]).await;
    let mut sender = proxy.http2().await;
    let (writes, body) = Written::new();
    let answer = tokio::spawn(sender.send_request(Request::post("http://a.test/").body(body).unwrap()));
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let writing = tokio::spawn(async move {
        while writes.send(Some(Bytes::from(vec![b'x'; PART]))).await.is_ok() {
            counted.fetch_add(PART, Relaxed);
        }
    });
    until_it_stands_still(&sent).await;
    writing.abort();
    answer.abort();
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let address = upstream(|request: Request<Incoming>| async move {
        let trailers = request.into_body().collect().await.unwrap().trailers().cloned().unwrap_or_default();
        let body: Body = Full::from("done").with_trailers(async { Some(Ok(trailers)) }).boxed();
        Response::new(body)
    });
    let proxy = start(ONE_AT_ONCE, &[format!("h2c://{}", address.await)]).await;
    let mut sender = proxy.http2().await;
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("7"))]);
    let body = Full::new(Bytes::from("x")).with_trailers(Box::pin(async { Some(Ok(trailers)) }));
    let request = Request::post("http://a.test/").header("te", "trailers").body(body).unwrap();
    let answer = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(answer.trailers().unwrap()["grpc-status"], "7");
}

#[tokio::test]
async fn a_client_is_told_to_continue_once_it_is_admitted() {
    let rule = "rule = [{ name = 'each', key = 'client', limits = '1/h' }]";
    let proxy = start(rule, &[echo().await]).await;
    let head = b"POST / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\nexpect: 100-continue\r\n\
        content-length: 4\r\n\r\n";
    let mut stream = proxy.connect().await;
    stream.write_all(head).await.unwrap();
    let mut told = [0; 25];
    timeout(LONG, stream.read_exact(&mut told)).await.unwrap().unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").await.unwrap();
    let mut answer = String::new();
    timeout(LONG, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("body"), "{answer}");
    assert!(!answer.contains("expect"), "{answer}");

    let refused = proxy.raw(head).await;
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
}

/// A client that is told to continue, and then refused, has sent its body for nothing.
#[tokio::test]
async fn a_client_that_waits_is_not_told_to_continue() {
    let rule =
        "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/s,capacity=2,mode=queue' }]";
    let proxy = start(rule, &[echo().await]).await;
    let mut stream = proxy.connect().await;
    let head = b"POST / HTTP/1.1\r\nhost: a.test\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
    assert_eq!(proxy.status("/").await, 200);
    stream.write_all(head).await.unwrap();
    let mut told = [0; 12];
    let early = timeout(Duration::from_millis(300), stream.read(&mut told)).await;
    assert!(early.is_err(), "it waits: {told:?}");
    timeout(LONG, stream.read_exact(&mut told)).await.unwrap().unwrap();
    assert_eq!(&told, b"HTTP/1.1 100");
}

/// Each part that is held has a cost of its own, however small it is.
#[tokio::test]
async fn small_parts_of_a_held_body_are_joined() {
    let rule =
        "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/s,capacity=2,mode=queue' }]";
    let (url, record) = recorder(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let set = |settings: &mut Settings| settings.forward.buffer_requests = 100;
    let proxy = start_with(rule, &[url], set).await;
    assert_eq!(proxy.status("/").await, 200);
    let head = "POST / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = format!("{head}{}0\r\n\r\n", "1\r\na\r\n".repeat(256));
    assert!(proxy.raw(body.as_bytes()).await.starts_with("HTTP/1.1 200 "));
    let seen = String::from_utf8_lossy(&record.lock().unwrap()).into_owned();
    assert!(seen.contains(&format!("\r\n64\r\n{}\r\n", "a".repeat(100))), "{seen}");
}

#[tokio::test]
async fn a_refused_client_sees_its_answer_though_it_writes() {
    let rule = "rule = [{ name = 'none', key = 'client', limits = 'block' }]";
    let proxy = start(rule, &[echo().await]).await;
    let mut stream = proxy.connect().await;
    let head = format!("POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {}\r\n\r\n", 8 * PART);
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..8 {
        stream.write_all(&[b'x'; PART]).await.unwrap();
    }
    let mut answer = [0; 12];
    timeout(LONG, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 429");
}

/// Short times, for bodies that stand still.
pub(crate) fn hasty(settings: &mut Settings) {
    settings.forward.idle_timeout = Duration::from_millis(300);
    settings.forward.head_timeout = Duration::from_millis(300);
    settings.limits.read_timeout = Duration::from_millis(400);
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_is_504() {
    let gate = Gate::new().await;
    let proxy = start_with(ONE_AT_ONCE, std::slice::from_ref(&gate.url), hasty).await;
    let answer = proxy.get("/", &[]).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (504, "application/problem+json"));
    assert_eq!(proxy.status("/free").await, 200, "nothing is in flight");
}

#[tokio::test]
async fn an_answer_that_stands_still_breaks_off() {
    let address = upstream(|request: Request<Incoming>| async move {
        if request.uri().path() == "/free" {
            return Response::new(full("done"));
        }
        let (sender, body) = Written::new();
        tokio::spawn(async move {
            let _ = sender.send(Some(Bytes::from_static(b"half"))).await;
            sender.closed().await;
        });
        Response::new(body.map_err(|error| unreachable!("{error}")).boxed())
    });
    let proxy = start_with(ONE_AT_ONCE, &[format!("http://{}", address.await)], hasty).await;
    let answer = proxy.raw(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await;
    assert!(answer.contains("half") && !answer.ends_with("0\r\n\r\n"), "{answer}");
    proxy.until("/free", 200).await;
}

#[tokio::test]
async fn a_body_that_stands_still_is_408() {
    for buffer in [0, 64 << 10] {
        let set = |settings: &mut Settings| {
            hasty(settings);
            settings.forward.buffer_requests = buffer;
        };
        let proxy = start_with(ONE_AT_ONCE, &[echo().await], set).await;
        let half = b"POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 9\r\n\r\nhalf";
        let answer = proxy.raw(half).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        proxy.until("/", 200).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_holds_no_place() {
    let sent = Arc::default();
    let proxy = start_with(ONE_AT_ONCE, &[endless(&sent).await], hasty).await;
    let mut stream = proxy.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await.unwrap();
    eventually(|| sent.load(Relaxed) > 0).await;
    proxy.until("/free", 200).await;
    let mut sender = proxy.http2::<Full<Bytes>>().await;
    let request = Request::get("http://a.test/").body(Full::default()).unwrap();
    let unread = sender.send_request(request).await.unwrap();
    proxy.until("/free", 200).await;
    drop(unread);
}

/// The client must not take half an answer for a whole one.
#[tokio::test]
async fn an_answer_that_breaks_off_is_not_whole() {
    for half in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let upstream = by_hand(move |mut stream| async move {
            let _ = stream.read(&mut [0; 4096]).await;
            stream.write_all(half).await.unwrap();
        })
        .await;
        let proxy = start(ONE_AT_ONCE, &[upstream.url()]).await;
        for request in 1..=2 {
            let answer = proxy.raw(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await;
            assert!(answer.contains("half") && !answer.ends_with("0\r\n\r\n"), "{answer}");
            assert_eq!(upstream.accepted.load(Relaxed), request, "nothing is in flight");
        }
    }
}

/// Its upstream reads no more of the body then.
#[tokio::test]
async fn an_early_answer_reaches_a_client_that_writes() {
    let address = upstream(|_: Request<Incoming>| async { Response::new(full("early")) });
    let proxy = start_with(ONE_AT_ONCE, &[format!("http://{}", address.await)], unbuffered).await;
    let mut stream = proxy.connect().await;
    stream.write_all(b"POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 9999\r\n\r\nbegun").await.unwrap();
    let mut answer = [0; 12];
    timeout(LONG, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(stream);
    proxy.until("/", 200).await;
}

/// Its client may write all of it before it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_answer_does_not_stop_the_body() {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let address = upstream(move |request: Request<Incoming>| {
        let counted = Arc::clone(&counted);
        async move {
            let (sender, body) = Written::new();
            tokio::spawn(
                async move { while sender.send(Some(Bytes::from(vec![b'x'; PART]))).await.is_ok() {} },
            );
            tokio::spawn(async move {
                let mut body = request.into_body();
                while let Some(Ok(frame)) = body.frame().await {
                    counted.fetch_add(frame.data_ref().map_or(0, Bytes::len), Relaxed);
                }
            });
            Response::new(body.map_err(|error| unreachable!("{error}")).boxed())
        }
    });
    let proxy = start(ONE_AT_ONCE, &[format!("http://{}", address.await)]).await;
    let mut stream = proxy.connect().await;
    let head = format!("POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {MOST}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..MOST / PART {
        timeout(LONG, stream.write_all(&[b'x'; PART])).await.expect("the upstream reads").unwrap();
    }
    eventually(|| read.load(Relaxed) == MOST).await;
}

/// SIGTERM ends the server so.
#[tokio::test]
async fn requests_in_progress_are_answered_before_the_end() {
    let gate = Gate::new().await;
    let rules = "rule = [{ name = 'each', key = 'client', limits = '9/s' }]";
    let Running { server, addresses, folder: _folder } = Running::start(rules, |settings, _| {
        settings.proxy.push(loopback());
        settings.forward.upstreams.push(gate.url.parse().unwrap());
    })
    .await;
    let address = addresses.proxy();
    let mut sender = tollgate_testing::client::http2(address).await;
    let request = Request::get("http://a.test/").body(Full::<Bytes>::default()).unwrap();
    let requests = async { tokio::join!(call(address, "GET", "/", &[], ""), sender.send_request(request)) };
    let ended = async {
        gate.arrivals(2).await;
        let ending = tokio::spawn(server.end());
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!ending.is_finished() && TcpStream::connect(address).await.is_err());
        gate.open();
        timeout(LONG, ending).await.unwrap().unwrap().unwrap();
    };
    let ((first, second), ()) = tokio::join!(requests, ended);
    assert_eq!((first.status.as_u16(), second.unwrap().status().as_u16()), (200, 200));
}

#[tokio::test]
async fn a_request_has_a_time_for_all() {
    let gate = Gate::new().await;
    let set = |settings: &mut Settings| settings.forward.total_timeout = Some(Duration::from_millis(300));
    let proxy = start_with(ONE_AT_ONCE, std::slice::from_ref(&gate.url), set).await;
    assert_eq!(proxy.status("/").await, 504);
}
