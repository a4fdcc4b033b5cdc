//! What an upstream is told of the client.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::{Entry, FORWARDED, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST_ASKED: HeaderName = HeaderName::from_static("x-forwarded-host");
/// By RFC 8586. Not `Via`: nginx does not compress the answer to a request that has one.
const LOOP: HeaderName = HeaderName::from_static("cdn-loop");
const OWN_NAME: &str = "tollgate";
const OWN_ENTRY: HeaderValue = HeaderValue::from_static(OWN_NAME);
/// How often a request may pass proxies of this name.
const MOST_PASSES: usize = 8;

/// The headers of which `tell` makes sure.
const TELLS: usize = 5;

/// Whether proxies tell of their client in this header, or in `client_header`, where the rules read
/// the client's address. Many upstreams take `_` for `-`, as CGI does, and some any character.
pub(super) fn is_of_proxies(name: &HeaderName, client_header: &str) -> bool {
    let is = |other| reads_as(name, other);
    begins(name.as_str(), "x-forwarded-") || is("forwarded") || is("x-real-ip") || is(client_header)
}

/// Whether a header is this one for a server that takes other characters for `-`.
pub(super) fn reads_as(name: &HeaderName, other: &str) -> bool {
    name.as_str().len() == other.len() && begins(name.as_str(), other)
}

fn begins(name: &str, with: &str) -> bool {
    let read = |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    name.len() >= with.len() && name.bytes().zip(with.bytes()).all(|(own, other)| read(own) == read(other))
}

/// Drops what a client says of where its request comes from.
pub(super) fn distrust(headers: &mut HeaderMap, client_header: &str) {
    let told: Vec<HeaderName> =
        headers.keys().filter(|name| is_of_proxies(name, client_header)).cloned().collect();
    for name in &told {
        headers.remove(name);
    }
}

/// Whether a request has passed proxies of this name so often that it goes round in a loop.
pub(super) fn loops(headers: &HeaderMap) -> bool {
    let entries =
        headers.get_all(LOOP).into_iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let names = entries.filter_map(|entry| entry.split(|byte| *byte == b';').next());
    names.filter(|name| name.trim_ascii().eq_ignore_ascii_case(OWN_NAME.as_bytes())).count() >= MOST_PASSES
}

/// Where the requests of a connection come from.
#[derive(Debug)]
pub(super) struct Origin {
    /// The address of the connection.
    pub(super) peer: IpAddr,
    /// Whether the client speaks TLS with us.
    pub(super) is_tls: bool,
    /// The address as text.
    text: HeaderValue,
    /// The host of the last request, and the element of `Forwarded` for it.
    last: Mutex<Option<(Option<HeaderValue>, HeaderValue)>>,
}

impl Origin {
    pub(super) fn new(peer: IpAddr, is_tls: bool) -> Self {
        let text = HeaderValue::from_maybe_shared(Bytes::from(peer.to_string()));
        let text = text.expect("an address has digits, letters, dots and colons");
        Self { peer, is_tls, text, last: Mutex::default() }
    }

    fn proto(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// The element of `Forwarded` for a request to this host: written anew only if the host is
    /// another one than that of the connection's last request.
    fn element(&self, host: Option<&HeaderValue>) -> Option<HeaderValue> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, element)) = &*last
            && of.as_ref() == host
        {
            return Some(element.clone());
        }
        let (opens, closes) = if self.peer.is_ipv4() { ("for=", "") } else { ("for=\"[", "]\"") };
        // A host has neither quotes nor backslashes: the head was judged.
        let (before, after) = if host.is_some() { (";host=\"", "\"") } else { ("", "") };
        let parts = [opens.as_bytes(), self.text.as_bytes(), closes.as_bytes(), before.as_bytes()];
        let named = host.map(HeaderValue::as_bytes).unwrap_or_default();
        let rest = [named, after.as_bytes(), b";proto=", self.proto().as_bytes()];
        let element = Bytes::from([parts, rest].as_flattened().concat());
        let element = HeaderValue::from_maybe_shared(element).ok()?;
        // A copy: the value itself would keep the buffer into which the head was read.
        let own = host.map(|host| HeaderValue::from_bytes(host.as_bytes())).transpose().ok()?;
        *last = Some((own, element.clone()));
        Some(element)
    }
}

