//! A real Envoy in front of a real service, by the configuration of `examples/envoy`.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::{Server, Settings};

use super::tools;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/envoy")
}

/// A port that was free.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A service that answers every request, and says which address it saw.
async fn service() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = Vec::new();
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    read.extend_from_slice(&buffer[..length]);
                    while let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                        read.drain(..end + 4);
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nservice";
                        if stream.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

/// A running Envoy; it ends with this.
struct Envoy {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Envoy {
    /// Starts it with the example, on ports that are free.
    async fn start(binary: &Path, name: &str, rls: SocketAddr) -> Self {
        let (port, admin) = (free_port(), free_port());
        let text = std::fs::read_to_string(examples().join("envoy.yaml")).unwrap();
        let replace = [
            ("port_value: 8000 ", format!("port_value: {} ", service().await.port())),
            ("port_value: 8081 ", format!("port_value: {} ", rls.port())),
            ("port_value: 9901 ", format!("port_value: {admin} ")),
            ("port_value: 10000 ", format!("port_value: {port} ")),
            // Tests share their machine.
            ("timeout: 0.05s", "timeout: 5s".into()),
        ];
        let text = replace.into_iter().fold(text, |text, (old, new)| {
            assert!(text.contains(old), "the example has {old}");
            text.replace(old, &new)
        });
        let folder = std::env::temp_dir().join(format!("tollgate-envoy-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = folder.join("envoy.yaml");
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let process = Command::new(binary)
            .arg("-c")
            .arg(&config)
            .args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warn"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut envoy = Self { process, port, folder };
        let listens = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                assert!(envoy.process.try_wait().unwrap().is_none(), "{}", envoy.log());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), listens).await.expect("Envoy listens");
        envoy
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The response to a request.
    async fn get(&self, path: &str) -> Response {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        Response { text: text.to_ascii_lowercase() }
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A response, in lower case.
struct Response {
    text: String,
}

impl Response {
    fn status(&self) -> &str {
        self.text.split(' ').nth(1).unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines().take_while(|line| !line.is_empty());
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn number(&self, name: &str) -> u64 {
        let value = self.header(name).unwrap_or_else(|| panic!("no {name} in {}", self.text));
        value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
    }
}

async fn server(edit: impl FnOnce(&mut Settings)) -> (Server, SocketAddr) {
    let mut settings = Settings::new(examples().join("rules.toml"));
    settings.grpc.push("127.0.0.1:0".parse().unwrap());
    settings.drain_timeout = Duration::from_secs(2);
    edit(&mut settings);
    let server = Server::start(settings).await.unwrap();
    let Some(tollgate_server::ListenAddress::Tcp(address)) = server.addresses().next().cloned() else {
        panic!("one address of TCP")
    };
    (server, address)
}

#[tokio::test]
async fn a_real_envoy_limits_by_the_rules() {
    let Some(binary) = tools::envoy() else { return };
    let (server, address) = server(|_| {}).await;
    let envoy = Envoy::start(&binary, "rules", address).await;

    let first = envoy.get("/").await;
    assert_eq!((first.status(), first.header("x-ratelimit-remaining")), ("200", Some("9")), "{}", first.text);
    assert_eq!(first.header("x-ratelimit-limit"), Some("10, 10;w=60;name=\"per-client\""));
    // One token comes back in 6 s.
    assert_eq!(first.number("x-ratelimit-reset"), 6);
    assert!(first.text.ends_with("service"), "{}", first.text);

    // A report costs three.
    let report = envoy.get("/reports").await;
    assert_eq!((report.status(), report.number("x-ratelimit-remaining")), ("200", 6));
    for _ in 0..2 {
        assert_eq!(envoy.get("/reports").await.status(), "200");
    }
    let refused = envoy.get("/reports").await;
    assert_eq!(refused.status(), "429", "{}", refused.text);
    assert!((1..=18).contains(&refused.number("retry-after")), "{}", refused.text);
    assert_eq!(refused.number("x-ratelimit-remaining"), 0);
    assert!(refused.number("x-ratelimit-reset") >= refused.number("retry-after"));
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert!(refused.text.contains("quota-exceeded"), "{}", refused.text);

    // Without an answer requests pass, as the configuration says.
    server.end().await.unwrap();
    let unlimited = envoy.get("/reports").await;
    assert_eq!((unlimited.status(), unlimited.header("x-ratelimit-remaining")), ("200", None));
}

#[tokio::test]
async fn a_real_envoy_limits_by_files_of_envoyproxy_ratelimit() {
    let Some(binary) = tools::envoy() else { return };
    let (server, address) = server(|settings| settings.envoy.push(examples().join("ratelimit"))).await;
    let envoy = Envoy::start(&binary, "files", address).await;
    let first = envoy.get("/").await;
    assert_eq!(
        first.header("x-ratelimit-limit"),
        Some("10, 10;w=3600;name=\"per-client\""),
        "{}",
        first.text
    );
    assert_eq!((first.status(), first.number("x-ratelimit-remaining")), ("200", 9));
    let reset = first.number("x-ratelimit-reset");
    assert!((1..=3_600).contains(&reset), "{reset}");
    for left in [6, 3, 0] {
        assert_eq!(envoy.get("/reports").await.number("x-ratelimit-remaining"), left);
    }
    let refused = envoy.get("/").await;
    assert_eq!((refused.status(), refused.header("x-envoy-ratelimited")), ("429", Some("true")));
    let wait = refused.number("retry-after");
    assert!(wait <= reset && wait > 0, "{wait}");
    drop(server);
}
