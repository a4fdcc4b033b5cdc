#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod backend;
mod breaker;
mod builder;
mod centre;
mod cluster;
mod connection;
mod data;
mod deny;
mod error;
mod failed;
mod failure_log;
#[cfg(test)]
mod fake;
mod fallback;
mod guard;
mod id;
mod layers;
mod lease;
mod limiter;
mod metrics;
mod name;
mod pulse;
mod quota;
#[cfg(feature = "rules")]
pub mod rules;
mod script;
mod shadow;
mod shared;
#[cfg(test)]
mod simulation;
mod store;
mod sync;

pub use answer::{Answer, DecidedBy, LimitAnswer, Receipt};
pub use builder::{LimiterBuilder, Redis, RedisBuilder};
pub use centre::{Centre, CentreBuilder, CentreLimiter, CentreLimiterBuilder, ForwardCounts};
pub use data::Data;
pub use error::{BuildError, ReserveError};
pub use failed::{Charged, Failed, FailureKind};
pub use fallback::OnFailure;
pub use guard::BreakerCounts;
pub use lease::{LeaseCounts, Mode};
pub use limiter::Limiter;
pub use metrics::{Counts, TripCounts};
pub use quota::Resolution;
pub use script::Script;
pub use shared::Time;
