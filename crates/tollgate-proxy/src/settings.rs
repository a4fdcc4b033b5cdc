//! How requests go to an upstream.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, Uri};

/// How requests of the `proxy` listeners go to an upstream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProxySettings {
    /// The servers behind. A request goes to the one that serves the fewest.
    pub upstreams: Vec<Upstream>,
    /// The authorities of upstreams over TLS, as PEM; `None`: those that this machine trusts.
    pub upstream_ca: Option<PathBuf>,
    /// How long a connection to an upstream, with its TLS handshake, may take; and how long a
    /// request waits for a stream of HTTP/2.
    pub connect_timeout: Duration,
    /// How long a connection to an upstream is kept that serves no request, but for the first one
    /// of HTTP/2. Upstreams should keep theirs for longer: what they close first may cost a
    /// request.
    pub keep_timeout: Duration,
    /// The most connections of each thread to an upstream of HTTP/2.
    pub upstream_connections: NonZeroUsize,
    /// How long an upstream may take for the head of its response, from the last byte of the
    /// request on.
    pub head_timeout: Duration,
    /// How long a body may stand still, in either direction: of a request in all, see `least_rate`.
    pub idle_timeout: Duration,
    /// How long a connection that has switched to another protocol may carry nothing.
    pub tunnel_timeout: Duration,
    /// How long a request may take with its response; `None`: as long as both move.
    pub total_timeout: Option<Duration>,
    /// The path that is asked of each upstream to see whether it is well; `None`: only failed
    /// connections tell.
    pub health_path: Option<PathAndQuery>,
    /// The time between two of these requests.
    pub health_interval: Duration,
    /// The header of a response that says what its request cost, for rules whose cost is an
    /// attribute.
    pub cost_header: Option<HeaderName>,
    /// Whether headers with `_` in their names go on. Many upstreams read it as `-`, and see in
    /// `X_Api_Key` another header than others do.
    pub keeps_underscores: bool,
    /// How many bytes of a request's body are read before an upstream is taken, so that no
    /// upstream waits for a client that sends slowly. A longer body goes on as it comes from then
    /// on, and a stream of gRPC or Connect from the start. While a request waits in a queue, as
    /// many are held. 0: none. A body goes on as it comes, too, if its connection holds as much of
    /// unfinished requests as it may.
    pub buffer_requests: usize,
    /// How many bytes a second a request's body comes with at least: each gives its client back
    /// some of `idle_timeout`, which it has in all. 0: each byte gives back all of it.
    pub least_rate: u64,
    /// The most bytes of a request's body; `None`: any number, as a body is streamed.
    pub max_body: Option<u64>,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            upstream_ca: None,
            connect_timeout: Duration::from_secs(5),
            // Servers usually keep one for 5 s or longer.
            keep_timeout: Duration::from_secs(4),
            upstream_connections: const { NonZeroUsize::new(16).unwrap() },
            head_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            tunnel_timeout: Duration::from_secs(600),
            total_timeout: Some(Duration::from_secs(3600)),
            health_path: None,
            health_interval: Duration::from_secs(5),
            cost_header: None,
            keeps_underscores: false,
            buffer_requests: 64 << 10,
            least_rate: 500,
            max_body: None,
        }
    }
}

/// A server behind the proxy: `http://`, `https://` (HTTP/1.1), `h2c://` or `h2://` (HTTP/2 without
/// and with TLS), a host, and a port. It has no path: what the rules match is what it gets.
///
/// # Examples
///
/// ```
/// use tollgate_proxy::Upstream;
///
/// let upstream: Upstream = "http://127.0.0.1:8000".parse()?;
/// assert_eq!(upstream.to_string(), "http://127.0.0.1:8000");
/// assert!("http://127.0.0.1:8000/api".parse::<Upstream>().is_err());
/// # Ok::<(), tollgate_proxy::BadUpstream>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    pub(crate) authority: Authority,
    pub(crate) is_tls: bool,
    pub(crate) is_http2: bool,
}

/// Text that names no upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUpstream {
    text: String,
    /// What stands where its port should.
    port: Option<String>,
}

impl Upstream {
    /// The port, by the scheme if none is named.
    pub(crate) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.is_tls { 443 } else { 80 })
    }

    /// The host without brackets.
    pub(crate) fn host(&self) -> &str {
        let host = self.authority.host();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// Whether a connection to it plainly comes to a listener at this address. Of names only
    /// `localhost` is known.
    #[must_use]
    pub fn leads_to(&self, listener: SocketAddr) -> bool {
        let hosts: &[IpAddr] = match self.host().parse::<IpAddr>() {
            Ok(host) => &[host.to_canonical()],
            Err(_) if self.host().eq_ignore_ascii_case("localhost") => {
                &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
            }
            Err(_) => &[],
        };
        let own = listener.ip().to_canonical();
        let reaches = |host: &IpAddr| {
            // A connection to the unspecified address goes to this machine.
            let is_here = host.is_loopback() || host.is_unspecified();
            // One to `::` takes IPv4, too.
            let is_served = own.is_ipv6() || host.is_ipv4();
            *host == own
                || own.is_unspecified() && is_here && is_served
                || host.is_unspecified() && own.is_loopback()
        };
        self.port() == listener.port() && hosts.iter().any(reaches)
    }
}

