//! A request as it is stored: a line of JSON for the head, and the body.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use serde::{Deserialize, Serialize};

/// A request that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub(crate) method: String,
    /// The path and the query.
    pub(crate) target: String,
    headers: Vec<(String, Value)>,
    /// The address of the client's connection.
    pub(crate) peer: IpAddr,
    /// Whether the client spoke TLS.
    pub(crate) is_tls: bool,
    #[serde(skip)]
    pub(crate) body: Bytes,
}

/// The value of a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Value(#[serde(with = "latin")] Vec<u8>);

/// Any bytes as text: each byte is the character of its number.
pub(super) mod latin {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&bytes.iter().map(|byte| char::from(*byte)).collect::<String>())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Result<_, _> = text.chars().map(u8::try_from).collect();
        bytes.map_err(serde::de::Error::custom)
    }
}

impl Kept {
    /// A request without its body.
    pub(crate) fn new(
        (method, target): (&str, &str),
        headers: &HeaderMap,
        is_kept: impl Fn(&HeaderName) -> bool,
        (peer, is_tls): (IpAddr, bool),
    ) -> Self {
        let headers = headers.iter().filter(|(name, _)| is_kept(name));
        let headers = headers.map(|(name, value)| (name.to_string(), Value(value.as_bytes().into())));
        let (method, target) = (method.into(), target.into());
        Self { method, target, headers: headers.collect(), peer, is_tls, body: Bytes::new() }
    }

    /// The request to send.
    pub(crate) fn request(self) -> Result<Request<Bytes>, http::Error> {
        let mut request = Request::builder().method(&*self.method).uri(self.target);
        for (name, Value(value)) in self.headers {
            request = request.header(name, HeaderValue::from_bytes(&value)?);
        }
        request.body(self.body)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Its types have no maps with keys that are no text, which alone could fail.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// `None`: the bytes are no request.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // JSON has no bare line break.
        let head = bytes.iter().position(|byte| *byte == b'\n')?;
        let kept: Self = serde_json::from_slice(&bytes[..head]).ok()?;
        Some(Self { body: Bytes::copy_from_slice(&bytes[head + 1..]), ..kept })
    }
}
