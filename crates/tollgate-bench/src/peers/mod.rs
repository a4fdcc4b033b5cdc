//! The contestants: one file a crate, each used as its own documentation advises.

mod governor;
mod leaky_bucket;
mod mutex_map;
mod pingora;
mod rate_net;
mod ratelimit;
mod throttlecrab;
mod tollgate;

use std::hash::Hash;

use crate::contest::Contestant;
use crate::limit::Limit;

pub(crate) use self::rate_net::Asked;
pub(crate) use self::throttlecrab::throttlecrab;
pub(crate) use self::tollgate::{
    batches, coarse, leased, of_algorithms, of_several_limits, prepared, time_given, tollgate, trusted,
};

/// What a limiter is built for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// The limit of each key.
    pub(crate) limit: Limit,
    /// Keys at most, for those who bound their memory.
    pub(crate) keys: usize,
    /// Units a check.
    pub(crate) cost: u32,
}

impl Task {
    /// One unit a check.
    pub(crate) fn new(limit: Limit, keys: usize) -> Self {
        Self { limit, keys, cost: 1 }
    }
}

/// A type of keys that all who take any key can be asked for.
pub(crate) trait AnyKey: Hash + Eq + Clone + Send + Sync + ::tollgate::Key + Asked + 'static {}
impl<K: Hash + Eq + Clone + Send + Sync + ::tollgate::Key + Asked + 'static> AnyKey for K {}

/// Everybody who takes any key.
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

/// Everybody who keeps an exact limit for each of any number of keys: no sketch.
pub(crate) fn exact<K: AnyKey>(task: Task) -> Vec<Contestant<K>> {
    keyed(task).into_iter().filter(|contestant| contestant.name != pingora::NAME).collect()
}

/// Everybody who has one limit without a key.
pub(crate) fn unkeyed(limit: Limit) -> Vec<Contestant<()>> {
    vec![
        tollgate::unkeyed(limit),
        governor::unkeyed(limit),
        rate_net::unkeyed(limit),
        ratelimit::unkeyed(limit),
        leaky_bucket::unkeyed(limit),
    ]
}

/// governor alone, for the workloads in which Tollgate is asked in a way that no peer has.
pub(crate) fn governor_alone<K: AnyKey>(task: Task) -> Contestant<K> {
    governor::keyed(task)
}

/// The peer whose clock can be coarse.
pub(crate) fn coarse_peer(task: Task) -> Contestant<u64> {
    rate_net::coarse(task)
}

/// The five algorithms of Tollgate and of the peer that has five, on one key.
pub(crate) fn algorithms() -> Vec<Contestant<u64>> {
    of_algorithms().into_iter().chain(rate_net::of_algorithms()).collect()
}
