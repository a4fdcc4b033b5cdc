//! Envoy's rate limit service: over gRPC, behind a real Envoy, and held to a naive model.

mod bounds;
mod calls;
mod clients;
mod crowd;
mod generated;
mod health;
mod json;
mod model;
#[path = "../../src/rls/proto/mod.rs"]
#[allow(unused_imports)]
mod proto;
mod ratelimit_files;
mod real_envoy;
#[path = "../../../tollgate-redis/tests/support/server.rs"]
mod redis_server;
#[path = "../tools/mod.rs"]
#[allow(dead_code)]
mod tools;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proto::{Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tollgate_server::{ListenAddress, Server, Settings};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A server of its own for a test, on a port that was free.
struct Running {
    server: Option<Server>,
    address: SocketAddr,
    folder: PathBuf,
}

impl Running {
    async fn new(rules: &str) -> Self {
        Self::with(rules, |_, _| {}).await
    }

    /// `edit` gets the settings, and a folder for further files.
    async fn with(rules: &str, edit: impl FnOnce(&mut Settings, &PathBuf)) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("tollgate-rls-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("rules.toml");
        std::fs::write(&file, format!("version = 1\n{rules}")).unwrap();
        let mut settings = Settings::new(&file);
        settings.grpc.push("127.0.0.1:0".parse().unwrap());
        edit(&mut settings, &folder);
        let server = Server::start(settings).await.unwrap();
        let Some(ListenAddress::Tcp(address)) = server.addresses().next().cloned() else {
            panic!("one address of TCP")
        };
        Self { server: Some(server), address, folder }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection for calls.
struct Client {
    grpc: tonic::client::Grpc<Channel>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        Self { grpc: tonic::client::Grpc::new(endpoint.connect().await.unwrap()) }
    }

    async fn send(&mut self, call: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let codec = tonic_prost::ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let path = http::uri::PathAndQuery::from_static(METHOD);
        Ok(self.grpc.unary(Request::new(call), path, codec).await?.into_inner())
    }

    /// The statuses of a call, after a look at the overall code.
    async fn statuses(&mut self, call: RateLimitRequest) -> Vec<DescriptorStatus> {
        let response = self.send(call).await.unwrap();
        let is_over = response.statuses.iter().any(|status| status.code() == Code::OverLimit);
        assert_eq!(response.overall_code(), if is_over { Code::OverLimit } else { Code::Ok });
        response.statuses
    }
}

/// A call with descriptors of entries.
fn call(domain: &str, descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    let entry = |&(key, value): &(&str, &str)| Entry { key: key.into(), value: value.into() };
    let descriptor = |entries: &&[(&str, &str)]| RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: domain.into(),
        descriptors: descriptors.iter().map(descriptor).collect(),
        hits_addend: 0,
    }
}

/// Code and remaining of statuses.
fn short(statuses: &[DescriptorStatus]) -> Vec<(Code, u32)> {
    statuses.iter().map(|status| (status.code(), status.limit_remaining)).collect()
}
