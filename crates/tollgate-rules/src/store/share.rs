//! What one of several processes keeps of a limit.

use std::time::Duration;

use tollgate::{
    BuildError, Clock, FixedWindow, LeakyBucket, Limiter, MOST_LIMITS, Quota, Rate, SlidingLog,
    SlidingWindow, TokenBucket,
};

/// The keys that a share has room for, and the memory that they may come to take. Of long logs that
/// is the room of fewer keys.
const MOST_KEYS: usize = 1 << 16;
const MOST_BYTES: usize = 1 << 30;

/// One of `nodes` processes' share of some limits: what it keeps of them by itself while the store
/// of all does not answer. Limits and rates are divided by the number of nodes, limits rounded down
/// and at least 1.
///
/// # Errors
///
/// No nodes, or a share that the engine cannot keep: a slow rate of many nodes.
///
/// # Examples
///
/// ```
/// use tollgate::{ManualClock, Rate, TokenBucket};
/// use tollgate_rules::local_share;
///
/// let quota = TokenBucket::new(Rate::per_second(150)).burst(30).into();
/// let limiter = local_share(&[quota], 3, ManualClock::new())?;
/// assert!(limiter.check_n(b"alice", 10).is_allowed());
/// assert!(!limiter.check(b"alice").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub fn local_share<C: Clock + 'static>(
    quotas: &[Quota],
    nodes: u32,
    clock: C,
) -> Result<Limiter<[u8], Quota, MOST_LIMITS, C>, BuildError> {
    if nodes == 0 {
        let (min, max) = (1, u128::from(u32::MAX));
        return Err(BuildError::OutOfRange { field: "nodes", value: 0, min, max });
    }
    let shares: Vec<_> = quotas.iter().map(|&quota| share(quota, nodes)).collect();
    let builder = |keys| Limiter::builder(shares.to_vec()).per().max_keys(keys);
    let mut keys = MOST_KEYS;
    while keys > 1 && builder(keys).memory()? > MOST_BYTES {
        keys /= 2;
    }
    builder(keys).clock(clock).build()
}

/// One node's share of a quota.
///
/// What a store does not support (first hits, intervals, sub-windows) never comes here: the limiter
/// is not built.
fn share(quota: Quota, nodes: u32) -> Quota {
    let part = |units: u64| (units / u64::from(nodes)).max(1);
    let (rate, limit) = (quota.rate(), part(quota.limit()));
    let windowed = Rate::new(part(rate.count()), rate.period());
    match quota {
        Quota::TokenBucket(_) => TokenBucket::new(slower(rate, nodes)).burst(limit).into(),
        Quota::LeakyBucket(_) if quota.is_queue() => {
            LeakyBucket::queue(slower(rate, nodes)).capacity(limit).into()
        }
        Quota::LeakyBucket(_) => LeakyBucket::meter(slower(rate, nodes)).capacity(limit).into(),
        Quota::SlidingWindow(_) => SlidingWindow::new(windowed).into(),
        Quota::SlidingLog(_) => SlidingLog::new(windowed).into(),
        _ => FixedWindow::new(windowed).into(),
    }
}

/// The rate divided by the number of nodes, exactly.
fn slower(rate: Rate, nodes: u32) -> Rate {
    match rate.count() % u64::from(nodes) {
        0 => Rate::new(rate.count() / u64::from(nodes), rate.period()),
        // A period that the engine cannot represent is an error when the limiter is built.
        _ => Rate::new(rate.count(), rate.period().checked_mul(nodes).unwrap_or(Duration::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;

    use super::*;

    fn shared(quota: impl Into<Quota>, nodes: u32) -> Quota {
        share(quota.into(), nodes)
    }

    #[test]
    fn a_share_is_the_limit_divided_by_the_nodes() {
        let bucket = TokenBucket::new(Rate::per_second(150)).burst(100);
        assert_eq!(shared(bucket, 3), TokenBucket::new(Rate::per_second(50)).burst(33).into());
        let queue = LeakyBucket::queue(Rate::per_second(10)).capacity(9);
        let slow = Rate::new(10, Duration::from_secs(3));
        assert_eq!(shared(queue, 3), LeakyBucket::queue(slow).capacity(3).into());
        let window = FixedWindow::new(Rate::per_day(100));
        assert_eq!(shared(window, 7), FixedWindow::new(Rate::per_day(14)).into());
        let window = SlidingWindow::new(Rate::per_day(100));
        assert_eq!(shared(window, 2), SlidingWindow::new(Rate::per_day(50)).into());
        assert_eq!(shared(SlidingLog::new(Rate::per_day(9)), 2), SlidingLog::new(Rate::per_day(4)).into());
    }

    #[test]
    fn a_share_is_at_least_one() {
        for quota in [
            TokenBucket::new(Rate::per_second(2)).into(),
            LeakyBucket::meter(Rate::per_second(2)).into(),
            FixedWindow::new(Rate::per_second(2)).into(),
            SlidingWindow::new(Rate::per_second(2)).into(),
            Quota::from(SlidingLog::new(Rate::per_second(2))),
        ] {
            let local = local_share(&[quota], 5, ManualClock::new()).unwrap();
            assert!(local.check_n(b"alice", 1).is_allowed(), "{quota}");
            assert!(!local.check_n(b"alice", 1).is_allowed(), "{quota}");
        }
    }

    /// Of 65,536 keys it would take more than the budget of a limiter.
    #[test]
    fn a_long_log_has_room_for_fewer_keys() {
        let log = SlidingLog::new(Rate::per_day(10_000)).into();
        let local = local_share(&[log], 1, ManualClock::new()).unwrap();
        assert!(local.check_n(b"alice", 10_000).is_allowed() && !local.check_n(b"alice", 1).is_allowed());
    }

    #[test]
    fn no_nodes_are_refused() {
        let quota = TokenBucket::new(Rate::per_second(2)).into();
        let error = local_share(&[quota], 0, ManualClock::new()).unwrap_err();
        assert!(matches!(error, BuildError::OutOfRange { field: "nodes", value: 0, min: 1, .. }));
    }
}
