//! Two servers, one Redis, one limit; and what each rule says when Redis is stopped in the middle.
//!
//! ```console
//! $ cargo run -p tollgate-server --example two_servers
//! ```
//!
//! It starts `redis-server` itself, on a port of its own. Two processes that run
//! `tollgate serve --rules rules.toml --http ADDRESS` with this file do the same.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tollgate_server::{Server, Settings};

/// The rules of both servers. Each path is another answer to a Redis that is gone.
const RULES: &str = "version = 1
stores.redis = { url = 'redis://127.0.0.1:PORT', deadline = '1s' }

[[rule]]
name = 'strict'
match.path = '/strict'
key = 'client'
limits = '10/h,burst=10'
store = 'redis'

[[rule]]
name = 'open'
match.path = '/open'
key = 'client'
limits = '10/h,burst=10'
store = 'redis'
on_failure = 'allow'

[[rule]]
name = 'shares'
match.path = '/shares'
key = 'client'
limits = '10/h,burst=10'
store = 'redis'
on_failure = { local = 2 }
";

/// A Redis, which is killed in the end.
struct Redis(Child);

impl Redis {
    fn start(port: u16) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        let child = command.stdout(Stdio::null()).spawn();
        let redis = Self(child.map_err(|error| format!("redis-server must be installed: {error}"))?);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// The status of a check of a request of a client to this path.
fn check(server: &str, path: &str, client: &str) -> Result<u16, Box<dyn Error>> {
    let body = format!(r#"{{ "target": "{path}", "client": "{client}" }}"#);
    let mut stream = TcpStream::connect(server)?;
    let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length:";
    stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).ok_or("no answer")?;
    Ok(status.parse()?)
}

/// Asks both servers in turns, and says what they said.
fn ask(servers: &[String], path: &str) -> Result<String, Box<dyn Error>> {
    let mut counts = [[0; 3]; 2];
    for number in 0..30 {
        let status = check(&servers[number % 2], path, "203.0.113.9")?;
        let column = [200, 429, 503].iter().position(|known| *known == status);
        counts[number % 2][column.ok_or_else(|| format!("status {status}"))?] += 1;
    }
    let [[one, ..], [other, ..]] = counts;
    let [limited, unavailable] = [1, 2].map(|column| counts[0][column] + counts[1][column]);
    let said = format!("  {path:<8} {one:>2} + {other:>2} admitted, {limited:>2} limited (429)");
    Ok(format!("{said}, {unavailable:>2} without a store (503)"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run(|line| println!("{line}")).await
}

/// Tells each line of what happens.
pub(crate) async fn run(mut tell: impl FnMut(String) + Send + 'static) -> Result<(), Box<dyn Error>> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let redis = Redis::start(port)?;
    let file = std::env::temp_dir().join(format!("tollgate-two-servers-{}.toml", std::process::id()));
    std::fs::write(&file, RULES.replace("PORT", &port.to_string()))?;
    let (mut running, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut settings = Settings::new(&file);
        settings.http.push("127.0.0.1:0".parse()?);
        let server = Server::start(settings).await?;
        servers.push(server.addresses().next().ok_or("no address")?.to_string());
        running.push(server);
    }
    let paths = ["/strict", "/open", "/shares"];
    let asked = tokio::task::spawn_blocking(move || -> Result<(), String> {
        let mut ask_all = |what: &str| {
            tell(what.to_owned());
            paths.iter().try_for_each(|path| {
                tell(ask(&servers, path).map_err(|error| error.to_string())?);
                Ok::<_, String>(())
            })
        };
        ask_all("two servers, one Redis, 10 an hour, 15 requests to each:")?;
        drop(redis);
        ask_all("Redis is stopped:")?;
        let _redis = Redis::start(port).map_err(|error| error.to_string())?;
        // Another client: it takes nothing from the one that is counted.
        let fails =
            |server: &String| check(server, "/strict", "198.51.100.1").is_ok_and(|status| status == 503);
        while servers.iter().any(fails) {
            sleep(Duration::from_millis(50));
        }
        ask_all("Redis is back, and has forgotten:")
    });
    asked.await??;
    std::fs::remove_file(&file)?;
    Ok(())
}
