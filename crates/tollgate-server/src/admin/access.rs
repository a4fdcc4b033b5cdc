//! Who may administer.
//!
//! With a token, its holders. Without one, this machine only: a connection over a Unix socket,
//! whose permissions decide, or from loopback. A browser on this machine has that as well, and any
//! web page may have it send requests, so that what comes from loopback
//!
//! * must name a loopback host: a page whose own name was rebound to 127.0.0.1 names its own (DNS
//!   rebinding);
//! * must have the header `x-tollgate: 1` if it changes something: a page of another origin cannot
//!   send that, as no answer permits it (CSRF);
//! * must show nothing of a proxy, which makes every client local. A proxy may be set to show
//!   nothing: behind one, only a token tells clients apart.

use std::fmt;
use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, Method, Request, StatusCode, Version};
use subtle::ConstantTimeEq;
use tollgate_net::listen::Peer;

/// Who administers, as logs say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// It has the token.
    Token(Peer),
    /// It is on this machine.
    Local(Peer),
}

/// Why a request may not administer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    WrongToken,
    NotLocal,
    /// It shows this, which a proxy adds and a client of this machine does not.
    Proxied(&'static str),
    ForeignHost,
    NoHeader,
}

/// Who sends a request, if it may administer. `token` is what it must know, if there is one.
pub(super) fn admit<B>(request: &Request<B>, peer: Peer, token: Option<&[u8]>) -> Result<Who, Denied> {
    if let Some(token) = token {
        let sent = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
        let sent = sent.and_then(bearer).unwrap_or_default();
        return if bool::from(sent.ct_eq(token)) { Ok(Who::Token(peer)) } else { Err(Denied::WrongToken) };
    }
    let address = match peer {
        Peer::Unix => return Ok(Who::Local(peer)),
        Peer::Tcp(address) => address,
    };
    if !address.ip().to_canonical().is_loopback() {
        return Err(Denied::NotLocal);
    }
    if let Some(sign) = sign_of_proxy(request) {
        return Err(Denied::Proxied(sign));
    }
    if !names_loopback(request) {
        return Err(Denied::ForeignHost);
    }
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_reading && !has_header(request.headers()) {
        return Err(Denied::NoHeader);
    }
    Ok(Who::Local(peer))
}

/// What proxies add where nothing else is configured, and CDNs: the names of headers, and how such
/// names begin.
const OF_PROXIES: [&str; 9] = [
    "via",
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cdn-loop",
    "x-forwarded-",
    "x-envoy-",
    "cf-",
];

/// What a request shows of a proxy. nginx before 1.29.7 asks by HTTP/1.0 where nothing else is
/// configured, and names the host that it asks; no client of today does the former.
fn sign_of_proxy<B>(request: &Request<B>) -> Option<&'static str> {
    if request.version() < Version::HTTP_11 {
        return Some("HTTP/1.0");
    }
    if request.headers().get_all(HOST).iter().nth(1).is_some() {
        return Some("two hosts");
    }
    let is_added = |sign: &&str| {
        let matches = |name: &str| name == *sign || sign.ends_with('-') && name.starts_with(*sign);
        request.headers().keys().any(|name| matches(name.as_str()))
    };
    OF_PROXIES.into_iter().find(is_added)
}

/// The credentials of the scheme `Bearer`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, credentials) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| credentials.trim_ascii())
}

fn has_header(headers: &HeaderMap) -> bool {
    headers.get("x-tollgate").is_some_and(|value| value.as_bytes() == b"1")
}

/// Whether every host that the request names is this machine's own.
fn names_loopback<B>(request: &Request<B>) -> bool {
    let in_target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let in_headers = request.headers().get_all(HOST).iter().map(|value| value.as_bytes());
    let mut named = in_target.into_iter().chain(in_headers).peekable();
    named.peek().is_some() && named.all(is_loopback)
}