impl FromStr for Upstream {
    type Err = BadUpstream;

    fn from_str(text: &str) -> Result<Self, BadUpstream> {
        let bad = || BadUpstream { text: text.into(), port: None };
        let parts = text.parse::<Uri>().map_err(|_| bad())?.into_parts();
        let scheme = parts.scheme.as_ref().map_or("", Scheme::as_str);
        let (is_tls, is_http2) = match scheme {
            "http" => (false, false),
            "https" => (true, false),
            "h2c" => (false, true),
            "h2" => (true, true),
            _ => return Err(bad()),
        };
        let is_bare = parts.path_and_query.is_none_or(|path| path == "/") && !text.contains(['#', '@']);
        let authority = parts.authority.filter(|authority| is_bare && !authority.host().is_empty());
        let authority = authority.ok_or_else(bad)?;
        // `Authority` takes any text for a port, and says then that there is none.
        if let Some(port) = authority.as_str()[authority.host().len()..].strip_prefix(':')
            && !is_port(port)
        {
            return Err(BadUpstream { text: text.into(), port: Some(port.into()) });
        }
        Ok(Self { authority, is_tls, is_http2 })
    }
}

/// Whether a connection can be made to this port.
fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.is_tls, self.is_http2) {
            (false, false) => "http",
            (true, false) => "https",
            (false, true) => "h2c",
            (true, true) => "h2",
        };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl fmt::Display for BadUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, port } = self;
        write!(f, "{text:?} is no upstream: ")?;
        match port {
            Some(port) => write!(f, "the port {port:?} is not a number from 1 to 65535"),
            None => f.write_str("write http://HOST:PORT, https://, h2c:// or h2://, without a path"),
        }
    }
}

impl std::error::Error for BadUpstream {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_port_is_an_error_that_names_it() {
        for port in ["", "0", "65536", "99999", "abc", "8o", "+80", "-1", "80:80", " 80"] {
            for url in [format!("http://a.test:{port}"), format!("h2://[::1]:{port}/")] {
                let error = url.parse::<Upstream>().expect_err(&url).to_string();
                // Some texts are no URL at all.
                if url.parse::<Uri>().is_ok() {
                    assert!(error.contains(&format!("the port {port:?} is not a number")), "{url}: {error}");
                }
            }
        }
        for (url, port) in [
            ("http://a.test", 80),
            ("https://a.test/", 443),
            ("h2c://[::1]:00080", 80),
            ("http://a.test:65535", 65535),
            ("h2://10.0.0.1:1", 1),
        ] {
            assert_eq!(url.parse::<Upstream>().unwrap().port(), port, "{url}");
        }
    }

    #[test]
    fn an_upstream_that_is_the_listener_is_known() {
        let leads = |upstream: &str, listener: &str| {
            upstream.parse::<Upstream>().unwrap().leads_to(listener.parse().unwrap())
        };
        for (upstream, listener) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost:8080", "127.0.0.1:8080"),
            ("http://LocalHost:8080", "[::1]:8080"),
            ("https://localhost", "0.0.0.0:443"),
            ("http://127.0.0.2:8080", "0.0.0.0:8080"),
            ("http://0.0.0.0:8080", "127.0.0.1:8080"),
            ("h2c://[::1]:8080", "[::]:8080"),
            ("http://127.0.0.1:8080", "[::]:8080"),
            ("http://[::ffff:127.0.0.1]:8080", "127.0.0.1:8080"),
            ("http://10.0.0.2:8080", "10.0.0.2:8080"),
        ] {
            assert!(leads(upstream, listener), "{upstream} {listener}");
        }
        for (upstream, listener) in [
            ("http://127.0.0.1:8000", "127.0.0.1:8080"),
            ("http://127.0.0.2:8080", "127.0.0.1:8080"),
            ("http://10.0.0.2:8080", "0.0.0.0:8080"),
            ("http://[::1]:8080", "0.0.0.0:8080"),
            ("http://localhost:8080", "10.0.0.2:8080"),
            ("http://a.test:8080", "127.0.0.1:8080"),
        ] {
            assert!(!leads(upstream, listener), "{upstream} {listener}");
        }
    }
}
