//! The contestants: one file for each crate, used as the crate's documentation advises.

mod given;
mod governor;
mod leaky_bucket;
mod mutex_map;
mod pingora;
mod rate_net;
mod rate_net_key;
mod ratelimit;
mod task;
mod throttlecrab;
mod tollgate;

use self::given::given;
use crate::contest::Contestant;
use crate::limit::Limit;

pub(crate) use self::governor::FASTEST as FASTEST_PEER;
pub(crate) use self::task::{AnyKey, Task};
pub(crate) use self::throttlecrab::throttlecrab;
pub(crate) use self::tollgate::{
    batches, leased, of_algorithms, of_several_limits, prepared, tollgate, trusted,
};

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
