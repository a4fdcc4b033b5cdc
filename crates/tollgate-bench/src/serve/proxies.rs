//! The proxies that are compared with `tollgate proxy`, and the server behind all of them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::build;
use crate::error::BenchError;
use crate::process::{LOADER, Process};

/// What a proxy limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    /// Nothing: it only passes requests on.
    None,
    /// A limit of each client, which admits all.
    One,
    /// Three limits, which admit all.
    Three,
    /// A limit that refuses all but the first.
    Refused,
    /// A limit of each client, of which a proxy before this one tells, and which admits ten of each
    /// at once; for [`request_of`].
    Clients,
    /// Ten requests a second, twenty at once, of all clients together.
    Trace,
}

/// A request of one of many clients.
pub(super) fn request_of(client: u64, into: &mut Vec<u8>) {
    let [_, a, b, c] = (client as u32).to_be_bytes();
    let text =
        format!("GET /api/items HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 100.{a}.{b}.{c}\r\n\r\n");
    into.extend(text.bytes());
}

/// A folder for the proxies' configurations, and the server behind them.
pub(super) struct Behind {
    folder: PathBuf,
    server: Process,
}

/// The server behind answers with 1 KiB from memory. It has the core of the loader: both take as
/// long, whatever proxy is between them.
const SERVER: &str = "\
daemon off; master_process off; error_log stderr crit; pid @FOLDER@/behind.pid;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 1000000000;
  server { listen 127.0.0.1:@PORT@; location / { return 200 '@KIB@'; } }
}
";

/// As nginx's documentation of `keepalive` advises for HTTP. One process, also on two cores: more
/// share nothing, and each takes as long for a request.
const NGINX: &str = "\
daemon off; master_process off; error_log stderr crit; pid @FOLDER@/nginx-@PORT@.pid;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 1000000000;
  set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;
  @ZONE@
  upstream app { server 127.0.0.1:@UPSTREAM@; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:@PORT@;
    location / {
      @LIMIT@
      proxy_http_version 1.1; proxy_set_header Connection ''; proxy_pass http://app;
    }
  }
}
";

const ENVOY: &str = "\
static_resources:
  listeners:
    - address: { socket_address: { address: 127.0.0.1, port_value: @PORT@ } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: web
                route_config:
                  virtual_hosts:
                    - { name: web, domains: ['*'], routes: [{ match: { prefix: / }, route: { cluster: app } }] }
                http_filters:
                  @LIMIT@
                  - name: envoy.filters.http.router
                    typed_config:
                      '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
    - name: app
      type: STATIC
      load_assignment:
        cluster_name: app
        endpoints:
          - lb_endpoints:
              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: @UPSTREAM@ } } }
";

const CADDY: &str = "\
{
  admin off
  auto_https off
  log {
    level ERROR
  }
}
http://127.0.0.1:@PORT@ {
  reverse_proxy 127.0.0.1:@UPSTREAM@
}
";

const TRAEFIK: &str = "\
entryPoints: { web: { address: '127.0.0.1:@PORT@' } }
providers: { file: { filename: @FOLDER@/traefik-rules.yml } }
global: { checkNewVersion: false, sendAnonymousUsage: false }
log: { level: ERROR }
";

const TRAEFIK_RULES: &str = "\
http:
  routers: { app: { rule: 'PathPrefix(`/`)', service: app } }
  services: { app: { loadBalancer: { servers: [{ url: 'http://127.0.0.1:@UPSTREAM@' }] } } }
";

impl Limits {
    fn rules(self) -> &'static str {
        match self {
            Self::None => "{ name = 'other', key = 'everyone', limits = '1/s', match.host = 'other.test' }",
            Self::One => "{ name = 'clients', key = 'client', limits = '1000000000/s' }",
            Self::Three => {
                "{ name = 'everyone', key = 'everyone', limits = '1000000000/s' },
                 { name = 'clients', key = 'client', limits = '1000000000/s' },
                 { name = 'by-path', match.path = '/api/*', key = 'client', limits = '1000000000/s' }"
            }
            Self::Refused => "{ name = 'clients', key = 'client', limits = '1/h' }",
            Self::Clients => {
                "{ name = 'clients', key = 'client', limits = '1/min,burst=10', max_keys = 1500000 },
                 { name = 'other', match.path = '/other', key = 'client', limits = '100/min' }"
            }
            Self::Trace => "{ name = 'all', key = 'everyone', limits = '10/s,burst=20' }",
        }
    }

    /// The filter of Envoy that limits all requests together, if these limits are that.
    fn envoy(self) -> &'static str {
        match self {
            Self::Trace => {
                "- { name: envoy.filters.http.local_ratelimit, typed_config: { \
                 '@type': type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit, \
                 stat_prefix: local, \
                 token_bucket: { max_tokens: 20, tokens_per_fill: 1, fill_interval: 0.1s }, \
                 filter_enabled: { default_value: { numerator: 100 } }, \
                 filter_enforced: { default_value: { numerator: 100 } } } }"
            }
            _ => "",
        }
    }

    /// The zone of nginx, and the line that limits by it.
    fn nginx(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("", ""),
            Self::Refused => (
                "limit_req_zone $binary_remote_addr zone=each:10m rate=1r/m; limit_req_status 429;",
                "limit_req zone=each;",
            ),
            Self::Clients => (
                "limit_req_zone $binary_remote_addr zone=each:160m rate=1r/m; limit_req_status 429;",
                "limit_req zone=each burst=9 nodelay;",
            ),
            Self::Trace => (
                "limit_req_zone $server_port zone=all:1m rate=10r/s; limit_req_status 429;",
                "limit_req zone=all burst=19 nodelay;",
            ),
            Self::One => (
                "limit_req_zone $binary_remote_addr zone=each:10m rate=1000000r/s; limit_req_status 429;",
                "limit_req zone=each burst=1000000 nodelay;",
            ),
            Self::Three => (
                "limit_req_zone $server_port zone=all:1m rate=1000000r/s; limit_req_status 429;
                 limit_req_zone $binary_remote_addr zone=each:10m rate=1000000r/s;
                 limit_req_zone $binary_remote_addr zone=paths:10m rate=1000000r/s;",
                "limit_req zone=all burst=1000000 nodelay; limit_req zone=each burst=1000000 nodelay;
                 limit_req zone=paths burst=1000000 nodelay;",
            ),
        }
    }
}

