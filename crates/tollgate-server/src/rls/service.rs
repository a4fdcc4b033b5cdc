//! The one method.

use std::sync::Arc;

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
        let decided = decide(&self.core, Listener::Grpc, call.get_ref()).await;
        decided.map(Response::new).map_err(|error: CallError| {
            self.core.metrics.protocol_error(Listener::Grpc, error.kind());
            Status::invalid_argument(error.to_string())
        })
    }
}
