//! A limit that the engine accepts, with room for enough keys.

use std::fmt;

use tollgate::{BuildError, Builder, Limiter, MOST_LIMITS, Quota, TscClock};

use crate::spec::Spec;

/// Keys that a limit has room for without `--max-keys`. The system provides memory only as it is
/// used.
const DEFAULT_MAX_KEYS: usize = 1 << 20;

/// Bytes that all limits together may reserve without `--max-keys`. A sliding log stores a time for
/// each admission, so it may have room for fewer keys.
const MEMORY_BUDGET: usize = 1 << 30;

/// An accepted quota, and how many keys it has room for.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    spec: Spec,
    max_keys: usize,
    /// Whether the memory budget leaves room for fewer than the default keys.
    pub(crate) is_below_default: bool,
}

impl Limit {
    /// Accepts a quota that shares the memory budget with `limits - 1` others.
    ///
    /// # Errors
    ///
    /// The engine's own: names the setting, its value and what would be accepted.
    pub(crate) fn new(spec: Spec, max_keys: Option<usize>, limits: usize) -> Result<Self, BuildError> {
        let limit = |max_keys: usize| Self { spec, max_keys, is_below_default: max_keys < DEFAULT_MAX_KEYS };
        if let Some(asked) = max_keys {
            let asked = Self { is_below_default: false, ..limit(asked) };
            builder(std::slice::from_ref(&asked)).memory()?;
            return Ok(asked);
        }
        let mut max_keys = DEFAULT_MAX_KEYS;
        while max_keys > 1 && builder(&[limit(max_keys)]).memory()? > MEMORY_BUDGET / limits {
            max_keys /= 2;
        }
        builder(&[limit(max_keys)]).memory()?;
        Ok(limit(max_keys))
    }

    pub(crate) fn quota(&self) -> Quota {
        self.spec.quota()
    }

    /// How many keys there is room for.
    pub(crate) fn max_keys(&self) -> usize {
        self.max_keys
    }
}

/// The builder of one limiter for all limits. All tables have the size of the smallest.
pub(crate) fn builder(limits: &[Limit]) -> Builder<[u8], Quota, MOST_LIMITS, TscClock> {
    let max_keys = limits.iter().map(Limit::max_keys).min().unwrap_or(0);
    // `Limit::new` checked the memory, or the user asked for it.
    let quotas: Vec<Quota> = limits.iter().map(Limit::quota).collect();
    Limiter::builder(quotas).per().max_keys(max_keys).memory_budget(usize::MAX)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}
