//! One rate limit for many processes, exact, in Redis or Valkey.

mod answer;
mod backend;
mod builder;
mod connection;
mod error;
mod failed;
mod limiter;
mod name;
mod quota;
mod script;

pub use answer::{Answer, DecidedBy, LimitAnswer, Receipt};
pub use builder::{LimiterBuilder, Redis, RedisBuilder, Time};
pub use error::{BuildError, ReserveError};
pub use failed::{Charged, Failed, FailureKind};
pub use limiter::Limiter;
pub use quota::Resolution;
