//! Heads without their connections, for fuzz targets.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::EXPECT;
use http::{HeaderValue, Request, Response};

use super::address::address;
use super::forwarded::{Origin, distrust, is_of_proxies};
use super::head::{depart, judge};
use super::plain;
use crate::Upstream;

/// A head on its way from a client to an upstream.
#[derive(Debug)]
pub struct HeadProbe {
    /// As the rules see it.
    pub seen: Request<()>,
    /// As it is handed to hyper for the upstream.
    pub sent: Request<()>,
    /// The protocol to which the client asks to switch.
    pub upgrade: Option<HeaderValue>,
}

impl HeadProbe {
    /// Passes a head on to an upstream. `length` is the body's, if it is known; `client_header` is
    /// where the rules read the client's address.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    ///
    /// # Panics
    ///
    /// If the URL names no upstream.
    pub fn pass(
        request: Request<()>,
        length: Option<u64>,
        (client, is_trusted): (IpAddr, bool),
        client_header: &str,
        upstream: &str,
    ) -> Result<Self, &'static str> {
        let own_host = HeaderValue::from_static("own.test");
        let (mut head, ()) = request.into_parts();
        let upgrade = judge(&mut head, length, &own_host, client_header, false)?.upgrade;
        if !is_trusted {
            distrust(&mut head.headers, client_header);
        }
        head.headers.remove(EXPECT);
        let seen = Request::from_parts(head.clone(), ());
        let mut sent = Request::from_parts(head, ());
        depart(&mut sent, &Origin::new(client, false));
        let upstream: Upstream = upstream.parse().expect("it is a URL");
        address(&mut sent, length, &upstream);
        Ok(Self { seen, sent, upgrade })
    }

    /// Whether proxies tell of their client in this header.
    #[must_use]
    pub fn tells_of_clients(name: &http::HeaderName, client_header: &str) -> bool {
        is_of_proxies(name, client_header)
    }
}

/// Reads answers without hyper.
#[derive(Debug)]
pub struct PlainAnswerProbe;

impl PlainAnswerProbe {
    /// The answer that begins these bytes, with what has come of its body, and whether that is all;
    /// `None`: it is not plain.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<(Response<Bytes>, bool)> {
        let answer = plain::read(&Bytes::copy_from_slice(bytes))?;
        let is_whole = answer.body().has_come();
        Some((answer.map(plain::Rest::into_read), is_whole))
    }
}
