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

/// The status of a check of a request to this path.
fn check(server: &str, path: &str) -> Result<u16, Box<dyn Error>> {
    let body = format!(r#"{{ "target": "{path}", "client": "203.0.113.9" }}"#);
    let mut stream = TcpStream::connect(server)?;
    let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length:";
    stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).ok_or("no answer")?;
    Ok(status.parse()?)
}

/// Asks both servers in turns, and prints what they said.
fn ask(servers: &[String], path: &str) -> Result<(), Box<dyn Error>> {
    let mut counts = [[0; 3]; 2];
    for number in 0..30 {
        let status = check(&servers[number % 2], path)?;
        let column = [200, 429, 503].iter().position(|known| *known == status);
        counts[number % 2][column.ok_or_else(|| format!("status {status}"))?] += 1;
    }
    let [[one, ..], [other, ..]] = counts;
    let [limited, unavailable] = [1, 2].map(|column| counts[0][column] + counts[1][column]);
    println!(
        "  {path:<8} {one:>2} + {other:>2} admitted, {limited:>2} limited (429), {unavailable:>2} without a store (503)"
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
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
        let ask_all = || paths.iter().try_for_each(|path| ask(&servers, path)).map_err(|e| e.to_string());
        println!("two servers, one Redis, 10 an hour, 15 requests to each:");
        ask_all()?;
        println!("Redis is stopped:");
        drop(redis);
        ask_all()?;
        println!("Redis is back, and has forgotten:");
        let _redis = Redis::start(port).map_err(|error| error.to_string())?;
        while check(&servers[0], "/strict").is_ok_and(|status| status == 503)
            || check(&servers[1], "/strict").is_ok_and(|status| status == 503)
        {
            sleep(Duration::from_millis(50));
        }
        ask_all()
    });
    asked.await??;
    std::fs::remove_file(&file)?;
    Ok(())
}
