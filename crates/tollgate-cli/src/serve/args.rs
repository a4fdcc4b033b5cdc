//! The options of `tollgate serve`.

use std::convert::Infallible;
use std::env::VarError;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use tollgate_rules::{StoreFailure, StoreServer};
use tollgate_rules_file::{EnvoyCharge, SameDomain};
use tollgate_server::{ListenAddress, Secret, Settings, TlsFiles};

use super::log::Logged;
use crate::spec::{period, within};

/// Into how many parts the connections of a proxy are divided: one client may have one of them.
const OF_CLIENT: usize = 4;

/// What is served, and where
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The rules file; it is read again whenever it changes
    #[arg(long, value_name = "FILE", value_parser = crate::by_rules::path)]
    rules: PathBuf,

    /// A file or directory of envoyproxy/ratelimit, for calls by Envoy; may be repeated
    #[arg(long, value_name = "PATH")]
    envoy: Vec<PathBuf>,

    /// What becomes of two of these files with the same domain
    #[arg(long, value_name = "WHAT", default_value = "refuse", help_heading = "Envoy")]
    envoy_same_domain: Same,

    /// What a call is charged if one of its descriptors is over a limit of these files
    #[arg(long, value_name = "WHAT", default_value = "together", help_heading = "Envoy")]
    envoy_charge: Charge,

    /// The keys in the current window for which each limit of these files has room
    #[arg(long, value_name = "N", default_value = "1048576", value_parser = within::<usize>(1, 1 << 32), help_heading = "Envoy")]
    envoy_max_keys: usize,

    /// Keep the counts of these files in this Redis or Valkey, so that all servers with them share
    /// them; env:NAME takes the URL from a variable [default: they are this process's]
    #[arg(long, requires = "envoy", value_name = "URL", value_parser = hidden, help_heading = "Envoy")]
    envoy_store: Option<Secret>,

    /// The longest time that a call waits for this store
    #[arg(long, requires = "envoy_store", value_name = "TIME", default_value = "10ms", value_parser = deadline)]
    #[arg(help_heading = "Envoy")]
    envoy_store_deadline: Duration,

    /// What decides while this store does not answer: refuse, allow, or local=N, by this server's
    /// share of the limits, as one of N
    #[arg(long, requires = "envoy_store", value_name = "WHAT", default_value = "refuse", value_parser = failure)]
    #[arg(help_heading = "Envoy")]
    envoy_store_failure: StoreFailure,

    /// Where /v1/* and /json are served; may be repeated [default: 127.0.0.1:8080; proxy: off]
    #[arg(long, value_name = "ADDR", help_heading = "Listeners")]
    http: Vec<Where>,

    /// Where the live page, /metrics, /healthz, /readyz, /admin/* and /openapi.json are; may be
    /// repeated
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

    /// The connections of one client address to a listener, but of trusted proxies
    /// [default: any number; proxy: a quarter of --max-connections]
    #[arg(long, value_name = "N", value_parser = within::<usize>(1, 1_000_000), help_heading = "Listeners")]
    max_connections_per_client: Option<usize>,

    /// The threads that serve connections [default: one for each core]
    #[arg(long, value_name = "N", value_parser = within::<usize>(1, 1024), help_heading = "Listeners")]
    threads: Option<usize>,

    /// A file with the password that Redis clients must send
    #[arg(long, value_name = "FILE", help_heading = "Authentication")]
    resp_password_file: Option<PathBuf>,

    /// A file with the password for FLUSHALL [default: no client may]
    #[arg(long, value_name = "FILE", help_heading = "Authentication")]
    resp_admin_password_file: Option<PathBuf>,

    /// A file with the token for /admin/* and /openapi.json [default: this machine only]
    #[arg(long, value_name = "FILE", help_heading = "Authentication")]
    admin_token_file: Option<PathBuf>,

    /// Show keys on the live page and in /admin/top, not hashes of them
    #[arg(long, help_heading = "Authentication")]
    show_keys: bool,

    /// A network of proxies that /v1/auth believes; may be repeated [default: loopback]
    #[arg(long, value_name = "NETWORK", value_parser = tollgate_rules_file::read_network, help_heading = "Authentication")]
    auth_trusted: Vec<IpNet>,

    /// A label that /v1/auth reads from a header of the proxy, as user=x-user; may be repeated
    #[arg(long, value_name = "LABEL=HEADER", value_parser = label, help_heading = "Authentication")]
    auth_label: Vec<(String, HeaderName)>,

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

    /// The tickets that /v1/check and /v1/reserve keep at most, and as many those of /v1/acquire
    /// [default: as many as take a sixteenth of the rules' memory_budget_mib, 131072 without one]
    #[arg(long, value_name = "N", value_parser = within::<usize>(1, 1 << 32), help_heading = "State")]
    max_tickets: Option<usize>,

    /// Save state in this file, and begin with it [default: state ends with the process]
    #[arg(long, value_name = "FILE", help_heading = "State")]
    state: Option<PathBuf>,

    /// How often state is saved, besides at the end
    #[arg(long, requires = "state", value_name = "TIME", default_value = "60s", value_parser = period)]
    #[arg(help_heading = "State")]
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

    /// Which lines are logged, on standard error. LEVEL is error (an operator must act), warn (an
    /// operator should know), info (starts, reloads and ends, too) or debug (each connection that
    /// fails, and each save). Other crates log only if they are named: debug,h2=debug
    #[arg(long, value_name = "LEVEL[,CRATE=LEVEL...]", default_value = "info", help_heading = "Output")]
    pub(super) log: Logged,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Same {
    /// It is an error
    Refuse,
    /// The domain has the descriptors of both
    Merge,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Charge {
    /// All descriptors, as in envoyproxy/ratelimit
    Each,
    /// Those that are over the limit, and no others
    Together,
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
CERT,KEY,CLIENT-CA), --resp-password-file, --admin-token-file, or --open:
callers are trusted.

Signals:
  SIGHUP           read the rules now
  SIGTERM, SIGINT  drain, save the state, end; again: do not wait for connections

Examples:
  tollgate serve --rules rules.toml --resp 127.0.0.1:6380
  redis-cli -p 6380 CL.THROTTLE alice 15 30 60
  tollgate serve --rules rules.toml --http 0.0.0.0:8080 --grpc 0.0.0.0:8081 --open
  tollgate serve --rules rules.toml --state /var/lib/tollgate/state
docs/reference/server.md describes every listener; http-api.md, resp.md and envoy.md
beside it describe what they answer.";

impl Args {
    /// The settings of the server.
    ///
    /// # Errors
    ///
    /// No listener is left, or TLS is meant for none.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let settings = self.settings_by(&[Where::At("127.0.0.1:8080".parse().expect("it is an address"))])?;
        if [&settings.http, &settings.grpc, &settings.resp].iter().all(|addresses| addresses.is_empty()) {
            return Err("nothing would be served: give --http, --grpc or --resp an address".to_owned());
        }
        Ok(settings)
    }

    /// The settings of a server beside a proxy: nothing else is served unless it is said.
    ///
    /// # Errors
    ///
    /// TLS is meant for no listener.
    pub(super) fn settings_of_proxy(&self) -> Result<Settings, String> {
        let mut settings = self.settings_by(&[])?;
        // The clients of a proxy are strangers.
        settings.limits.client_connections.get_or_insert(self.max_connections.div_ceil(OF_CLIENT));
        Ok(settings)
    }

    fn settings_by(&self, http: &[Where]) -> Result<Settings, String> {
        let admin = [Where::At("127.0.0.1:9080".parse().expect("it is an address"))];
        let default =
            |given: &[Where], default: &[Where]| addresses(if given.is_empty() { default } else { given });
        let mut settings = Settings::new(&self.rules);
        settings.http = default(&self.http, http);
        settings.admin = default(&self.admin, &admin);
        (settings.grpc, settings.resp) = (addresses(&self.grpc), addresses(&self.resp));
        let tls = [
            ("http", &self.http_tls, &settings.http),
            ("admin", &self.admin_tls, &settings.admin),
            ("grpc", &self.grpc_tls, &settings.grpc),
            ("resp", &self.resp_tls, &settings.resp),
        ];
        for (name, files, addresses) in tls {
            needs_tcp(files.is_some(), name, addresses)?;
        }
        settings.envoy.clone_from(&self.envoy);
        settings.envoy_same_domain = match self.envoy_same_domain {
            Same::Refuse => SameDomain::Refuse,
            Same::Merge => SameDomain::Merge,
        };
        settings.envoy_charge = match self.envoy_charge {
            Charge::Each => EnvoyCharge::Each,
            Charge::Together => EnvoyCharge::Together,
        };
        settings.envoy_max_keys = self.envoy_max_keys;
        let store = self.envoy_store.as_ref().map(|address| store(address, self.envoy_store_deadline));
        settings.envoy_store = store.transpose()?;
        settings.envoy_store_failure = self.envoy_store_failure;
        settings.resp_password = self.resp_password_file.as_deref().map(secret).transpose()?;
        settings.resp_admin_password = self.resp_admin_password_file.as_deref().map(secret).transpose()?;
        settings.admin_token.clone_from(&self.admin_token_file);
        settings.show_keys = self.show_keys;
        if !self.auth_trusted.is_empty() {
            settings.auth_trusted.clone_from(&self.auth_trusted);
        }
        settings.auth_labels.clone_from(&self.auth_label);
        settings.open = self.open;
        settings.limits.connections = self.max_connections;
        settings.limits.client_connections = self.max_connections_per_client;
        if let Some(threads) = self.threads.and_then(NonZeroUsize::new) {
            settings.threads = threads;
        }
        settings.http_tls.clone_from(&self.http_tls);
        settings.admin_tls.clone_from(&self.admin_tls);
        settings.grpc_tls.clone_from(&self.grpc_tls);
        settings.resp_tls.clone_from(&self.resp_tls);
        settings.resp_max_keys = self.resp_max_keys;
        settings.max_tickets = self.max_tickets.and_then(NonZeroUsize::new);
        settings.state.clone_from(&self.state);
        settings.state_interval = self.state_interval;
        settings.strict_state = self.strict_state;
        settings.drain_delay = self.drain_delay;
        settings.drain_timeout = self.drain_timeout;
        Ok(settings)
    }
}

