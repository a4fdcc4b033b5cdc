//! What all contestants are asked to do.

use std::hash::Hash;

use super::rate_net_key::RateNetKey;
use crate::limit::Limit;

/// The settings of a limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// The limit of each key.
    pub(crate) limit: Limit,
    /// The most keys, for limiters that bound their memory.
    pub(crate) keys: usize,
    /// The units of a check.
    pub(crate) cost: u32,
}

impl Task {
    /// A task with one unit for each check.
    pub(crate) fn new(limit: Limit, keys: usize) -> Self {
        Self { limit, keys, cost: 1 }
    }
}

/// A type of keys that all limiters with keys of any type accept.
pub(crate) trait AnyKey:
    Hash + Eq + Clone + Send + Sync + ::tollgate::Key + RateNetKey + 'static
{
}
impl<K: Hash + Eq + Clone + Send + Sync + ::tollgate::Key + RateNetKey + 'static> AnyKey for K {}
