//! What an upstream is told of the client.

use std::fmt::Write;
use std::net::IpAddr;

use http::header::{FORWARDED, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST_ASKED: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The headers in which proxies tell of their client. Those of a client are dropped.
const OF_PROXIES: [HeaderName; 8] = [
    FORWARDED,
    FOR,
    HOST_ASKED,
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-prefix"),
    PROTO,
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-real-ip"),
];

/// Whether proxies tell of their client in this header.
pub(super) fn is_of_proxies(name: &HeaderName) -> bool {
    OF_PROXIES.contains(name)
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The address of the connection.
    pub(super) peer: IpAddr,
    /// Whether the client speaks TLS with us.
    pub(super) is_tls: bool,
}

/// Tells the upstream where a request comes from. What a trusted peer says is kept, with the peer
/// as the last of the addresses; what another peer says is dropped. `client_header` is where the
/// rules read the client's address.
pub(super) fn tell(headers: &mut HeaderMap, origin: Origin, is_trusted: bool, client_header: &str) {
    if !is_trusted {
        for name in &OF_PROXIES {
            headers.remove(name);
        }
        headers.remove(client_header);
    }
    let Origin { peer, is_tls } = origin;
    let host = headers.get(HOST).cloned();
    let proto = if is_tls { "https" } else { "http" };
    append(headers, FOR, &peer.to_string());
    headers.entry(PROTO).or_insert(HeaderValue::from_static(proto));
    let mut element = match peer {
        IpAddr::V4(peer) => format!("for={peer}"),
        IpAddr::V6(peer) => format!("for=\"[{peer}]\""),
    };
    if let Some(host) = host {
        if let Ok(host) = host.to_str() {
            // A host has neither quotes nor backslashes: the head was judged.
            let _ = write!(element, ";host=\"{host}\"");
        }
        headers.entry(HOST_ASKED).or_insert(host);
    }
    element += ";proto=";
    element += proto;
    append(headers, FORWARDED, &element);
}

/// Appends an entry to a list, which may be on several lines.
fn append(headers: &mut HeaderMap, name: HeaderName, entry: &str) {
    let mut list: Vec<u8> = Vec::new();
    for line in headers.get_all(&name) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(entry.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.insert(name, list);
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
        let origin = Origin { peer: peer.parse().unwrap(), is_tls: true };
        tell(&mut map, origin, is_trusted, "cf-connecting-ip");
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
    fn what_a_trusted_proxy_says_is_kept() {
        let headers = told(&SENT, true, "10.0.0.2");
        assert_eq!(headers["x-forwarded-for"], "6.6.6.6, 10.0.0.2");
        assert_eq!(headers["x-forwarded-proto"], "ftp");
        let forwarded = "for=6.6.6.6, for=10.0.0.2;host=\"a.test:8443\";proto=https";
        assert_eq!(headers["forwarded"], forwarded);
        assert!(headers["x-real-ip"] == "6.6.6.6" && headers["cf-connecting-ip"] == "6.6.6.6");
    }
}
