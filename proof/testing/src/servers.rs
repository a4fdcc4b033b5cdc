//! Servers of this process, each with its rules in a folder of its own.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::Value;
use tollgate_server::{ListenAddress, Server, Settings};

use crate::client;
use crate::folder::Folder;
use crate::http::{self, Answer};

/// Where a server listens: at the first listener for HTTP, administration, gRPC, Redis clients,
/// and the proxy.
#[derive(Clone, Copy, Debug)]
pub struct Addresses([Option<SocketAddr>; 5]);

impl Addresses {
    /// The address for HTTP.
    pub fn http(&self) -> SocketAddr {
        self.0[0].expect("a listener for HTTP")
    }

    /// The address for administration.
    pub fn admin(&self) -> SocketAddr {
        self.0[1].expect("a listener for administration")
    }

    /// The address for gRPC.
    pub fn grpc(&self) -> SocketAddr {
        self.0[2].expect("a listener for gRPC")
    }

    /// The address for Redis clients.
    pub fn resp(&self) -> SocketAddr {
        self.0[3].expect("a listener for Redis clients")
    }

    /// The address of the proxy.
    pub fn proxy(&self) -> SocketAddr {
        self.0[4].expect("a listener of the proxy")
    }
}

/// A port of this machine that the system chooses.
pub fn loopback() -> ListenAddress {
    ListenAddress::Tcp(([127, 0, 0, 1], 0).into())
}

/// Starts a server with these settings.
pub async fn begin(settings: Settings) -> (Server, Addresses) {
    let Settings { http, admin, grpc, resp, proxy, .. } = &settings;
    let counts = [http, admin, grpc, resp, proxy].map(Vec::len);
    let server = Server::start(settings).await.unwrap_or_else(|error| panic!("{error}"));
    let all: Vec<_> = server.addresses().collect();
    let mut before = 0;
    let addresses = counts.map(|count| {
        let own = &all[before..before + count];
        before += count;
        match own.first()? {
            ListenAddress::Tcp(address) => Some(*address),
            _ => None,
        }
    });
    (server, Addresses(addresses))
}

/// A server, which ends with the value.
#[derive(Debug)]
pub struct Running {
    /// The server itself.
    pub server: Server,
    /// Where it listens.
    pub addresses: Addresses,
    /// `rules.toml`, and what a test writes beside it.
    pub folder: Folder,
}

impl Deref for Running {
    type Target = Addresses;

    fn deref(&self) -> &Addresses {
        &self.addresses
    }
}

impl Running {
    /// Starts a server with the listeners that `edit` pushes. It gets the settings, and the folder
    /// for further files. The line `version = 1` may be left out of the rules.
    pub async fn start(rules: &str, edit: impl FnOnce(&mut Settings, &Path)) -> Self {
        let folder = Folder::new();
        let version = if rules.trim_start().starts_with("version") { "" } else { "version = 1\n" };
        let mut settings = Settings::new(folder.write("rules.toml", format!("{version}{rules}")));
        edit(&mut settings, folder.path());
        let (server, addresses) = begin(settings).await;
        Self { server, addresses, folder }
    }

    /// The file of the rules.
    pub fn rules(&self) -> PathBuf {
        self.folder.path().join("rules.toml")
    }

    /// Asks by HTTP.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        client::call(self.http(), method, path, headers, body).await
    }

    /// Posts by HTTP.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.call("POST", path, &[], body).await
    }

    /// The JSON of an answer by HTTP.
    pub async fn ask(&self, path: &str, body: &Value) -> Value {
        self.post(path, body.to_string()).await.json()
    }

    /// Has a request decided, and blocks meanwhile.
    pub fn check(&self, body: &str) -> Answer {
        let headers = [("host", "x"), ("content-type", "application/json")];
        http::ask(self.http(), "POST", "/v1/check", &headers, body)
    }

    /// Asks with the headers that a local administrator sends, and blocks meanwhile.
    pub fn administer(&self, method: &str, path: &str, body: &str) -> Answer {
        let host = self.admin().to_string();
        self.administer_with(method, path, &[("host", &host), ("x-tollgate", "1")], body)
    }

    /// Asks the administration with these headers and no others, and blocks meanwhile.
    pub fn administer_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        http::ask(self.admin(), method, path, headers, body)
    }
}
