//! The options of `tollgate proxy`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use http::uri::PathAndQuery;
use tollgate_server::{ListenAddress, Settings, TlsFiles, Upstream};

use super::args::{Args as Serve, needs_tcp};
use super::bytes::bytes;
use crate::spec::period;

/// Where requests come from, and where they go
#[derive(Debug, clap::Args)]
// Another than that of the options of `serve`.
#[group(id = "proxy")]
pub(crate) struct Args {
    /// A server behind, as http://127.0.0.1:8000; may be repeated: a request goes to the one that
    /// serves the fewest
    #[arg(long, value_name = "URL", required = true)]
    upstream: Vec<Upstream>,

    /// Where requests are taken; may be repeated [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<ListenAddress>,

    /// TLS of the --listen listeners over TCP
    #[arg(long, value_name = "CERT,KEY[,CLIENT-CA]", help_heading = "TLS")]
    listen_tls: Option<TlsFiles>,

    /// The authorities of upstreams over TLS, as PEM [default: those that this machine trusts]
    #[arg(long, value_name = "FILE", help_heading = "Upstreams")]
    upstream_ca: Option<PathBuf>,

    /// How long a connection to an upstream may take, and how long a request waits for a stream of
    /// HTTP/2
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = period, help_heading = "Upstreams")]
    connect_timeout: Duration,

    /// How long a connection to an upstream is kept that serves no request: less than the upstream
    /// keeps it
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = period, help_heading = "Upstreams")]
    keep_timeout: Duration,

    /// The most connections of each thread to an upstream of HTTP/2
    #[arg(long, value_name = "N", default_value = "16", help_heading = "Upstreams")]
    upstream_connections: NonZeroUsize,

    /// How long an upstream may take for the head of its response
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = period, help_heading = "Upstreams")]
    head_timeout: Duration,

    /// How long a body may stand still, in either direction; of a request in all, see --least-rate
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = period, help_heading = "Upstreams")]
    idle_timeout: Duration,

    /// How long a connection that has switched to another protocol may carry nothing
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = period, help_heading = "Upstreams")]
    tunnel_timeout: Duration,

    /// How long a request may take with its response; off: as long as both move
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = period_or_off, help_heading = "Upstreams")]
    total_timeout: Off<Duration>,

    /// The path that each upstream is asked for to see whether it is well [default: only failed
    /// connections tell]
    #[arg(long, value_name = "PATH", value_parser = path, help_heading = "Upstreams")]
    health_path: Option<PathAndQuery>,

    /// How often it is asked
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = period, help_heading = "Upstreams")]
    health_interval: Duration,

    /// The header of a response that says what its request cost, for rules whose cost is an
    /// attribute
    #[arg(long, value_name = "HEADER", help_heading = "Upstreams")]
    cost_header: Option<HeaderName>,

    /// Passes headers with `_` in their names on [default: they are dropped, as many upstreams take
    /// it for `-`]
    #[arg(long, help_heading = "Upstreams")]
    keep_underscores: bool,

    /// The bytes of a request's body that are read before an upstream is taken, or while the
    /// request waits in a queue; 0: none
    #[arg(long, value_name = "N", default_value = "65536", value_parser = bytes::<usize>(1 << 30), help_heading = "Upstreams")]
    buffer_requests: usize,

    /// The bytes a second with which a request's body must come, or else its client has waited for
    /// --idle-timeout in all; 0: any byte is enough
    #[arg(long, value_name = "N", default_value = "500", value_parser = bytes::<u64>(u64::MAX), help_heading = "Upstreams")]
    least_rate: u64,

    /// The most bytes of a request's body [default: any number, as it is streamed]
    #[arg(long, value_name = "N", value_parser = bytes::<u64>(u64::MAX), help_heading = "Upstreams")]
    max_body: Option<u64>,

    /// Keeps requests for later in this file, where a rule without a store says on_refusal = "park"
    /// [default: they are refused]
    #[arg(long, value_name = "FILE")]
    park: Option<PathBuf>,

    #[command(flatten)]
    pub(super) serve: Serve,
}

pub(crate) const AFTER: &str = "\
Addresses are those of tollgate serve.

Examples:
  tollgate proxy --rules rules.toml --upstream http://127.0.0.1:8000
  tollgate proxy --rules rules.toml --upstream http://10.0.0.2:80 --upstream http://10.0.0.3:80 \\
    --health-path /healthz --listen 0.0.0.0:443 --listen-tls cert.pem,key.pem
docs/reference/proxy.md describes what is passed on, and what is answered when it is not.";

impl Args {
    /// The settings of the server.
    ///
    /// # Errors
    ///
    /// TLS is meant for no listener.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let mut settings = self.serve.settings_of_proxy()?;
        settings.proxy = match &self.listen[..] {
            [] => vec!["127.0.0.1:8080".parse().expect("it is an address")],
            given => given.to_vec(),
        };
        needs_tcp(self.listen_tls.is_some(), "listen", &settings.proxy)?;
        settings.proxy_tls.clone_from(&self.listen_tls);
        settings.park.clone_from(&self.park);
        let forward = &mut settings.forward;
        forward.upstreams.clone_from(&self.upstream);
        forward.upstream_ca.clone_from(&self.upstream_ca);
        forward.connect_timeout = self.connect_timeout;
        forward.keep_timeout = self.keep_timeout;
        forward.upstream_connections = self.upstream_connections;
        forward.head_timeout = self.head_timeout;
        forward.idle_timeout = self.idle_timeout;
        forward.tunnel_timeout = self.tunnel_timeout;
        forward.total_timeout = self.total_timeout.0;
        forward.health_path.clone_from(&self.health_path);
        forward.health_interval = self.health_interval;
        forward.cost_header.clone_from(&self.cost_header);
        forward.keeps_underscores = self.keep_underscores;
        forward.buffer_requests = self.buffer_requests;
        forward.least_rate = self.least_rate;
        forward.max_body = self.max_body;
        Ok(settings)
    }
}

/// A bound, or none.
#[derive(Clone, Copy, Debug)]
struct Off<T>(Option<T>);

/// Reads a time, or `off`.
fn period_or_off(text: &str) -> Result<Off<Duration>, String> {
    if text == "off" { Ok(Off(None)) } else { period(text).map(|time| Off(Some(time))) }
}

/// Reads a path.
fn path(text: &str) -> Result<PathAndQuery, String> {
    let path = text.parse().ok().filter(|_| text.starts_with('/'));
    path.ok_or_else(|| format!("{text:?} is no path: write /healthz"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_request_has_an_hour_unless_another_time_is_said() {
        let total = |words: &[&str]| {
            let given = ["proxy", "--rules", "rules.toml", "--upstream", "http://127.0.0.1:8000"];
            let cli = Cli::try_parse_from(given.iter().chain(words)).map_err(|error| error.to_string())?;
            Ok::<_, String>(cli.args.settings()?.forward.total_timeout)
        };
        assert_eq!(total(&[]), Ok(Some(Duration::from_secs(3600))));
        assert_eq!(total(&["--total-timeout", "5min"]), Ok(Some(Duration::from_secs(300))));
        assert_eq!(total(&["--total-timeout", "off"]), Ok(None));
        assert!(total(&["--total-timeout", "never"]).is_err_and(|error| error.contains("never")));
    }
}
