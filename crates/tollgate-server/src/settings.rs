//! What a server is started with.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use tollgate_rules::{EnvoyCharge, SameDomain};

use crate::listen::ListenAddress;

/// What a [`Server`](crate::Server) is started with. [`Settings::new`] has the defaults of the
/// command line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The rules file. It is read again whenever it changes.
    pub rules: PathBuf,
    /// Files or directories of envoyproxy/ratelimit, for calls by Envoy. They are read again
    /// whenever they change.
    pub envoy: Vec<PathBuf>,
    /// What becomes of two of these files with the same domain.
    pub envoy_same_domain: SameDomain,
    /// What a call is charged if one of its descriptors is over a limit of these files.
    pub envoy_charge: EnvoyCharge,
    /// The keys with hits in the current window for which each limit of these files has room.
    pub envoy_max_keys: usize,
    /// Where `/v1/*` and `/json` are served.
    pub http: Vec<ListenAddress>,
    /// Where `/metrics`, `/healthz`, `/readyz`, `/admin/*` and the live page are served.
    pub admin: Vec<ListenAddress>,
    /// Where Envoy's rate limit service is served.
    pub grpc: Vec<ListenAddress>,
    /// Where Redis clients are served.
    pub resp: Vec<ListenAddress>,
    /// How many keys `CL.THROTTLE` may keep.
    pub resp_max_keys: usize,
    /// What Redis clients must tell by `AUTH`; `None`: they need not.
    pub resp_password: Option<Secret>,
    /// What a Redis client tells by `AUTH` before `FLUSHALL`; `None`: no client may send it.
    pub resp_admin_password: Option<Secret>,
    /// The file in which state is saved; `None`: it ends with the process.
    pub state: Option<PathBuf>,
    /// The file with the token that `/admin/*` asks for; `None`: it is served to this machine only.
    pub admin_token: Option<PathBuf>,
    /// Whether `/admin/top` and the live page show keys, not hashes of them.
    pub show_keys: bool,
    /// Whether listeners beyond loopback need no authentication.
    pub open: bool,
    /// How long the server still serves after it was told to end.
    pub drain_delay: Duration,
    /// How long it then waits for its connections.
    pub drain_timeout: Duration,
    /// The networks of proxies that `/v1/auth` believes. By default, those of loopback.
    pub auth_trusted: Vec<IpNet>,
    /// The labels that `/v1/auth` reads from headers, which the proxy sets: names of labels and of
    /// headers.
    pub auth_labels: Vec<(String, HeaderName)>,
    /// What a connection may use.
    pub limits: Limits,
}

/// Text that is never shown: its `Debug` form does not have it.
///
/// # Examples
///
/// ```
/// use tollgate_server::Secret;
///
/// let password = Secret::from("open sesame".to_owned());
/// assert_eq!(format!("{password:?}"), "Secret");
/// ```
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What a listener and its connections may use.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The connections of one listener.
    pub connections: usize,
    /// The bytes of an HTTP head.
    pub head_bytes: usize,
    /// The bytes of an HTTP body.
    pub body_bytes: usize,
    /// How long a head, a body or a command may take to arrive.
    pub read_timeout: Duration,
    /// How long an HTTP connection may be idle.
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            head_bytes: 16 << 10,
            body_bytes: 1 << 20,
            read_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
        }
    }
}

impl Settings {
    /// The settings for these rules, without a listener.
    #[must_use]
    pub fn new(rules: impl Into<PathBuf>) -> Self {
        Self {
            rules: rules.into(),
            envoy: Vec::new(),
            envoy_same_domain: SameDomain::Refuse,
            envoy_charge: EnvoyCharge::Together,
            envoy_max_keys: 1 << 20,
            http: Vec::new(),
            admin: Vec::new(),
            grpc: Vec::new(),
            resp: Vec::new(),
            resp_max_keys: 1 << 24,
            resp_password: None,
            resp_admin_password: None,
            state: None,
            admin_token: None,
            show_keys: false,
            open: false,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            auth_trusted: vec![loopback([127, 0, 0, 0].into(), 8), loopback(Ipv6Addr::LOCALHOST.into(), 128)],
            auth_labels: Vec::new(),
            limits: Limits::default(),
        }
    }
}

fn loopback(address: IpAddr, bits: u8) -> IpNet {
    IpNet::new_assert(address, bits)
}
