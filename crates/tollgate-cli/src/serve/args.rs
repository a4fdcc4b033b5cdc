//! The options of `tollgate serve`.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_server::{ListenAddress, Settings, TlsFiles};

use super::log::Level;
use crate::spec::{period, within};

/// What is served, and where
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The rules file; it is read again whenever it changes
    #[arg(long, value_name = "FILE", value_parser = crate::by_rules::path)]
    rules: PathBuf,

    /// A file or directory of envoyproxy/ratelimit, for calls by Envoy; may be repeated
    #[arg(long, value_name = "PATH")]
    envoy: Vec<PathBuf>,

    /// Where /v1/* and /json are served; may be repeated [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", help_heading = "Listeners")]
    http: Vec<Where>,

    /// Where /metrics, /healthz, /readyz, /admin/* and the live page are served; may be repeated
    /// [default: 127.0.0.1:9080]
    #[arg(long, value_name = "ADDR", help_heading = "Listeners")]
    admin: Vec<Where>,

    /// Where Envoy's rate limit service is served; may be repeated [default: off]
    #[arg(long, value_name = "ADDR", help_heading = "Listeners")]
    grpc: Vec<Where>,

    /// Where Redis clients are served; may be repeated [default: off]
    #[arg(long, value_name = "ADDR", help_heading = "Listeners")]
    resp: Vec<Where>,

    /// Let listeners be reached from other machines without authentication
    #[arg(long, help_heading = "Listeners")]
    open: bool,

    /// The connections of one listener
    #[arg(long, value_name = "N", default_value = "10000", value_parser = within::<usize>(1, 1_000_000), help_heading = "Listeners")]
    max_connections: usize,

    /// TLS of the --http listeners over TCP
    #[arg(long, value_name = "CERT,KEY[,CLIENT-CA]", help_heading = "TLS")]
    http_tls: Option<TlsFiles>,

    /// TLS of the --admin listeners over TCP
    #[arg(long, value_name = "CERT,KEY[,CLIENT-CA]", help_heading = "TLS")]
    admin_tls: Option<TlsFiles>,

    /// TLS of the --grpc listeners over TCP
    #[arg(long, value_name = "CERT,KEY[,CLIENT-CA]", help_heading = "TLS")]
    grpc_tls: Option<TlsFiles>,

    /// TLS of the --resp listeners over TCP
    #[arg(long, value_name = "CERT,KEY[,CLIENT-CA]", help_heading = "TLS")]
    resp_tls: Option<TlsFiles>,

    /// The keys that CL.THROTTLE keeps at most
    #[arg(long, value_name = "N", default_value = "16777216", value_parser = within::<usize>(1, 1 << 32), help_heading = "State")]
    resp_max_keys: usize,

    /// Save state in this file, and begin with it [default: state ends with the process]
    #[arg(long, value_name = "FILE", help_heading = "State")]
    state: Option<PathBuf>,

    /// How often state is saved, besides at the end
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = period, help_heading = "State")]
    state_interval: Duration,

    /// Do not start on a damaged state file, instead of putting it aside as FILE.bad
    #[arg(long, requires = "state", help_heading = "State")]
    strict_state: bool,

    /// How long to go on serving after a signal to end, while /readyz says 503
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time, help_heading = "End")]
    drain_delay: Duration,

    /// How long to wait then for connections to end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "End")]
    drain_timeout: Duration,

    /// What is logged, on standard error
    #[arg(long, value_name = "LEVEL", default_value = "info", help_heading = "Output")]
    pub(super) log: Level,
}

/// An address, or none.
#[derive(Clone, Debug)]
enum Where {
    Off,
    At(ListenAddress),
}

impl std::str::FromStr for Where {
    type Err = tollgate_server::BadAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" { Ok(Self::Off) } else { text.parse().map(Self::At) }
    }
}

pub(crate) const AFTER: &str = "\
Addresses:
  127.0.0.1:8080, [::1]:8080       TCP; port 0 lets the system choose
  unix:/run/tollgate.sock          a Unix socket
  unix:/run/t.sock,mode=0660       with these permissions
  fd:http                          a socket of systemd with this FileDescriptorName
  off                              none: for --http and --admin, which are on otherwise

A listener that other machines reach needs client certificates (--resp-tls
CERT,KEY,CLIENT-CA) or --open: callers are trusted.

Signals:
  SIGHUP           read the rules now
  SIGTERM, SIGINT  drain, save the state, end; again: do not wait for connections

Examples:
  tollgate serve --rules rules.toml --resp 127.0.0.1:6380
  redis-cli -p 6380 CL.THROTTLE alice 15 30 60
  tollgate serve --rules rules.toml --http 0.0.0.0:8080 --grpc 0.0.0.0:8081 --open
  tollgate serve --rules rules.toml --state /var/lib/tollgate/state
docs/server.md describes every listener.";

impl Args {
    /// The settings of the server.
    ///
    /// # Errors
    ///
    /// No listener is left, or TLS is meant for none.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let default = |given: &[Where], default: &str| {
            let known = || vec![Where::At(default.parse().expect("the default is an address"))];
            addresses(&if given.is_empty() { known() } else { given.to_vec() })
        };
        let mut settings = Settings::new(&self.rules);
        settings.http = default(&self.http, "127.0.0.1:8080");
        settings.admin = default(&self.admin, "127.0.0.1:9080");
        (settings.grpc, settings.resp) = (addresses(&self.grpc), addresses(&self.resp));
        let tls = [
            ("http", &self.http_tls, &settings.http),
            ("admin", &self.admin_tls, &settings.admin),
            ("grpc", &self.grpc_tls, &settings.grpc),
            ("resp", &self.resp_tls, &settings.resp),
        ];
        for (name, files, addresses) in tls {
            let is_plain = |address: &ListenAddress| matches!(address, ListenAddress::Unix { .. });
            if files.is_some() && addresses.iter().all(is_plain) {
                return Err(format!("--{name}-tls is for TCP, but no --{name} listens there"));
            }
        }
        if [&settings.http, &settings.grpc, &settings.resp].iter().all(|addresses| addresses.is_empty()) {
            return Err("nothing would be served: give --http, --grpc or --resp an address".to_owned());
        }
        settings.envoy.clone_from(&self.envoy);
        settings.open = self.open;
        settings.limits.connections = self.max_connections;
        settings.http_tls.clone_from(&self.http_tls);
        settings.admin_tls.clone_from(&self.admin_tls);
        settings.grpc_tls.clone_from(&self.grpc_tls);
        settings.resp_tls.clone_from(&self.resp_tls);
        settings.resp_max_keys = self.resp_max_keys;
        settings.state.clone_from(&self.state);
        settings.state_interval = self.state_interval;
        settings.strict_state = self.strict_state;
        settings.drain_delay = self.drain_delay;
        settings.drain_timeout = self.drain_timeout;
        Ok(settings)
    }
}

fn addresses(given: &[Where]) -> Vec<ListenAddress> {
    let address = |given: &Where| match given {
        Where::Off => None,
        Where::At(address) => Some(address.clone()),
    };
    given.iter().filter_map(address).collect()
}

/// Reads a time, which may be 0.
fn time(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { period(text) }
}
