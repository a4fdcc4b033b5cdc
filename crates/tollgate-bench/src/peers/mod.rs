//! The contestants: one file for each crate, used as the crate's documentation advises.

mod given;
mod governor;
mod leaky_bucket;
mod mutex_map;
mod pingora;
mod rate_net;
mod ratelimit;
mod throttlecrab;
mod tollgate;

use std::hash::Hash;

use self::given::given;
use crate::contest::Contestant;
use crate::limit::Limit;

pub(crate) use self::governor::FASTEST as FASTEST_PEER;
pub(crate) use self::rate_net::RateNetKey;
pub(crate) use self::throttlecrab::throttlecrab;
pub(crate) use self::tollgate::{
    batches, leased, of_algorithms, of_several_limits, prepared, tollgate, trusted,
};

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

/// Returns all limiters with keys of any type.
pub(crate) fn keyed<K: AnyKey>(task: Task) -> Vec<Contestant<K>> {
    vec![
        tollgate(task),
        governor::keyed(task),
        governor::keyed_by_ahash(task),
        rate_net::keyed(task),
        pingora::keyed(task),
        mutex_map::keyed(task),
    ]
}

/// Returns the limiters that keep an exact limit for each key, so no sketch.
pub(crate) fn exact<K: AnyKey>(task: Task) -> Vec<Contestant<K>> {
    keyed(task).into_iter().filter(|contestant| contestant.name != pingora::NAME).collect()
}

/// Returns all limiters with one limit without a key.
pub(crate) fn unkeyed(limit: Limit) -> Vec<Contestant<()>> {
    vec![
        tollgate::unkeyed(limit),
        governor::unkeyed(limit),
        rate_net::unkeyed(limit),
        ratelimit::unkeyed(limit),
        leaky_bucket::unkeyed(limit),
    ]
}

/// Returns governor, for workloads that use Tollgate in a way that no peer has.
pub(crate) fn governors<K: AnyKey>(task: Task) -> Vec<Contestant<K>> {
    vec![governor::keyed(task), governor::keyed_by_ahash(task)]
}

/// Returns the limiters that can be given the time.
pub(crate) fn time_given<K: AnyKey>(task: Task) -> Vec<Contestant<K>> {
    vec![
        tollgate::time_given(task),
        governor::time_given(task),
        governor::time_given_by_ahash(task),
        mutex_map::time_given(task),
    ]
}

/// Returns the limiters with a coarse clock.
pub(crate) fn coarse(task: Task) -> Vec<Contestant<u64>> {
    vec![tollgate::coarse(task), governor::coarse(task), rate_net::coarse(task)]
}

/// Returns the five algorithms of Tollgate and of the peer with five algorithms.
pub(crate) fn algorithms() -> Vec<Contestant<u64>> {
    of_algorithms().into_iter().chain(rate_net::of_algorithms()).collect()
}
