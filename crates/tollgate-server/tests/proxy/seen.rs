//! The rules and the upstream see the same request, whole.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use tollgate_testing::client::whole;
use tollgate_testing::upstream::{Written, echo, full, recorder, upstream};

use super::support::{start, start_with, unbuffered};

const ANY: &str = "clients = { trusted_proxies = ['10.0.0.0/8'], header = 'cf-connecting-ip' }
    rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// What an upstream is sent for these bytes, whose connection the client ends.
async fn sent_on(bytes: &str) -> String {
    let (url, record) = recorder(OK).await;
    let proxy = start(ANY, &[url]).await;
    let answer = proxy.raw(bytes.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let seen = record.lock().unwrap().clone();
    String::from_utf8(seen).unwrap()
}

#[tokio::test]
async fn rules_match_the_upgrade_that_the_upstream_is_asked_for() {
    let rule = "rule = [{ name = 'sockets', key = 'everyone', limits = 'block',
        match.header.upgrade = 'websocket' }]";
    let proxy = start(rule, &[echo().await]).await;
    let ask = |connection: &'static str| [("upgrade", "websocket"), ("connection", connection)];
    assert_eq!(proxy.get("/", &ask("upgrade")).await.status, 429);
    let answer = proxy.get("/", &ask("keep-alive")).await;
    assert_eq!(answer.status, 200, "the upstream is not asked");
    assert!(!String::from_utf8_lossy(&answer.body).contains("upgrade"));
}

#[tokio::test]
async fn a_body_may_cost_its_length() {
    let rule = "rule = [{ name = 'bytes', key = 'everyone', limits = 'fixed-window:100/d',
        cost = { from = 'header.content-length', default = 1 } }]";
    let proxy = start(rule, &[echo().await]).await;
    let answer = proxy.call("POST", "/", &[], "0123456789").await;
    assert!(answer.header("ratelimit").starts_with("\"bytes\";r=90;"), "{:?}", answer.headers);
    let both = "POST / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\ncontent-length: 50\r\n\
        transfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let answer = proxy.raw(both.as_bytes()).await;
    assert!(answer.contains("\"bytes\";r=89;"), "no length goes on: {answer}");
}

#[tokio::test]
async fn what_a_client_says_of_itself_keys_nothing() {
    let rule = "rule = [{ name = 'by', key = 'header.x-real-ip', limits = '9/s', missing = 'refuse' }]";
    let proxy = start(rule, &[echo().await]).await;
    assert_eq!(proxy.get("/", &[("x-real-ip", "6.6.6.6")]).await.status, 429);
}

#[tokio::test]
async fn no_spelling_of_where_a_request_comes_from_passes() {
    let proxy = start(ANY, &[echo().await]).await;
    for name in [
        "x-forwarded-user",
        "x-forwarded-ssl",
        "x-forwarded-scheme",
        "x-forwarded-uri",
        "x_forwarded_for",
        "x-forwarded_for",
        "x_real_ip",
        "x.forwarded.for",
        "x.real_ip",
        "cf-connecting-ip",
        "cf_connecting_ip",
    ] {
        let said = proxy.get("/", &[(name, "6.6.6.6")]).await.body;
        assert!(!String::from_utf8_lossy(&said).contains("6.6.6.6"), "{name}");
    }
}

#[tokio::test]
async fn connection_cannot_hide_the_clients_header() {
    let rules = "clients = { trusted_proxies = ['127.0.0.0/8'], header = 'cf-connecting-ip' }
        rule = [{ name = 'each', key = 'client', limits = '1/h' }]";
    let proxy = start(rules, &[echo().await]).await;
    assert_eq!(proxy.status("/").await, 200, "the address of the proxy before");
    let hidden = [("cf-connecting-ip", "192.0.2.7"), ("connection", "cf-connecting-ip")];
    let answer = proxy.get("/", &hidden).await;
    assert_eq!(answer.status, 200);
    assert!(String::from_utf8_lossy(&answer.body).contains("cf-connecting-ip: 192.0.2.7\n"));
}

#[tokio::test]
async fn rules_see_the_host_of_a_request_without_one() {
    let rule = "rule = [{ name = 'own', key = 'everyone', limits = 'block', match.host = '127.0.0.1' }]";
    let proxy = start(rule, &[echo().await]).await;
    for head in ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\nhost:\r\n\r\n"] {
        let answer = proxy.raw(head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.0 429 "), "{answer}");
    }
}

#[tokio::test]
async fn trailers_say_nothing_of_where_a_request_comes_from() {
    let address = upstream(|request: Request<Incoming>| async move {
        let trailers = request.into_body().collect().await.unwrap().trailers().cloned();
        Response::new(full(format!("{:?}", trailers.unwrap_or_default())))
    });
    let proxy = start(ANY, &[format!("h2c://{}", address.await)]).await;
    let mut sender = proxy.http2().await;
    let names = ["grpc-status", "x-forwarded-for", "x_real_ip", "cf-connecting-ip", "host", "content-length"];
    let trailers: HeaderMap =
        names.iter().map(|name| (name.parse().unwrap(), HeaderValue::from_static("6"))).collect();
    let body = Full::new(Bytes::from("x")).with_trailers(Box::pin(async { Some(Ok(trailers)) }));
    let request = Request::post("http://a.test/").header("te", "trailers").body(body).unwrap();
    let answer = whole(sender.send_request(request).await.unwrap()).await;
    assert_eq!(answer.body, "{\"grpc-status\": \"6\"}");
}

