//! The messages of Envoy, as generated: see proto/README.md. The modules are their packages.

#![allow(missing_docs, unreachable_pub, dead_code, unused_qualifications, clippy::all)]

pub(crate) mod envoy {
    pub(crate) mod config {
        pub(crate) mod core {
            pub(crate) mod v3 {
                include!("generated/envoy.config.core.v3.rs");
            }
        }
    }
    pub(crate) mod extensions {
        pub(crate) mod common {
            pub(crate) mod ratelimit {
                pub(crate) mod v3 {
                    include!("generated/envoy.extensions.common.ratelimit.v3.rs");
                }
            }
        }
    }
    pub(crate) mod service {
        pub(crate) mod ratelimit {
            pub(crate) mod v3 {
                include!("generated/envoy.service.ratelimit.v3.rs");
            }
        }
    }
    pub(crate) mod r#type {
        pub(crate) mod v3 {
            include!("generated/envoy.r#type.v3.rs");
        }
    }
}

pub(crate) use envoy::config::core::v3::HeaderValue;
pub(crate) use envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub(crate) use envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
pub(crate) use envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit, rate_limit::Unit,
};
pub(crate) use envoy::service::ratelimit::v3::rate_limit_service_server;
pub(crate) use envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
pub(crate) use envoy::r#type::v3::RateLimitUnit;

/// All of them, as reflection tells it.
pub(crate) const DESCRIPTOR: &[u8] = include_bytes!("generated/descriptor.bin");
