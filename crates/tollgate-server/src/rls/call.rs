//! What a call may ask, and why it is not decided.

use std::fmt;

use tollgate_rules_file::EnvoyCallError;

use super::proto::{Code, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};

/// The most descriptors of a call.
pub(super) const DESCRIPTORS: usize = 64;

/// The most entries of a descriptor.
pub(super) const ENTRIES: usize = 32;

/// Why a call is not decided. Nothing is charged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    NoDomain,
    NoDescriptors,
    TooManyDescriptors,
    TooManyEntries { descriptor: usize },
    UnknownUnit { descriptor: usize },
}

/// The hits of a descriptor: its own, or else those of the call. 0 only looks.
pub(super) fn hits(call: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> u64 {
    descriptor.hits_addend.unwrap_or(call.hits_addend.max(1).into())
}

/// The code of all statuses together.
pub(super) fn overall(response: &RateLimitResponse) -> Code {
    let is_over = response.statuses.iter().any(|status| status.code() == Code::OverLimit);
    if is_over { Code::OverLimit } else { Code::Ok }
}

impl CallError {
    /// As metrics say it.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::NoDomain => "no_domain",
            Self::NoDescriptors => "no_descriptors",
            Self::TooManyDescriptors => "too_many_descriptors",
            Self::TooManyEntries { .. } => "too_many_entries",
            Self::UnknownUnit { .. } => "unknown_unit",
        }
    }
}

impl From<EnvoyCallError> for CallError {
    fn from(error: EnvoyCallError) -> Self {
        match error {
            EnvoyCallError::NoDomain => Self::NoDomain,
            EnvoyCallError::UnknownUnit { descriptor } => Self::UnknownUnit { descriptor },
            _ => Self::NoDescriptors,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDomain => f.write_str("rate limit domain must not be empty"),
            Self::NoDescriptors => f.write_str("rate limit descriptor list must not be empty"),
            Self::TooManyDescriptors => write!(f, "a call has at most {DESCRIPTORS} descriptors"),
            Self::TooManyEntries { descriptor } => {
                write!(f, "descriptor {descriptor} has more than {ENTRIES} entries")
            }
            Self::UnknownUnit { descriptor } => {
                write!(f, "the limit of descriptor {descriptor} has an unknown unit")
            }
        }
    }
}
