//! Requests of HTTP/2 that mean more than one thing to an upstream of HTTP/1. No client library
//! sends them: the frames are written by hand.
//!
//! The cases are those of James Kettle, HTTP/2: The Sequel is Always Worse (2021), and of RFC 9113,
//! sections 8.2.1 and 8.3 and 8.1.1.

use std::sync::Mutex;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_server::Settings;
use tollgate_testing::frames::{
    DATA, END_HEADERS, END_STREAM, GO_AWAY, HEADERS, RESET, WHOLE, block, frame, opening,
};
use tollgate_testing::upstream::recorder;
use tollgate_testing::wait::{LONG, eventually};

use super::support::{Proxy, start, start_with, unbuffered};

const RULES: &str = "rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The first byte of a head that begins with this status, which the static table has.
const STATUS_200: u8 = 0x88;
const STATUS_400: u8 = 0x8c;

/// What a stream got for its head.
#[derive(Debug, PartialEq)]
enum Got {
    Status(u8),
    /// The stream or the connection is ended with an error.
    Error,
}

async fn read(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some((head[3], payload))
}

/// Sends a request of these fields alone on its connection.
async fn ask(proxy: &Proxy, fields: &[(&str, &str)]) -> Got {
    let mut stream = proxy.connect().await;
    let bytes = [opening(), frame(HEADERS, WHOLE, 1, &block(fields))].concat();
    stream.write_all(&bytes).await.unwrap();
    got(&mut stream).await
}

async fn got(stream: &mut TcpStream) -> Got {
    let got = async {
        loop {
            match read(stream).await {
                Some((HEADERS, payload)) => return Got::Status(payload[0]),
                Some((RESET, _)) | None => return Got::Error,
                Some((GO_AWAY, payload)) if payload[4..8] != [0; 4] => return Got::Error,
                Some(_) => {}
            }
        }
    };
    timeout(LONG, got).await.expect("the head is answered")
}

const USUAL: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", "/")];

/// What the upstream saw before a usual request, which is sent now: a request that comes late comes
/// before it.
async fn seen_before(proxy: &Proxy, record: &Mutex<Vec<u8>>) -> String {
    let seen = || String::from_utf8_lossy(&record.lock().unwrap()).into_owned();
    let has_known = |seen: &str| {
        let known = seen.split_once("GET / HTTP/1.1\r\n");
        known.is_some_and(|(_, rest)| rest.contains("\r\n\r\n"))
    };
    assert_eq!(ask(proxy, &USUAL).await, Got::Status(STATUS_200));
    eventually(|| has_known(&seen())).await;
    let all = seen();
    record.lock().unwrap().clear();
    all.split("GET / HTTP/1.1\r\n").next().unwrap().to_owned()
}

#[tokio::test]
async fn http2_heads_cannot_smuggle() {
    let (url, record) = recorder(OK).await;
    let proxy = start(RULES, &[url]).await;
    assert_eq!(seen_before(&proxy, &record).await, "");
    let refused = async |fields: &[(&str, &str)]| {
        let got = ask(&proxy, fields).await;
        assert!(matches!(got, Got::Error | Got::Status(STATUS_400)), "{got:?} for {fields:?}");
        assert_eq!(seen_before(&proxy, &record).await, "", "{fields:?}");
    };
    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("connection", "x-forwarded-for"),
        ("keep-alive", "1"),
        ("proxy-connection", "keep-alive"),
        ("upgrade", "h2c"),
        ("host", "b.test"),
        ("te", "gzip"),
        ("content-length", "3"),
        ("content_length", "3"),
        ("x-a", "b\r\ntransfer-encoding: chunked"),
        ("x-a", "b\nc: d"),
        ("x-a", "b\0c"),
        ("x-a", " b"),
        ("x-a", "b\t"),
        ("x-a\r\nhost", "b.test"),
        ("x-a: b\r\ntransfer-encoding", "chunked"),
        ("x a", "b"),
        ("x:a", "b"),
        ("X-A", "b"),
        (":path", "/other"),
    ] {
        refused(&[&USUAL[..], &[(name, value)]].concat()).await;
    }
    let with = |at: usize, value: &'static str| {
        let mut fields = USUAL;
        fields[at].1 = value;
        fields
    };
    for path in ["", "*", "private", "http://b.test/", "/ HTTP/1.1\r\nx: y", "/a b"] {
        refused(&with(3, path)).await;
    }
    for authority in ["u@a.test", "a.test\r\nx: y", "a b"] {
        refused(&with(2, authority)).await;
    }
    for method in ["GET / HTTP/1.1\r\nx:", "G T", "CONNECT"] {
        refused(&with(0, method)).await;
    }
    refused(&[USUAL[0], USUAL[1], USUAL[3]]).await;
}