/// Tells the upstream where a request comes from. The peer is the last of the addresses, after
/// those of which a trusted peer tells.
pub(super) fn tell(headers: &mut HeaderMap, origin: &Origin) {
    headers.reserve(TELLS);
    append(headers, LOOP, OWN_ENTRY);
    append(headers, FOR, origin.text.clone());
    let host = headers.get(HOST).cloned();
    if let Some(element) = origin.element(host.as_ref()) {
        append(headers, FORWARDED, element);
    }
    headers.entry(PROTO).or_insert(HeaderValue::from_static(origin.proto()));
    if let Some(host) = host {
        headers.entry(HOST_ASKED).or_insert(host);
    }
}

/// Appends an entry to a list, which may be on several lines.
fn append(headers: &mut HeaderMap, name: HeaderName, entry: HeaderValue) {
    match headers.entry(name) {
        Entry::Vacant(vacant) => {
            vacant.insert(entry);
        }
        Entry::Occupied(mut lines) => {
            let entries = lines.iter().chain([&entry]).map(HeaderValue::as_bytes);
            let list = entries.collect::<Vec<_>>().join(&b", "[..]);
            if let Ok(list) = HeaderValue::from_maybe_shared(Bytes::from(list)) {
                lines.insert(list);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(headers: &[(&'static str, &str)], is_trusted: bool, peer: &str) -> HeaderMap {
        let pair = |&(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let mut map = HeaderMap::from_iter(headers.iter().map(pair));
        let origin = Origin::new(peer.parse().unwrap(), true);
        if !is_trusted {
            distrust(&mut map, "cf-connecting-ip");
        }
        tell(&mut map, &origin);
        map
    }

    const SENT: [(&str, &str); 6] = [
        ("host", "a.test:8443"),
        ("x-forwarded-for", "6.6.6.6"),
        ("forwarded", "for=6.6.6.6"),
        ("x-forwarded-proto", "ftp"),
        ("x-real-ip", "6.6.6.6"),
        ("cf-connecting-ip", "6.6.6.6"),
    ];

    #[test]
    fn what_a_client_says_of_itself_is_dropped() {
        let headers = told(&SENT, false, "2001:db8::1");
        assert_eq!(headers["x-forwarded-for"], "2001:db8::1");
        assert_eq!(headers["x-forwarded-proto"], "https");
        assert_eq!(headers["x-forwarded-host"], "a.test:8443");
        assert_eq!(headers["forwarded"], "for=\"[2001:db8::1]\";host=\"a.test:8443\";proto=https");
        assert!(!headers.contains_key("x-real-ip") && !headers.contains_key("cf-connecting-ip"));
    }

    #[test]
    fn each_request_of_a_connection_names_its_own_host() {
        let origin = Origin::new([10, 0, 0, 1].into(), false);
        for (host, element) in [
            (Some("a.test"), "for=10.0.0.1;host=\"a.test\";proto=http"),
            (Some("a.test"), "for=10.0.0.1;host=\"a.test\";proto=http"),
            (Some("b.test"), "for=10.0.0.1;host=\"b.test\";proto=http"),
            (None, "for=10.0.0.1;proto=http"),
            (Some("a.test"), "for=10.0.0.1;host=\"a.test\";proto=http"),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(host.map(|host| (HOST, HeaderValue::from_static(host))));
            tell(&mut headers, &origin);
            assert_eq!(headers["forwarded"], element);
        }
    }

    #[test]
    fn each_pass_is_noted_and_bounded() {
        let mut headers = told(&[("cdn-loop", "other; v=\"1\", Tollgate;a=b")], false, "10.0.0.2");
        assert_eq!(headers["cdn-loop"], "other; v=\"1\", Tollgate;a=b, tollgate");
        for _ in 2..MOST_PASSES {
            assert!(!loops(&headers), "{headers:?}");
            tell(&mut headers, &Origin::new([10, 0, 0, 2].into(), false));
        }
        assert!(loops(&headers), "{headers:?}");
    }

    #[test]
    fn what_a_trusted_proxy_says_is_kept() {
        let headers = told(&SENT, true, "10.0.0.2");
        assert_eq!(headers["x-forwarded-for"], "6.6.6.6, 10.0.0.2");
        assert_eq!(headers["x-forwarded-proto"], "ftp");
        let forwarded = "for=6.6.6.6, for=10.0.0.2;host=\"a.test:8443\";proto=https";
        assert_eq!(headers["forwarded"], forwarded);
        assert!(headers["x-real-ip"] == "6.6.6.6" && headers["cf-connecting-ip"] == "6.6.6.6");
    }
}
