//! Heads on their way: what the rules match is what the upstream gets.

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use tollgate_testing::client::whole;
use tollgate_testing::upstream::{echo, recorder};

use super::support::{start, start_with};

const RULES: &str = "clients.trusted_proxies = ['10.0.0.0/8']
    rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn an_upstream_is_told_where_a_request_comes_from() {
    let proxy = start(RULES, &[echo().await]).await;
    let sent = [
        ("x-forwarded-for", "6.6.6.6"),
        ("forwarded", "for=6.6.6.6"),
        ("connection", "x-mine, x-forwarded-for"),
        ("x-mine", "1"),
        ("x-other", "1"),
    ];
    let said = String::from_utf8(proxy.get("/a%2Fb//c?d=%20", &sent).await.body.to_vec()).unwrap();
    for line in [
        "GET /a%2Fb//c?d=%20 HTTP/1.1\n",
        "host: a.test\n",
        "x-forwarded-for: 127.0.0.1\n",
        "x-forwarded-proto: http\n",
        "x-forwarded-host: a.test\n",
        "forwarded: for=127.0.0.1;host=\"a.test\";proto=http\n",
        "x-other: 1\n",
    ] {
        assert!(said.contains(line), "{line} is missing in {said}");
    }
    assert!(!said.contains("6.6.6.6") && !said.contains("x-mine"), "{said}");
}