/// Refuses TLS that no listener would speak.
pub(super) fn needs_tcp(has_tls: bool, name: &str, addresses: &[ListenAddress]) -> Result<(), String> {
    let is_plain = |address: &ListenAddress| matches!(address, ListenAddress::Unix { .. });
    match has_tls && addresses.iter().all(is_plain) {
        true => Err(format!("--{name}-tls is for TCP, but no --{name} listens there")),
        false => Ok(()),
    }
}

fn addresses(given: &[Where]) -> Vec<ListenAddress> {
    let address = |given: &Where| match given {
        Where::Off => None,
        Where::At(address) => Some(address.clone()),
    };
    given.iter().filter_map(address).collect()
}

/// Reads a password: the first line of a file.
fn secret(path: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    match text.lines().next().unwrap_or_default() {
        "" => Err(format!("the first line of {} is to be the password, but is empty", path.display())),
        line => Ok(line.to_owned().into()),
    }
}

/// Takes an address of a store as it is: an error of the parser of options would repeat it.
fn hidden(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

/// Reads the address of a store, or the name of the variable that has it. No error repeats it.
fn store(address: &Secret, deadline: Duration) -> Result<StoreServer, String> {
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let text = match address.reveal().strip_prefix("env:").filter(is_name) {
        None => address.clone(),
        Some(name) => match std::env::var(name) {
            Ok(text) => text.into(),
            Err(VarError::NotPresent) => {
                return Err(format!(
                    "--envoy-store: the variable `{name}` is not set: it has the store's address"
                ));
            }
            Err(VarError::NotUnicode(_)) => {
                return Err(format!("--envoy-store: the variable `{name}` is not UTF-8"));
            }
        },
    };
    let mut server = StoreServer::parse(text.reveal()).map_err(|error| {
        format!("--envoy-store: {error}: write redis://[user:password@]host[:port][/database]")
    })?;
    server.deadline = deadline;
    Ok(server)
}

/// Reads a deadline, as a store of a rules file has it.
fn deadline(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(1)..=Duration::from_secs(60);
    let deadline = period(text)?;
    if range.contains(&deadline) { Ok(deadline) } else { Err("outside of 1ms to 1min".to_owned()) }
}

/// Reads what decides while a store does not answer, as a rule's `on_failure`.
fn failure(text: &str) -> Result<StoreFailure, String> {
    let nodes = text.strip_prefix("local=").map(|nodes| nodes.parse().ok().filter(|nodes| *nodes > 0));
    match (text, nodes) {
        ("refuse", _) => Ok(StoreFailure::Refuse),
        ("allow", _) => Ok(StoreFailure::Allow),
        (_, Some(Some(nodes))) => Ok(StoreFailure::Local { nodes }),
        (_, Some(None)) => Err("the servers that share the limits are 1 to 4294967295".to_owned()),
        _ => Err("write refuse, allow or local=3".to_owned()),
    }
}

/// Reads the name of a label and of its header.
fn label(text: &str) -> Result<(String, HeaderName), String> {
    let (label, header) =
        text.split_once('=').filter(|(label, _)| !label.is_empty()).ok_or("write user=x-user")?;
    let header = header.parse().map_err(|_| format!("{header:?} is no name of a header"))?;
    Ok((label.to_owned(), header))
}

/// Reads a time, which may be 0.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { period(text) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn without_options_only_loopback_is_listened_on() {
        let settings = Command::parse_from(["serve", "--rules", "rules.toml"]).args.settings();
        let settings = settings.expect("they are right");
        let loopback = |port| [ListenAddress::Tcp(([127, 0, 0, 1], port).into())];
        assert_eq!((&*settings.http, &*settings.admin), (&loopback(8080)[..], &loopback(9080)[..]));
        assert!(settings.grpc.is_empty() && settings.resp.is_empty() && settings.proxy.is_empty());
        assert!(!settings.open);
    }

    #[test]
    fn a_client_of_the_proxy_has_a_quarter_of_them() {
        for (options, of_serve, of_proxy) in [
            (&[][..], None, Some(2_500)),
            (&["--max-connections", "10"][..], None, Some(3)),
            (&["--max-connections-per-client", "7"][..], Some(7), Some(7)),
        ] {
            let args = Command::parse_from([&["serve", "--rules", "rules.toml"], options].concat()).args;
            let of_client =
                |settings: Result<Settings, String>| settings.map(|all| all.limits.client_connections);
            assert_eq!(of_client(args.settings()), Ok(of_serve));
            assert_eq!(of_client(args.settings_of_proxy()), Ok(of_proxy));
        }
    }

    #[test]
    fn an_address_inside_of_a_network_is_not_trusted() {
        let trusted = |network| Command::try_parse_from(["serve", "--rules", "r", "--auth-trusted", network]);
        for (network, said) in [
            ("10.0.0.5/8", "10.0.0.0/8, or 10.0.0.5 for one address"),
            ("nonsense", "\"nonsense\" is no address: such as 192.0.2.7"),
        ] {
            let Err(error) = trusted(network) else { panic!("{network} is taken") };
            assert!(error.to_string().contains(said), "{error}");
        }
        let settings = trusted("::ffff:192.0.2.7").map(|command| command.args.settings());
        let settings = settings.expect("an address").expect("they are right");
        assert_eq!(settings.auth_trusted, ["192.0.2.7/32".parse().expect("a network")]);
    }
}
