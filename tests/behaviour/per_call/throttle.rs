//! `CL.THROTTLE` on top of the limiter, as redis-cell answers it: everything that it needs is in a
//! decision.

use std::time::Duration;

use tollgate::{Outcome, Timestamp};

use super::{Limiter, SECOND, check, limiter, nanos};

/// Seconds as redis-cell says them: one more where a whole millisecond is left over.
fn seconds(time: Duration) -> i64 {
    time.as_secs() as i64 + i64::from(time.subsec_millis() > 0)
}

/// `CL.THROTTLE key max_burst count period quantity`: limited, limit, remaining, retry, reset.
fn throttle(limiter: &Limiter, key: u64, max_burst: u64, count: u64, period: u64, quantity: u64) -> [i64; 5] {
    let emission = ((period * SECOND) as f64 / count as f64) as u64;
    let quota = nanos(emission, emission * (max_burst + 1));
    let decision = check(limiter, key, &quota, quantity);
    [
        i64::from(decision.outcome() != Outcome::Allowed),
        decision.limit() as i64,
        decision.remaining() as i64,
        decision.retry_after().map_or(-1, seconds),
        seconds(decision.reset_after()),
    ]
}

/// From redis-cell's README and its tests (brandur/redis-cell, MIT).
#[test]
fn cl_throttle_answers_as_redis_cell_does() {
    let (limiter, clock) = limiter(100);
    assert_eq!(throttle(&limiter, 1, 15, 30, 60, 1), [0, 16, 15, -1, 2]);
    assert_eq!(throttle(&limiter, 1, 15, 30, 60, 1), [0, 16, 14, -1, 4]);

    assert_eq!(throttle(&limiter, 2, 0, 1, 2, 1), [0, 1, 0, -1, 2]);
    assert_eq!(throttle(&limiter, 2, 0, 1, 2, 1), [1, 1, 0, 2, 2]);
    clock.set(Timestamp::from_nanos(2 * SECOND));
    assert_eq!(throttle(&limiter, 2, 0, 1, 2, 1), [0, 1, 0, -1, 2]);

    let quantities = [0, 17, 16, 1].map(|quantity| throttle(&limiter, 3, 15, 30, 60, quantity));
    assert_eq!(quantities, [[0, 16, 16, -1, 0], [1, 16, 16, -1, 0], [0, 16, 0, -1, 32], [1, 16, 0, 2, 32]]);
}

/// The same in milliseconds, before they are rounded: of five at once, one a second.
#[test]
fn redis_cells_own_vectors_come_out_to_the_nanosecond() {
    let (limiter, clock) = limiter(100);
    let quota = nanos(SECOND, 5 * SECOND);
    // Time, quantity; remaining, reset, retry, admitted.
    let vectors = [
        (0, 6, 5, 0, None, false),
        (0, 1, 4, 1_000, None, true),
        (0, 1, 3, 2_000, None, true),
        (0, 1, 2, 3_000, None, true),
        (0, 1, 1, 4_000, None, true),
        (0, 1, 0, 5_000, None, true),
        (0, 1, 0, 5_000, Some(1_000), false),
        (3_000, 1, 2, 3_000, None, true),
        (3_100, 1, 1, 3_900, None, true),
        (4_000, 1, 1, 4_000, None, true),
        (8_000, 1, 4, 1_000, None, true),
        (9_500, 1, 4, 1_000, None, true),
        (9_500, 0, 4, 1_000, None, true),
        (9_500, 2, 2, 3_000, None, true),
        (9_500, 5, 2, 3_000, Some(3_000), false),
    ];
    for (at, quantity, remaining, reset, retry, admitted) in vectors {
        clock.set(Timestamp::from_nanos(at * 1_000_000));
        let decision = check(&limiter, 1, &quota, quantity);
        assert_eq!(decision.is_allowed(), admitted, "{quantity} at {at} ms");
        assert_eq!((decision.limit(), decision.remaining()), (5, remaining), "{quantity} at {at} ms");
        assert_eq!(decision.reset_after(), Duration::from_millis(reset), "{quantity} at {at} ms");
        assert_eq!(decision.retry_after(), retry.map(Duration::from_millis), "{quantity} at {at} ms");
    }
}
