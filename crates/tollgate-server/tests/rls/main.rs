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
mod wire;

use std::net::SocketAddr;
use std::path::Path;

use proto::{Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tollgate_server::Settings;
use tollgate_testing::servers::{Running, loopback};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

async fn start(rules: &str) -> Running {
    start_with(rules, |_, _| {}).await
}

/// `edit` gets the settings, and a folder for further files.
async fn start_with(rules: &str, edit: impl FnOnce(&mut Settings, &Path)) -> Running {
    let settings = |settings: &mut Settings, folder: &Path| {
        settings.grpc.push(loopback());
        edit(settings, folder);
    };
    Running::start(rules, settings).await
}

async fn client(server: &Running) -> Client {
    Client::connect(server.grpc()).await
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
