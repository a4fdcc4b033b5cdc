//! The arithmetic of `CL.THROTTLE` against a plain one in 128 bits.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::Timestamp;

use super::probe;
use crate::resp::throttle::{Throttle, Wrong};

const SECOND: i128 = 1_000_000_000;

/// What redis-cell computes, line by line, where nothing wraps: its numbers are durations of whole
/// nanoseconds.
fn plainly(
    burst: i64,
    count: i64,
    period: i64,
    quantity: i64,
    debt: i128,
) -> Result<(bool, [i64; 5]), Wrong> {
    let period = i128::from(period) * SECOND;
    let emission = if count == 0 { 0 } else { (period as f64 / count as f64) as i64 };
    if emission == 0 {
        return Err(Wrong::ZeroRate);
    }
    let limit = i128::from(burst) + 1;
    let tolerance = i128::from(emission) * limit;
    let increment = i128::from(emission) * i128::from(quantity);
    if [limit, tolerance, increment].iter().any(|number| i64::try_from(*number).is_err()) {
        return Err(Wrong::OutOfRange);
    }
    let new_tat = debt + increment;
    let diff = tolerance - new_tat;
    let (limited, mut retry_after, ttl) =
        if diff < 0 { (true, -SECOND, debt) } else { (false, -SECOND, new_tat) };
    if limited && increment <= tolerance {
        retry_after = -diff;
    }
    let next = tolerance - ttl;
    let remaining = if next > -i128::from(emission) {
        ((next / 1_000) as f64 / i128::from(emission / 1_000) as f64) as i64
    } else {
        0
    };
    let seconds = |time: i128| {
        let truncated = ((time / SECOND) as f64 + (time % SECOND) as f64 / 1e9) as i64;
        truncated + i64::from(time % SECOND / 1_000_000 > 0)
    };
    let five = [i64::from(limited), limit as i64, remaining, seconds(retry_after), seconds(ttl)];
    Ok((!limited, five))
}

/// Numbers around those where something changes.
fn number() -> impl Strategy<Value = i64> {
    let edges = prop::sample::select(vec![0, 1, -1, 2, 15, 30, 1_000_000, 1_000_000_000, i64::MAX, i64::MIN]);
    let near = (edges, -3_i64..=3).prop_map(|(edge, off)| edge.saturating_add(off));
    prop_oneof![4 => -100_i64..100, 3 => near, 1 => any::<i64>(), 1 => (0_u32..63).prop_map(|bit| 1 << bit)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn cl_throttle_is_plain_arithmetic(
        (burst, count, period, quantity) in (number(), number(), number(), number()),
        debt in prop_oneof![Just(0), 0_i64..1 << 62, (0_i64..200).prop_map(|seconds| seconds * 500_000_000)],
    ) {
        let throttle = Throttle::new(burst, count, period, quantity);
        let plain = plainly(burst, count, period, quantity, debt.into());
        prop_assert_eq!(throttle.map(|throttle| throttle.answer(debt)), plain);
        if let (Ok(throttle), Ok((is_admitted, five))) = (throttle, plain)
            && let Some((charge, tolerance)) = throttle.charge()
        {
            // As the limiter decides it, and by the debt that it tells.
            prop_assert_eq!(debt as u64 + charge <= tolerance, is_admitted);
            let told = match is_admitted {
                true => throttle.admitted(debt + charge as i64),
                false => throttle.refused(debt),
            };
            prop_assert_eq!(told, five);
        }
    }
}

/// redis-cell's own vectors (brandur/redis-cell, MIT): five at once, one a second. Time in
/// milliseconds, quantity; remaining, reset, retry, limited.
#[test]
fn redis_cells_own_vectors_are_answered() {
    let probe = probe();
    for (at, quantity, remaining, reset, retry, limited) in [
        (0, 6, 5, 0, -1, 1),
        (0, 1, 4, 1, -1, 0),
        (0, 1, 3, 2, -1, 0),
        (0, 1, 2, 3, -1, 0),
        (0, 1, 1, 4, -1, 0),
        (0, 1, 0, 5, -1, 0),
        (0, 1, 0, 5, 1, 1),
        (3_000, 1, 2, 3, -1, 0),
        (3_100, 1, 1, 4, -1, 0),
        (4_000, 1, 1, 4, -1, 0),
        (8_000, 1, 4, 1, -1, 0),
        (9_500, 1, 4, 1, -1, 0),
        (9_500, 0, 4, 1, -1, 0),
        (9_500, 2, 2, 3, -1, 0),
        (9_500, 5, 2, 3, 3, 1),
    ] {
        probe.clock.set(Timestamp::ZERO + Duration::from_millis(at));
        let said = format!("CL.THROTTLE k 4 1 1 {quantity}\r\n");
        let heard = probe.answers([said.as_bytes()]).output;
        let five = format!("*5\r\n:{limited}\r\n:5\r\n:{remaining}\r\n:{retry}\r\n:{reset}\r\n");
        assert_eq!(String::from_utf8(heard).unwrap(), five, "{quantity} at {at} ms");
    }
}

/// A refused call is admitted at the nanosecond after which a debt of redis-cell would have ended:
/// no part of a millisecond is forgotten.
#[test]
fn no_part_of_a_millisecond_is_forgotten() {
    let probe = probe();
    let limited = |nanos| {
        probe.clock.set(Timestamp::from_nanos(nanos));
        probe.answers([&b"CL.THROTTLE k 0 3000 1\r\n"[..]]).output.starts_with(b"*5\r\n:1")
    };
    assert_eq!(
        [0, 333_332, 333_333, 333_334, 666_665, 666_666].map(limited),
        [false, true, false, true, true, false]
    );
}
