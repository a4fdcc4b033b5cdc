//! One rate limit for many processes, exact, in Redis or Valkey.

mod failed;

pub use failed::{Charged, Failed, FailureKind};