impl Behind {
    /// Starts the server behind the proxies, which is an nginx.
    pub(super) fn start() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("tollgate-proxies-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let server = Process::start_on(LOADER, "behind the proxies", |command, port| {
            let text = SERVER.replace("@KIB@", &"x".repeat(1024));
            nginx(command, &write(&folder, "behind.conf", &text, port, 0)?);
            Ok(())
        })?;
        Ok(Self { folder, server })
    }

    /// Has the server behind run before the loader, whose core it shares. The loader of an open
    /// loop never sleeps: without this, each answer waits until the loader's turn ends, some
    /// milliseconds.
    pub(super) fn run_first(&self) -> Result<(), String> {
        let process = self.server.id().to_string();
        if build::succeeds("chrt", &["--fifo", "--pid", "1", &process]) {
            return Ok(());
        }
        Err("chrt failed for the server behind the proxies: run this as root".to_owned())
    }

    /// The port of the server behind.
    pub(super) fn port(&self) -> u16 {
        self.server.port
    }

    /// Adds the program of a tollgate with these limits, and its arguments.
    pub(super) fn tollgate(
        &self,
        command: &mut Command,
        program: &Path,
        limits: Limits,
        [port, admin]: [u16; 2],
    ) -> Result<(), String> {
        let (rules, text) = self.rules(limits);
        std::fs::write(&rules, text).map_err(|error| BenchError::file(&rules, error).to_string())?;
        let upstream = format!("http://127.0.0.1:{}", self.server.port);
        command.arg(program).arg("proxy").arg("--rules").arg(rules).args(["--upstream", &upstream]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--admin", &format!("127.0.0.1:{admin}")]);
        Ok(())
    }

    /// The file of rules of a tollgate with these limits, and its text.
    pub(super) fn rules(&self, limits: Limits) -> (PathBuf, String) {
        let clients = "clients = { trusted_proxies = ['127.0.0.0/8'] }";
        let text = format!("version = 1\n{clients}\nrule = [{}]\n", limits.rules());
        (self.folder.join(format!("{limits:?}.toml")), text)
    }

    pub(super) fn nginx(&self, command: &mut Command, limits: Limits, port: u16) -> Result<(), String> {
        let (zone, limit) = limits.nginx();
        let text = NGINX.replace("@ZONE@", zone).replace("@LIMIT@", limit);
        nginx(command, &self.write(&format!("nginx-{limits:?}.conf"), &text, port)?);
        Ok(())
    }

    pub(super) fn envoy(
        &self,
        command: &mut Command,
        program: &Path,
        limits: Limits,
        port: u16,
    ) -> Result<(), String> {
        let text = ENVOY.replace("@LIMIT@", limits.envoy());
        let file = self.write(&format!("envoy-{limits:?}.yaml"), &text, port)?;
        command.arg(program).arg("-c").arg(file);
        command.args(["--use-dynamic-base-id", "--log-level", "error"]);
        Ok(())
    }

    pub(super) fn caddy(&self, command: &mut Command, program: &Path, port: u16) -> Result<(), String> {
        let file = self.write("Caddyfile", CADDY, port)?;
        command.arg(program).args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
        Ok(())
    }

    pub(super) fn traefik(&self, command: &mut Command, program: &Path, port: u16) -> Result<(), String> {
        self.write("traefik-rules.yml", TRAEFIK_RULES, port)?;
        let file = self.write("traefik.yml", TRAEFIK, port)?;
        command.arg(program).arg(format!("--configFile={}", file.display()));
        Ok(())
    }

    fn write(&self, name: &str, text: &str, port: u16) -> Result<PathBuf, String> {
        write(&self.folder, name, text, port, self.server.port)
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn nginx(command: &mut Command, file: &Path) {
    command.args(["nginx", "-e", "stderr", "-c"]).arg(file);
}

/// Waits until a proxy passes requests on, or refuses them: some listen before they have read all
/// of their configuration.
pub(super) fn wait_for(port: u16) -> Result<(), String> {
    let status = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned())
    };
    for _ in 0..500 {
        if status().is_ok_and(|status| ["200", "429"].contains(&&*status)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("the proxy on port {port} passes nothing on"))
}

/// Writes a configuration with its ports.
fn write(folder: &Path, name: &str, text: &str, port: u16, upstream: u16) -> Result<PathBuf, String> {
    let text = text
        .replace("@PORT@", &port.to_string())
        .replace("@UPSTREAM@", &upstream.to_string())
        .replace("@FOLDER@", &folder.to_string_lossy());
    let file = folder.join(name);
    std::fs::write(&file, text).map_err(|error| BenchError::file(&file, error).to_string())?;
    Ok(file)
}
