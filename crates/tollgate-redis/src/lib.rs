//! One rate limit for many processes, exact, in Redis or Valkey.

#[allow(dead_code)] mod breaker;
#[allow(dead_code)] mod deny;
#[allow(dead_code)] mod fallback;
mod failed;
#[allow(dead_code)] mod guard;

pub use failed::{Charged, Failed, FailureKind};
