//! The one method.

use std::sync::Arc;

use tollgate_net::listen::Peer;
use tonic::{Request, Response, Status};

use super::call::CallError;
use super::decide::decide;
use super::proto::rate_limit_service_server::RateLimitService;
use super::proto::{RateLimitRequest, RateLimitResponse};
use crate::core::Core;
use crate::metrics::Listener;

/// The rate limit service.
pub(super) struct Service {
    pub(super) core: Arc<Core>,
}

#[tonic::async_trait]
impl RateLimitService for Service {
    async fn should_rate_limit(
        &self,
        call: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        // The connection notes it.
        let peer = call.extensions().get().copied().unwrap_or(Peer::Unix);
        let decided = decide(&self.core, (Listener::Grpc, peer), call.get_ref()).await;
        decided.map(Response::new).map_err(|error: CallError| {
            self.core.metrics.counts(Listener::Grpc).protocol_error(error.kind(), peer.address());
            Status::invalid_argument(error.to_string())
        })
    }
}