/// Whether a host, maybe with a port, is `localhost` or an address of loopback.
fn is_loopback(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if port.is_empty() || is_port(port.strip_prefix(':')) => address,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if is_port(Some(port)) => name,
            None => host,
            Some(_) => return false,
        },
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_port(port: Option<&str>) -> bool {
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

impl Denied {
    pub(super) fn status(self) -> StatusCode {
        if self == Self::WrongToken { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN }
    }

    pub(super) fn detail(self) -> String {
        let detail = match self {
            Self::WrongToken => "this needs the administrator's token: authorization: Bearer …",
            Self::NotLocal => "without a token this is served to this machine only",
            Self::Proxied(sign) => {
                return format!(
                    "without a token this is not served through a proxy, and the request shows one: \
                     {sign}; set --admin-token-file, or listen on a Unix socket: --admin unix:/path"
                );
            }
            Self::ForeignHost => "without a token the host must be localhost or an address of loopback",
            Self::NoHeader => "without a token a change needs the header x-tollgate: 1",
        };
        detail.into()
    }
}

impl Who {
    /// The address of the client.
    pub(super) fn address(self) -> IpAddr {
        let (Self::Token(peer) | Self::Local(peer)) = self;
        peer.address()
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (how, peer) = match self {
            Self::Token(peer) => ("token", peer),
            Self::Local(peer) => ("local", peer),
        };
        match peer {
            Peer::Tcp(address) => write!(f, "{how} {address}"),
            Peer::Unix => write!(f, "{how} unix socket"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "127.0.0.1:5000";

    fn ask(peer: &str, token: Option<&str>, method: &str, headers: &[(&str, &str)]) -> Result<Who, Denied> {
        let mut request = Request::builder().method(method).uri("/admin/reload");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let peer = if peer == "unix" { Peer::Unix } else { Peer::Tcp(peer.parse().unwrap()) };
        admit(&request.body(()).unwrap(), peer, token.map(str::as_bytes))
    }

    #[test]
    fn a_wrong_token_is_refused_from_everywhere() {
        for peer in [LOCAL, "192.0.2.1:1", "unix"] {
            for wrong in ["", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret4", "Basic s3cret"] {
                let headers = [("authorization", wrong), ("host", "localhost"), ("x-tollgate", "1")];
                assert_eq!(ask(peer, Some("s3cret"), "POST", &headers), Err(Denied::WrongToken), "{wrong}");
            }
            assert_eq!(ask(peer, Some("s3cret"), "GET", &[]), Err(Denied::WrongToken));
            let right = [("authorization", "bearer s3cret")];
            assert!(matches!(ask(peer, Some("s3cret"), "POST", &right), Ok(Who::Token(_))));
        }
    }

    #[test]
    fn a_web_page_cannot_change_anything() {
        let host = ("host", "127.0.0.1:9080");
        for method in ["POST", "PUT", "DELETE"] {
            for headers in [&[host][..], &[host, ("x-tollgate", "0")], &[host, ("x-tollgate", "1, 1")]] {
                assert_eq!(ask(LOCAL, None, method, headers), Err(Denied::NoHeader));
            }
        }
        assert!(ask(LOCAL, None, "POST", &[host, ("x-tollgate", "1")]).is_ok());
        assert!(ask(LOCAL, None, "GET", &[host]).is_ok());
    }

    #[test]
    fn a_rebound_name_is_not_this_machine() {
        for host in [
            "evil.example",
            "evil.example:9080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "[::2]",
            "[::1]x",
            "::1",
            "127.0.0.1:9080@evil",
            "localhost:",
            "128.0.0.1",
            "0.0.0.0",
        ] {
            for method in ["GET", "POST"] {
                let headers = [("host", host), ("x-tollgate", "1")];
                assert_eq!(ask(LOCAL, None, method, &headers), Err(Denied::ForeignHost), "{host}");
            }
        }
        for host in ["localhost", "LOCALHOST:9080", "127.0.0.1", "127.8.9.1:1", "[::1]", "[::1]:9080"] {
            assert!(ask(LOCAL, None, "GET", &[("host", host)]).is_ok(), "{host}");
        }
        assert_eq!(ask(LOCAL, None, "GET", &[]), Err(Denied::ForeignHost));
    }

    #[test]
    fn other_machines_need_a_token() {
        let headers = [("host", "localhost"), ("x-tollgate", "1")];
        for peer in ["192.0.2.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"] {
            assert_eq!(ask(peer, None, "GET", &headers), Err(Denied::NotLocal), "{peer}");
        }
        for peer in [LOCAL, "[::1]:1", "[::ffff:127.0.0.1]:1", "unix"] {
            assert!(ask(peer, None, "POST", &headers).is_ok(), "{peer}");
        }
        assert!(ask("unix", None, "POST", &[]).is_ok());
    }

    /// What nginx, Apache, Caddy, Traefik, Envoy, HAProxy's `forwardfor`, Squid, Varnish and
    /// Cloudflare add where nothing else is configured.
    #[test]
    fn what_shows_a_proxy_is_not_this_machine() {
        let added = [
            ("via", "1.1 Caddy"),
            ("forwarded", "for=192.0.2.1"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-host", "gate.example"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-server", "gate.example"),
            ("x-real-ip", "192.0.2.1"),
            ("x-envoy-expected-rq-timeout-ms", "15000"),
            ("x-client-ip", "192.0.2.1"),
            ("true-client-ip", "192.0.2.1"),
            ("cf-connecting-ip", "192.0.2.1"),
            ("cdn-loop", "cloudflare"),
            ("host", "localhost"),
        ];
        for (name, value) in added {
            for method in ["GET", "POST"] {
                let headers = [("host", "localhost"), ("x-tollgate", "1"), (name, value)];
                let denied = ask(LOCAL, None, method, &headers);
                assert!(matches!(denied, Err(Denied::Proxied(_))), "{name}: {denied:?}");
                assert!(ask("unix", None, method, &headers).is_ok(), "{name}");
            }
        }
        let mut request = Request::get("/admin/rules").header("host", "127.0.0.1:9080").body(()).unwrap();
        let peer = Peer::Tcp(LOCAL.parse().unwrap());
        assert!(admit(&request, peer, None).is_ok());
        *request.version_mut() = Version::HTTP_10;
        let denied = admit(&request, peer, None).unwrap_err();
        assert_eq!(denied, Denied::Proxied("HTTP/1.0"));
        let detail = denied.detail();
        assert!(["HTTP/1.0", "--admin-token-file", "unix:"].iter().all(|part| detail.contains(part)));
    }
}