#[tokio::test]
async fn a_trusted_proxy_is_believed() {
    let rules = "clients.trusted_proxies = ['127.0.0.0/8']
        rule = [{ name = 'each', key = 'client', limits = '1/h' }]";
    let proxy = start(rules, &[echo().await]).await;
    let chain = [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")];
    let answer = proxy.get("/", &chain).await;
    let said = String::from_utf8_lossy(&answer.body);
    assert!(said.contains("x-forwarded-for: 192.0.2.7, 127.0.0.1\n"), "{said}");
    assert!(said.contains("x-forwarded-proto: https\n"), "{said}");
    assert_eq!(proxy.get("/", &chain).await.status, 429);
    assert_eq!(proxy.get("/", &[("x-forwarded-for", "192.0.2.8")]).await.status, 200, "another client");
}

#[tokio::test]
async fn new_rules_say_whom_the_proxy_believes() {
    let rules = "rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";
    let proxy = start(rules, &[echo().await]).await;
    for (trusted, told) in [
        ("", "127.0.0.1"),
        ("clients.trusted_proxies = ['127.0.0.0/8']\n", "192.0.2.7, 127.0.0.1"),
        ("clients.trusted_proxies = ['192.0.2.0/24']\n", "127.0.0.1"),
    ] {
        std::fs::write(proxy.rules(), format!("version = 1\n{trusted}{rules}")).unwrap();
        proxy.server.reload().unwrap();
        let answer = proxy.get("/", &[("x-forwarded-for", "192.0.2.7")]).await;
        let said = String::from_utf8_lossy(&answer.body);
        assert!(said.contains(&format!("x-forwarded-for: {told}\n")), "{trusted}{said}");
    }
}

/// A client cannot show a header to the rules only.
#[tokio::test]
async fn a_header_that_connection_lists_keys_nothing() {
    let rules = "rule = [{ name = 'by-key', key = 'header.x-key', limits = '1/h', missing = 'refuse' }]";
    let proxy = start(rules, &[echo().await]).await;
    assert_eq!(proxy.get("/", &[("x-key", "a")]).await.status, 200);
    assert_eq!(proxy.get("/", &[("x-key", "b"), ("connection", "X-Key")]).await.status, 429);
    assert_eq!(proxy.get("/", &[("x-key", "b")]).await.status, 200);
}

#[tokio::test]
async fn http10_is_told_whether_its_connection_stays() {
    let first = "GET / HTTP/1.0\r\nhost: a.test\r\nconnection: keep-alive\r\n\r\n";
    let last = "GET / HTTP/1.0\r\nhost: a.test\r\n\r\n";
    for (answer, told) in [
        (OK, "keep-alive"),
        (&b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"[..], "close"),
    ] {
        let proxy = start(RULES, &[recorder(answer).await.0]).await;
        let said = proxy.raw(format!("{first}{last}").as_bytes()).await.to_ascii_lowercase();
        let answers = if told == "close" { 1 } else { 2 };
        assert_eq!(said.matches("http/1.0 200 ok").count(), answers, "{said}");
        assert_eq!(said.matches(&format!("connection: {told}\r\n")).count(), 1, "{said}");
    }
}

#[tokio::test]
async fn a_request_goes_no_further_than_it_says() {
    let proxy = start(RULES, &[echo().await]).await;
    for (method, most, status, told) in [
        ("OPTIONS", "0", 204, ""),
        ("TRACE", "0", 501, "shows no request"),
        ("OPTIONS", "3", 200, "max-forwards: 2\n"),
        ("OPTIONS", "many", 200, "max-forwards: many\n"),
        // It is about those two methods only.
        ("GET", "0", 200, "max-forwards: 0\n"),
    ] {
        let answer = proxy.call(method, "/", &[("max-forwards", most)], "").await;
        let said = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, status, "{method} {most}: {said}");
        assert!(said.contains(told) && (!told.is_empty() || said.is_empty()), "{method} {most}: {said}");
    }
}

#[tokio::test]
async fn http2_is_taken_to_an_upstream_of_http1() {
    let proxy = start(RULES, &[echo().await]).await;
    let mut sender = proxy.http2::<Empty<Bytes>>().await;
    let request = Request::get("http://a.test:99/x?y").header("te", "trailers").body(Empty::new()).unwrap();
    let answer = whole(sender.send_request(request).await.unwrap()).await;
    let said = String::from_utf8_lossy(&answer.body);
    assert!(said.starts_with("GET /x?y HTTP/1.1\n") && said.contains("host: a.test:99\n"), "{said}");
    assert!(said.contains("te: trailers\n"), "{said}");
}

#[tokio::test]
async fn http2_upstreams_are_asked_for_the_clients_host() {
    let url = echo().await.replace("http://", "h2c://");
    let proxy = start_with(RULES, &[url], |_| {}).await;
    for _ in 0..3 {
        let answer = proxy.get("/x", &[]).await;
        let said = String::from_utf8_lossy(&answer.body);
        assert!(said.starts_with("GET http://a.test/x HTTP/2.0\n"), "{said}");
    }
}

#[tokio::test]
async fn the_length_of_a_body_that_is_not_sent_passes() {
    let (url, record) =
        recorder(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: x-own\r\nx-own: 1\r\n\r\n").await;
    let proxy = start(RULES, &[url]).await;
    let answer = proxy.call("HEAD", "/", &[], "").await;
    assert_eq!((answer.header("content-length"), &answer.body[..]), ("9", &b""[..]));
    assert!(!answer.headers.contains_key("x-own") && !answer.headers.contains_key("connection"));
    assert!(record.lock().unwrap().starts_with(b"HEAD / HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_repeated_length_passes_as_one() {
    let cases: [(&'static [u8], u16, Option<&str>); 6] = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\n", 200, Some("5")),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n", 200, Some("5")),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\n", 502, None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", 502, None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n", 502, None),
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", 204, None),
    ];
    for (said, status, length) in cases {
        let (url, _) = recorder(said).await;
        let proxy = start(RULES, &[url]).await;
        let answer = proxy.call("HEAD", "/", &[], "").await;
        let text = String::from_utf8_lossy(said);
        assert_eq!(answer.status, status, "{text}");
        if status < 500 {
            let lengths: Vec<_> = answer.headers.get_all("content-length").iter().collect();
            assert!(lengths.iter().eq(length.iter()), "{text}: {lengths:?}");
        }
    }
    let (url, _) = recorder(b"HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhello").await;
    let answer = start(RULES, &[url]).await.get("/", &[]).await;
    assert_eq!((answer.header("content-length"), &answer.body[..]), ("5", &b"hello"[..]));
}

/// Paths that servers read differently: each reading is matched, and the upstream gets what came.
#[tokio::test]
async fn what_the_rules_match_is_what_the_upstream_gets() {
    let (url, record) = recorder(OK).await;
    let rules =
        "rule = [{ name = 'private', key = 'everyone', limits = 'block', match.path = '/private/**' }]";
    let proxy = start(rules, &[url]).await;
    for (target, status) in [
        ("/private/a", 429),
        ("/a/../private/a", 429),
        ("//private/a", 429),
        ("/%70rivate/a", 429),
        ("/a/..%2Fprivate/a", 429),
        ("/a;b/../private/a", 429),
        ("/./private/a?x", 429),
        ("/public/%2e%2E/x//y?z=%20", 200),
        ("/public;v=1/..;/x", 200),
    ] {
        record.lock().unwrap().clear();
        assert_eq!(proxy.status(target).await, status, "{target}");
        let seen = String::from_utf8_lossy(&record.lock().unwrap()).into_owned();
        match status {
            200 => assert!(seen.starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{target}: {seen}"),
            _ => assert_eq!(seen, "", "{target}"),
        }
    }
}
