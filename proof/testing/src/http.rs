//! Answers of HTTP/1, and a client that blocks.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

/// An answer with its whole body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// The answer of these bytes: a head, and a body as it came.
    pub fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
        let (status, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let field = |line: &str| -> (HeaderName, HeaderValue) {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("no header: {line:?}"));
            (name.parse().expect("a name"), value.parse().expect("a value"))
        };
        Self {
            status: status.unwrap_or_else(|| panic!("no status: {head:?}")),
            headers: fields.lines().map(field).collect(),
            body: Bytes::copy_from_slice(&bytes[end + 4..]),
        }
    }

    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("it is text"))
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("it is text")
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }
}

/// A request with these headers behind its length.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    head + "\r\n" + body
}

/// Asks by a connection of its own.
pub fn ask(
    address: impl ToSocketAddrs,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let headers = [&[("connection", "close")], headers].concat();
    Answer::read(&talk(address, request(method, path, &headers, body).as_bytes()))
}

/// Sends bytes by a connection of its own. Returns what comes until it ends.
pub fn talk(address: impl ToSocketAddrs, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(said).expect("it is sent");
    let mut answer = Vec::new();
    // A server that refuses a body may close before it has read it.
    let _ = stream.read_to_end(&mut answer);
    answer
}
