//! What the mode can be had for.

use std::time::Duration;

use tollgate::{FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, TokenBucket};
use tollgate_redis::{BuildError, Mode, Redis};

use crate::{PATIENT, on_each_store};

#[test]
fn single_limits_without_a_queue_have_leases() {
    on_each_store(|server| async move {
        let redis = Redis::builder(server.url()).deadline(PATIENT).build().await.unwrap();
        let rate = Rate::per_second(10);
        let bucket = Quota::from(TokenBucket::new(rate));
        let queue = Quota::from(LeakyBucket::queue(rate).capacity(9));
        let build = |quotas: &[Quota], mode| redis.limiter("l", quotas.to_vec()).mode(mode).build();
        for quota in [bucket, FixedWindow::new(rate).into(), SlidingLog::new(rate).into()] {
            assert!(build(&[quota], Mode::leased(3)).is_ok(), "{quota}");
        }
        let refused = |quotas: &[Quota], mode| build(quotas, mode).unwrap_err().to_string();
        assert_eq!(refused(&[queue], Mode::leased(3)), "the store has no leases of a queue: leave it out");
        let several = "the store has no leases of several limits: leave it out";
        assert_eq!(refused(&[bucket, bucket], Mode::leased(3)), several);
        let ttl = Duration::from_micros(999);
        let error = build(&[bucket], Mode::Leased { ttl, nodes: 1 }).unwrap_err();
        let (min, max) = (1_000_000, 60_000_000_000);
        assert_eq!(error, BuildError::OutOfRange { field: "ttl", value: 999_000, min, max });
        assert!(matches!(
            build(&[bucket], Mode::leased(0)).unwrap_err(),
            BuildError::OutOfRange { field: "nodes", value: 0, min: 1, .. }
        ));
    });
}
