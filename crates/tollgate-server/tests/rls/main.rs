//! Envoy's rate limit service: over gRPC, as JSON, and behind a real Envoy.

mod generated;