/// An upstream may read trailers as headers, and would see another key than the rules did.
#[tokio::test]
async fn trailers_have_no_header_that_a_rule_reads() {
    let address = upstream(|request: Request<Incoming>| async move {
        let trailers = request.into_body().collect().await.unwrap().trailers().cloned();
        Response::new(full(format!("{:?}", trailers.unwrap_or_default())))
    });
    let rules = "rule = [{ name = 'keys', key = 'header.X-Api-Key', limits = '9/s' },
        { name = 'sessions', key = 'cookie.sid', limits = '9/s', missing = 'pass' }]";
    let proxy = start(rules, &[format!("h2c://{}", address.await)]).await;
    let mut sender = proxy.http2().await;
    let names = ["grpc-status", "x-api-key", "x_api_key", "cookie", "x-api-keys"];
    let trailers: HeaderMap =
        names.iter().map(|name| (name.parse().unwrap(), HeaderValue::from_static("6"))).collect();
    let body = Full::new(Bytes::from("x")).with_trailers(Box::pin(async { Some(Ok(trailers)) }));
    let request = Request::post("http://a.test/").header("te", "trailers").header("x-api-key", "a");
    let answer = whole(sender.send_request(request.body(body).unwrap()).await.unwrap()).await;
    assert_eq!(answer.body, "{\"grpc-status\": \"6\", \"x-api-keys\": \"6\"}");
}

#[tokio::test]
async fn a_get_keeps_its_body() {
    let chunked = "GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
        3\r\nabc\r\n0\r\n\r\n";
    let seen = sent_on(chunked).await;
    assert!(seen.contains("content-length: 3\r\n") && seen.ends_with("\r\n\r\nabc"), "{seen}");
    let proxy = start_with(ANY, &[echo().await], unbuffered).await;
    let answer = proxy.raw(chunked.as_bytes()).await;
    assert!(answer.contains("abc"), "as it comes: {answer}");

    let proxy = start(ANY, &[echo().await]).await;
    let mut sender = proxy.http2().await;
    let (writes, body) = Written::new();
    let request = Request::get("http://a.test/").body(body).unwrap();
    let answer = sender.send_request(request);
    writes.send(Some(Bytes::from("abc"))).await.unwrap();
    drop(writes);
    let answer = whole(answer.await.unwrap()).await;
    assert!(answer.body.ends_with(b"abc"), "{:?}", answer.body);
}

/// Some servers refuse a `POST` that says no length.
#[tokio::test]
async fn a_body_of_no_bytes_has_a_length() {
    let head = "POST / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let seen = sent_on(&format!("{head}0\r\n\r\n")).await;
    assert!(seen.contains("content-length: 0\r\n") && !seen.contains("chunked"), "{seen}");
}

#[tokio::test]
async fn a_length_of_nothing_passes() {
    let head = "POST / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n";
    assert!(sent_on(&format!("{head}content-length: 0\r\n\r\n")).await.contains("content-length: 0\r\n"));
    assert!(!sent_on(&format!("{head}\r\n")).await.contains("content-length"));
}

#[tokio::test]
async fn a_response_has_one_length() {
    let (url, _) = recorder(
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n\
        4\r\nbody\r\n0\r\n\r\n",
    )
    .await;
    let answer = start(ANY, &[url]).await.get("/", &[]).await;
    assert_eq!((answer.headers.get(CONTENT_LENGTH), &answer.body[..]), (None, &b"body"[..]));
}

/// Its client would get the coded bytes as the body.
#[tokio::test]
async fn a_response_with_another_coding_is_no_answer() {
    for coding in ["gzip, chunked", "xchunked", "chunked\r\ntransfer-encoding: chunked"] {
        let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n2\r\nok\r\n0\r\n\r\n");
        let (url, _) = recorder(answer.leak().as_bytes()).await;
        let answer = start(ANY, &[url]).await.get("/", &[]).await;
        assert_eq!(answer.status, 502, "{coding}");
    }
}

/// HTTP/2 may send each pair of a cookie as a line (RFC 9113, section 8.2.3).
#[tokio::test]
async fn cookies_of_http2_are_one_line() {
    let rule = "rule = [{ name = 'by', key = 'cookie.b', limits = '1/h', missing = 'refuse' }]";
    let proxy = start(rule, &[echo().await]).await;
    let mut sender = proxy.http2::<Empty<Bytes>>().await;
    let request = Request::get("http://a.test/").header(COOKIE, "a=1").header(COOKIE, "b=2");
    let answer = whole(sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap()).await;
    let said = String::from_utf8_lossy(&answer.body);
    assert!(said.contains("cookie: a=1; b=2\n"), "{said}");
}