/// Lengths that lie (H2.CL) and codings (H2.TE), with a body: the upstream sees no more of it than
/// the length says.
#[tokio::test]
async fn http2_bodies_cannot_smuggle() {
    const INNER: &str = "GET /smuggled HTTP/1.1\r\nhost: a.test\r\n\r\n";
    const SHORT: &str = "x";
    // After the head the upstream may wait for a body, see none of it, or a part.
    for (field, body, trailers, most) in [
        (("content-length", "0"), INNER, false, Some("")),
        (("content-length", "3"), INNER, false, Some("")),
        (("content-length", "3"), SHORT, false, Some("x")),
        (("content-length", "3"), SHORT, true, Some("x")),
        (("content-length", "x"), INNER, false, None),
        (("content-length", "-1"), INNER, false, None),
        (("transfer-encoding", "chunked"), INNER, false, None),
        (("transfer-encoding", "identity"), INNER, false, None),
    ] {
        for at_once in [true, false] {
            if most.is_none() && !at_once {
                continue;
            }
            let (url, record) = recorder(OK).await;
            // Only then the upstream sees the head before the client lies.
            let set = |settings: &mut Settings| {
                if !at_once {
                    unbuffered(settings)
                }
            };
            let proxy = start_with(RULES, &[url], set).await;
            let what = format!("{field:?} {body:?} {trailers} {at_once}");
            let mut fields = USUAL.to_vec();
            fields[0].1 = "POST";
            fields.push(field);
            let head = [opening(), frame(HEADERS, END_HEADERS, 1, &block(&fields))].concat();
            let mut rest = frame(DATA, if trailers { 0 } else { END_STREAM }, 1, body.as_bytes());
            if trailers {
                rest.extend(frame(HEADERS, WHOLE, 1, &block(&[("x-a", "b")])));
            }
            let mut stream = proxy.connect().await;
            if at_once {
                stream.write_all(&[head, rest].concat()).await.unwrap();
            } else {
                stream.write_all(&head).await.unwrap();
                eventually(|| record.lock().unwrap().ends_with(b"\r\n\r\n")).await;
                stream.write_all(&rest).await.unwrap();
            }
            let got = got(&mut stream).await;
            let is_whole = field.1 == "0" && !at_once;
            let may = if is_whole { Got::Status(STATUS_200) } else { Got::Error };
            assert!(got == may || got == Got::Error || got == Got::Status(STATUS_400), "{what}: {got:?}");
            let seen = seen_before(&proxy, &record).await;
            match (seen.split_once("\r\n\r\n"), most) {
                (None, _) => assert!(seen.is_empty() && (at_once || most.is_none()), "{what}: {seen}"),
                (Some(_), None) => panic!("{what}: {seen}"),
                (Some((head, body)), Some(most)) => {
                    assert!(head.starts_with("POST / HTTP/1.1\r\n"), "{what}: {seen}");
                    assert!(head.contains(&format!("content-length: {}\r\n", field.1)), "{what}: {seen}");
                    assert!(most.starts_with(body), "{what}: {seen}");
                }
            }
        }
    }
}
