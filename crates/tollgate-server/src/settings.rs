//! What a server is started with.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use tollgate_net::Limits;
use tollgate_net::listen::{ListenAddress, TlsFiles};
use tollgate_proxy::ProxySettings;
use tollgate_rules::{Secret, StoreFailure, StoreServer};
use tollgate_rules_file::{EnvoyCharge, SameDomain};

use crate::metrics::Listener;

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
    /// The store of the counts of these files, which all processes that name it share; `None`: they
    /// are this process's.
    pub envoy_store: Option<StoreServer>,
    /// What decides calls by these files while their store does not answer.
    pub envoy_store_failure: StoreFailure,
    /// Where `/v1/*` and `/json` are served.
    pub http: Vec<ListenAddress>,
    /// Where `/metrics`, `/healthz`, `/readyz`, `/admin/*`, `/openapi.json` and the live page are
    /// served.
    pub admin: Vec<ListenAddress>,
    /// Where Envoy's rate limit service is served.
    pub grpc: Vec<ListenAddress>,
    /// Where Redis clients are served.
    pub resp: Vec<ListenAddress>,
    /// Where requests are taken that go to [an upstream](ProxySettings::upstreams).
    pub proxy: Vec<ListenAddress>,
    /// How they go there.
    pub forward: ProxySettings,
    /// The TLS of the `http` listeners over TCP; `None`: they speak plain text.
    pub http_tls: Option<TlsFiles>,
    /// The TLS of the `admin` listeners over TCP.
    pub admin_tls: Option<TlsFiles>,
    /// The TLS of the `grpc` listeners over TCP.
    pub grpc_tls: Option<TlsFiles>,
    /// The TLS of the `resp` listeners over TCP.
    pub resp_tls: Option<TlsFiles>,
    /// The TLS of the `proxy` listeners over TCP.
    pub proxy_tls: Option<TlsFiles>,
    /// How many keys `CL.THROTTLE` may keep.
    pub resp_max_keys: usize,
    /// How many tickets of checks and reservations `/v1/*` keeps, and as many of requests in
    /// flight; `None`: of each as many as take a sixteenth of the
    /// [`memory_budget`](tollgate_rules::Rules::memory_budget) of the rules at the start. A client
    /// has at most eight ninths of them.
    pub max_tickets: Option<NonZeroUsize>,
    /// What Redis clients must tell by `AUTH`; `None`: they need not.
    pub resp_password: Option<Secret>,
    /// What a Redis client tells by `AUTH` before `FLUSHALL`; `None`: no client may send it.
    pub resp_admin_password: Option<Secret>,
    /// The file in which state is saved; `None`: it ends with the process.
    pub state: Option<PathBuf>,
    /// The file of the requests that the [proxy](Self::proxy) keeps for later, where a rule says
    /// `on_refusal = "park"`; `None`: it refuses them.
    pub park: Option<PathBuf>,
    /// How often state is saved, besides at the end.
    pub state_interval: Duration,
    /// Whether the server does not start on a damaged state file. Otherwise it puts the file aside
    /// and starts without state.
    pub strict_state: bool,
    /// The file with the token that `/admin/*` and `/openapi.json` ask for; `None`: they are served
    /// to this machine only.
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
    /// How many threads serve connections, besides the runtime that [starts](crate::Server::start)
    /// the server. A connection stays on one of them, and new ones go to those with the fewest. By
    /// default, as many as the machine runs at once.
    pub threads: NonZeroUsize,
    /// What a connection may use.
    pub limits: Limits,
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
            envoy_store: None,
            envoy_store_failure: StoreFailure::Refuse,
            http: Vec::new(),
            admin: Vec::new(),
            grpc: Vec::new(),
            resp: Vec::new(),
            proxy: Vec::new(),
            forward: ProxySettings::default(),
            http_tls: None,
            admin_tls: None,
            grpc_tls: None,
            resp_tls: None,
            proxy_tls: None,
            resp_max_keys: 1 << 24,
            max_tickets: None,
            resp_password: None,
            resp_admin_password: None,
            state: None,
            park: None,
            state_interval: Duration::from_secs(60),
            strict_state: false,
            admin_token: None,
            show_keys: false,
            open: false,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            auth_trusted: vec![loopback([127, 0, 0, 0].into(), 8), loopback(Ipv6Addr::LOCALHOST.into(), 128)],
            auth_labels: Vec::new(),
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            limits: Limits::default(),
        }
    }

    /// Each kind of listeners with their addresses.
    pub(crate) fn listeners(&self) -> [(Listener, &[ListenAddress]); 5] {
        [
            (Listener::Http, &self.http),
            (Listener::Admin, &self.admin),
            (Listener::Grpc, &self.grpc),
            (Listener::Resp, &self.resp),
            (Listener::Proxy, &self.proxy),
        ]
    }

    /// The TLS of a kind of listeners.
    pub(crate) fn tls(&self, listener: Listener) -> Option<&TlsFiles> {
        match listener {
            Listener::Http => self.http_tls.as_ref(),
            Listener::Admin => self.admin_tls.as_ref(),
            Listener::Grpc => self.grpc_tls.as_ref(),
            Listener::Resp => self.resp_tls.as_ref(),
            Listener::Proxy => self.proxy_tls.as_ref(),
        }
    }

    /// Whether a listener at this address may be opened: only this machine reaches it, its clients
    /// must show who they are, or `open` says so.
    pub(crate) fn may_open(&self, listener: Listener, address: &ListenAddress) -> bool {
        let asks_for_certificates = self.tls(listener).is_some_and(|tls| tls.client_ca.is_some());
        let asks_for_secret = match listener {
            Listener::Admin => self.admin_token.is_some(),
            Listener::Resp => {
                self.resp_password.as_ref().is_some_and(|password| !password.reveal().is_empty())
            }
            Listener::Http | Listener::Grpc => false,
            // Its callers are not trusted: the rules limit them.
            Listener::Proxy => true,
        };
        self.open || address.is_local() || asks_for_certificates || asks_for_secret
    }
}

fn loopback(address: IpAddr, bits: u8) -> IpNet {
    IpNet::new_assert(address, bits)
}
