//! Heads on their way: what the rules match is what the upstream gets.

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;

use super::support::{echo, eventually, recorder, start, start_with, whole};

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
        std::fs::write(&proxy.rules, format!("version = 1\n{trusted}{rules}")).unwrap();
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

/// Published ways to make a proxy and its upstream disagree on where a request ends: what the
/// client is told, and how many requests the upstream saw.
#[tokio::test]
async fn no_smuggled_request_reaches_the_upstream() {
    const INNER: &str = "GET /smuggled HTTP/1.1\r\nhost: a.test\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nhost: a.test\r\n";
    let length = INNER.len();
    let cases: &[(&str, String, &str, usize)] = &[
        (
            "CL.TE",
            format!(
                "{post}content-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{INNER}",
                length + 5
            ),
            "200",
            1,
        ),
        (
            "TE.CL",
            format!(
                "{post}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{length:x}\r\n{INNER}\r\n0\r\n\r\n"
            ),
            "200",
            1,
        ),
        (
            "two lengths",
            format!("{post}content-length: 0\r\ncontent-length: {length}\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        ("a list of lengths", format!("{post}content-length: 0, {length}\r\n\r\n{INNER}"), "400", 0),
        ("a signed length", format!("{post}content-length: +{length}\r\n\r\n{INNER}"), "400", 0),
        ("an unknown coding", format!("{post}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{INNER}"), "400", 0),
        (
            "an underscore in the coding",
            format!(
                "{post}content-length: {}\r\ntransfer_encoding: chunked\r\n\r\n0\r\n\r\n{INNER}",
                length + 5
            ),
            "400",
            0,
        ),
        (
            "a quoted coding",
            format!("{post}transfer-encoding: \"chunked\"\r\n\r\n0\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        (
            "chunked is not last",
            format!("{post}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        (
            "a coding before chunked",
            format!("{post}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        (
            "two codings",
            format!("{post}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        (
            "a space before the colon",
            format!("{post}transfer-encoding : chunked\r\n\r\n0\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        ("a folded line", format!("{post}x-a: b\r\n transfer-encoding: chunked\r\n\r\n{INNER}"), "400", 0),
        ("a tab in the name", format!("{post}transfer\tencoding: chunked\r\n\r\n{INNER}"), "400", 0),
        (
            "a bare CR in a value",
            format!("{post}x-a: b\rtransfer-encoding: chunked\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        ("a zero byte in a value", format!("{post}x-a: b\0c\r\n\r\n{INNER}"), "400", 0),
        (
            "a size that is none",
            format!("{post}transfer-encoding: chunked\r\n\r\n0x0\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        (
            "a size beyond 64 bits",
            format!("{post}transfer-encoding: chunked\r\n\r\n10000000000000000\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        (
            "a line end in an extension",
            format!("{post}transfer-encoding: chunked\r\n\r\n0;a=\nb\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        (
            "a chunk without its end",
            format!("{post}transfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n{INNER}"),
            "400",
            1,
        ),
        (
            "HTTP/1.0 with chunks",
            format!("POST / HTTP/1.0\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        ("two hosts", format!("GET / HTTP/1.1\r\nhost: a.test\r\nhost: b.test\r\n\r\n{INNER}"), "400", 0),
        ("no host", format!("GET / HTTP/1.1\r\n\r\n{INNER}"), "400", 0),
        (
            "another host in the target",
            format!("GET http://b.test/ HTTP/1.1\r\nhost: a.test\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        ("a user in the host", format!("GET / HTTP/1.1\r\nhost: a@b.test\r\n\r\n{INNER}"), "400", 0),
        ("a tunnel", format!("CONNECT b.test:80 HTTP/1.1\r\nhost: b.test:80\r\n\r\n{INNER}"), "400", 0),
        (
            "a space in the target",
            format!("GET /a HTTP/1.1 b HTTP/1.1\r\nhost: a.test\r\n\r\n{INNER}"),
            "400",
            0,
        ),
        (
            "a preface of HTTP/2 by upgrade",
            format!(
                "GET / HTTP/1.1\r\nhost: a.test\r\nconnection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n{INNER}"
            ),
            "200",
            1,
        ),
    ];
    for (name, bytes, status, requests) in cases {
        let (url, record) = recorder(OK).await;
        let proxy = start(RULES, &[url]).await;
        let answer = proxy.raw(bytes.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer}");
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{name}: one answer: {answer}");
        // A chunk may contain the text of a head: it is framed then.
        let framed = if *name == "TE.CL" { 1 } else { 0 };
        let seen = || String::from_utf8_lossy(&record.lock().unwrap()).into_owned();
        let heads = || seen().lines().filter(|line| line.ends_with(" HTTP/1.1")).count();
        // The client may have its answer before the upstream has read the head.
        eventually(|| heads() >= requests + framed).await;
        let (heads, seen) = (heads(), seen());
        assert_eq!(heads, requests + framed, "{name}: {seen}");
        for hidden in ["upgrade", "http2-settings"] {
            assert!(!seen.to_lowercase().contains(hidden), "{name}: {seen}");
        }
        // The first chunk may be on its way when the next one is seen to be none.
        assert!(status == &"200" || !seen.ends_with("0\r\n\r\n"), "{name}: no body is whole: {seen}");
        let has_both = seen.contains("content-length:") && seen.contains("transfer-encoding:");
        assert!(!has_both, "{name}: {seen}");
    }
}

#[tokio::test]
async fn a_chunk_extension_is_not_passed_on() {
    let (url, record) = recorder(OK).await;
    let proxy = start(RULES, &[url]).await;
    let request = "POST / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
        3;name=value\r\nabc\r\n0;x\r\n\r\n";
    assert!(proxy.raw(request.as_bytes()).await.starts_with("HTTP/1.1 200 "));
    let seen = String::from_utf8_lossy(&record.lock().unwrap()).into_owned();
    assert!(seen.contains("3\r\nabc\r\n0\r\n\r\n") && !seen.contains("name=value"), "{seen}");
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
