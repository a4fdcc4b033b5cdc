//! Heads of HTTP/2 that mean more than one thing to an upstream of HTTP/1. No client library sends
//! them: the frames are written here (RFC 9113; RFC 7541, section 6.2.2).

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::{LONG, Proxy, recorder, start};

const RULES: &str = "rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The types of frames.
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;

/// `END_STREAM` and `END_HEADERS`.
const WHOLE: u8 = 5;

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

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields as literals that no table knows.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap());
            block.extend(text.as_bytes());
        }
    }
    block
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
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes.extend(frame(HEADERS, WHOLE, 1, &block(fields)));
    stream.write_all(&bytes).await.unwrap();
    let got = async {
        loop {
            match read(&mut stream).await {
                Some((HEADERS, payload)) => return Got::Status(payload[0]),
                Some((RESET, _)) | None => return Got::Error,
                Some((GO_AWAY, payload)) if payload[4..8] != [0; 4] => return Got::Error,
                Some(_) => {}
            }
        }
    };
    timeout(LONG, got).await.expect("the head is answered")
}

#[tokio::test]
async fn http2_heads_cannot_smuggle() {
    let (url, record) = recorder(OK).await;
    let proxy = start(RULES, &[url]).await;
    let [method, scheme] = [(":method", "GET"), (":scheme", "http")];
    let [authority, path] = [(":authority", "a.test"), (":path", "/")];
    let usual = [method, scheme, authority, path];
    assert_eq!(ask(&proxy, &usual).await, Got::Status(STATUS_200));
    assert!(std::mem::take(&mut *record.lock().unwrap()).starts_with(b"GET / HTTP/1.1\r\n"));

    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("connection", "x-forwarded-for"),
        ("keep-alive", "1"),
        ("proxy-connection", "keep-alive"),
        ("upgrade", "h2c"),
        ("host", "b.test"),
        ("te", "gzip"),
        ("content-length", "3"),
        ("x-a", "b\r\ntransfer-encoding: chunked"),
        ("x-a", "b\nc: d"),
        ("x-a", "b\0c"),
        ("x-a", " b"),
        ("x-a", "b\t"),
        ("x-a\r\nhost", "b.test"),
        ("x a", "b"),
        ("x:a", "b"),
        ("X-A", "b"),
        (":path", "/other"),
    ] {
        let mut fields = usual.to_vec();
        fields.push((name, value));
        refused(&proxy, &fields).await;
    }
    for path in ["", "*", "private", "http://b.test/", "/ HTTP/1.1\r\nx: y", "/a b"] {
        refused(&proxy, &[method, scheme, authority, (":path", path)]).await;
    }
    for authority in ["u@a.test", "a.test\r\nx: y", "a b"] {
        refused(&proxy, &[method, scheme, (":authority", authority), path]).await;
    }
    for method in ["GET / HTTP/1.1\r\nx:", "G T", "CONNECT"] {
        refused(&proxy, &[(":method", method), scheme, authority, path]).await;
    }
    refused(&proxy, &[method, scheme, path]).await;
    assert_eq!(String::from_utf8_lossy(&record.lock().unwrap()), "");
}

async fn refused(proxy: &Proxy, fields: &[(&str, &str)]) {
    let got = ask(proxy, fields).await;
    assert!(matches!(got, Got::Error | Got::Status(STATUS_400)), "{got:?} for {fields:?}");
}
