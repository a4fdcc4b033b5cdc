//! A limit that can be put in force: a quota that the engine accepts, with room for enough keys.

use std::fmt;

use tollgate::{BuildError, Builder, MultiLimiter, Quota, Several, TscClock};

use crate::spec::Spec;

/// Keys that a limit has room for unless told otherwise. Only memory that is touched counts.
const GENEROUS: usize = 1 << 20;

/// Bytes that all limits together may reserve unless told otherwise: a log keeps a time for each admission.
const BUDGET: usize = 1 << 30;

/// A quota that was judged, and its room.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    spec: Spec,
    max_keys: usize,
    /// Whether there is room for fewer keys than by default, because they would take too much memory.
    pub(crate) is_cramped: bool,
}

impl Limit {
    /// Judges a quota; one of `of` that share the memory.
    ///
    /// # Errors
    ///
    /// The engine's own: names the setting, its value and what would be accepted.
    pub(crate) fn new(spec: Spec, max_keys: Option<usize>, of: usize) -> Result<Self, BuildError> {
        let limit = |max_keys: usize| Self { spec, max_keys, is_cramped: max_keys < GENEROUS };
        if let Some(asked) = max_keys {
            let asked = Self { is_cramped: false, ..limit(asked) };
            builder(&[asked.clone()]).memory()?;
            return Ok(asked);
        }
        let mut max_keys = GENEROUS;
        while max_keys > 1 && builder(&[limit(max_keys)]).memory()? > BUDGET / of {
            max_keys /= 2;
        }
        builder(&[limit(max_keys)]).memory()?;
        Ok(limit(max_keys))
    }

    /// What it enforces.
    pub(crate) fn quota(&self) -> Quota {
        self.spec.quota()
    }

    /// For how many keys there is room.
    pub(crate) fn max_keys(&self) -> usize {
        self.max_keys
    }
}

/// The builder of the limiter of all of them. Their tables are of one size: of the one that has least room.
pub(crate) fn builder(limits: &[Limit]) -> Builder<[u8], Several, TscClock> {
    let max_keys = limits.iter().map(Limit::max_keys).min().unwrap_or(0);
    // The memory was judged limit by limit, or asked for.
    MultiLimiter::builder(limits.iter().map(Limit::quota)).max_keys(max_keys).memory_budget(usize::MAX)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}
