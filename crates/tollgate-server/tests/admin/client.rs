//! A server with rules in a directory of its own, and a client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use serde_json::Value;
use tollgate_server::{Server, Settings};

pub(crate) const RULES: &str = "version = 1
rule = [
    { name = 'each', key = 'client', limits = 'fixed-window:10/h' },
    { name = 'user', key = 'header.x-user', limits = 'fixed-window:5/h', missing = 'pass', ban = '10min' },
    { name = 'try', key = 'everyone', limits = '1000/s', mode = 'shadow' },
]
";

pub(crate) struct TestServer {
    _server: Server,
    pub(crate) address: String,
    pub(crate) http: String,
    pub(crate) proxy: String,
    pub(crate) directory: PathBuf,
}

pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl TestServer {
    pub(crate) async fn start(rules: &str, set: impl FnOnce(&mut Settings, &PathBuf)) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("tollgate-admin-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("rules.toml"), rules).unwrap();
        let mut settings = Settings::new(directory.join("rules.toml"));
        settings.admin.push("127.0.0.1:0".parse().unwrap());
        set(&mut settings, &directory);
        let before_admin = settings.http.len();
        let server = Server::start(settings).await.unwrap();
        let addresses: Vec<_> = server.addresses().map(ToString::to_string).collect();
        // `http`, `admin`, `proxy`: this is the first and the last of those that there are.
        let (http, proxy) = (addresses[0].clone(), addresses[addresses.len() - 1].clone());
        Self { _server: server, address: addresses[before_admin].clone(), http, proxy, directory }
    }

    /// Asks with the headers that a local administrator sends.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Answered {
        let host = self.address.clone();
        self.ask_with(method, path, &[("host", &host), ("x-tollgate", "1")], body)
    }

    /// Asks with these headers and no others.
    pub(crate) fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answered {
        Self::ask_at(&self.address, method, path, headers, body)
    }

    /// Has a request decided.
    pub(crate) fn check(&self, body: &str) -> Answered {
        let headers = [("host", "x"), ("content-type", "application/json")];
        Self::ask_at(&self.http, "POST", "/v1/check", &headers, body)
    }

    pub(crate) fn ask_at(
        address: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answered {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A server that refuses a body may close before it has read it.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answered { status: status.unwrap(), head: head.to_lowercase(), body: body.into() }
    }

    pub(crate) fn write_rules(&self, rules: &str) {
        std::fs::write(self.directory.join("rules.toml"), rules).unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
