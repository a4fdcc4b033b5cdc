//! The clock of the buckets: the rates that it counts exactly, its running time, and its errors.

use std::time::Duration;

use super::*;
use crate::time::Reading;

fn bucket(count: u64, nanos: u64, burst: u64) -> Bucket {
    let rate = Rate::new(count, Duration::from_nanos(nanos));
    Bucket { rate, burst, burst_name: "burst", queue: false, intervals: None }
}

fn alone(count: u64, nanos: u64, burst: u64) -> Refill {
    Refill::fit(&[bucket(count, nanos, burst)], Room::ALL).expect("it fits").0
}

/// Tokens in nanoseconds. In lowest terms, except pairs that share a factor on purpose.
const EXACT: [(u64, u64); 7] =
    [(60, 60_000_000_000), (2, 999_999_999), (3, 1), (4, 7), (5, 2), (6, 86_399), (7_000, 1_000_000_001_000)];

fn largest(count: u64, nanos: u64) -> u64 {
    match bucket(count, nanos, u64::MAX).ratio().err() {
        Some(BuildError::OutOfRange { field: "burst", max, .. }) => {
            u64::try_from(max).expect("it fits a word")
        }
        other => panic!("{count} in {nanos} ns: {other:?}"),
    }
}

#[test]
fn seven_tokens_are_exact_when_they_refill_within_ten_years() {
    for (count, nanos) in EXACT {
        let refilled = u128::from(UPTIME) * u128::from(count) / u128::from(nanos);
        for burst in [1, u64::try_from(refilled).expect("it fits a word")] {
            assert!(!alone(count, nanos, burst).is_grained(), "{count} in {nanos} ns, burst {burst}");
        }
    }
}

#[test]
fn fourteen_tokens_are_exact_when_they_refill_within_months() {
    let month = |count| 30 * 86_400 * count;
    for count in (1..=14).filter(|count| count % 2 != 0 && count % 5 != 0) {
        assert!(!alone(count, 1_000_000_000, month(count)).is_grained(), "{count}/s");
    }
    for count in [17, 99_999_999] {
        assert!(alone(count, 1_000_000_000, count).is_grained(), "{count}/s");
    }
}

/// The units that a bucket refills in 73 years. Where they are few, ten years of millionths of a
/// token still fit.
#[test]
fn the_largest_burst_refills_in_73_years_or_is_4e12() {
    for (count, nanos) in [(3, 1), (7, 2), (1, 1_000), (1_000_000, 1_000_000_000)] {
        let refilled = u128::from(LONGEST) * u128::from(count) / u128::from(nanos);
        let room = u128::from(TOP) - (u128::from(UPTIME) * u128::from(count)).div_ceil(u128::from(nanos));
        assert_eq!(u128::from(largest(count, nanos)), refilled.min(room), "{count} in {nanos} ns");
    }
    for (count, nanos) in [(1, 1_000_000_000), (1, LONGEST), (999, 1_000_000_000)] {
        assert!(largest(count, nanos) >= 4_000_000_000_000, "{count} in {nanos} ns");
    }
    for (count, nanos) in
        EXACT.into_iter().chain([(1, u64::MAX), (10, 1), (99_999_999, 1_000_000_000), (19, 20)])
    {
        alone(count, nanos, largest(count, nanos));
    }
}

#[test]
fn the_fastest_rate_is_ten_tokens_a_nanosecond() {
    for nanos in [1, 3, 1_000_000_000] {
        alone(10 * nanos, nanos, 1);
        let error = bucket(10 * nanos + 1, nanos, 1).ratio().err();
        let (value, max) = (u128::from(10 * nanos + 1), u128::from(10 * nanos));
        assert_eq!(error, Some(BuildError::OutOfRange { field: "rate.count", value, min: 1, max }));
    }
}

#[test]
fn a_grain_is_below_a_nanosecond_or_a_millionth_token() {
    for (count, nanos) in [(17, 1_000_000_000), (99_999_999, 1_000_000_000), (19, 20_000), (19, 20)] {
        for burst in [1, 1_000, largest(count, nanos) / 2, largest(count, nanos)] {
            let (refill, prices) = Refill::fit(&[bucket(count, nanos, burst)], Room::ALL).expect("it fits");
            let is_fine = prices[0] >= 1_000_000 || refill.a >= refill.b;
            assert!(is_fine, "{count} in {nanos} ns, burst {burst}: {refill:?}");
            // With one more grain per token the ten years would not fit.
            let price = u128::from(prices[0] + 2);
            let finer = u128::from(UPTIME) * u128::from(count) * price / u128::from(nanos)
                + u128::from(burst) * price;
            assert!(finer > u128::from(TOP), "{count} in {nanos} ns, burst {burst}: {refill:?}");
        }
    }
}

#[test]
fn tiers_share_a_clock_on_which_each_is_exact() {
    let buckets = [bucket(4, 1_000_000_001, 9), bucket(6, 1_000_000_007, 5), bucket(12, 35, 1)];
    let (refill, prices) = Refill::fit(&buckets, Room::ALL).expect("12 grains a nanosecond");
    assert!(!refill.is_grained());
    for (bucket, price) in buckets.iter().zip(prices) {
        // The grains of a period equal the grains of the tokens in that period.
        assert_eq!(price * bucket.rate.count(), refill.a * bucket.rate.period_nanos());
    }
}

#[test]
fn the_clock_runs_while_a_full_bucket_fits_above_it() {
    for count in 5..=10 {
        for burst in 1..=20 {
            let refill = alone(count, 1, burst);
            let last = refill.last;
            let full = |time| grains(time, refill.a, refill.b) + u128::from(refill.tolerance);
            assert!(full(last) <= u128::from(TOP) && full(last + 1) > u128::from(TOP), "{refill:?}");
            assert_eq!((refill.at(last) + refill.tolerance) >> PAYLOAD_BITS, 0);
            assert_eq!(refill.at(u64::MAX), refill.at(last));
            assert_eq!(refill.top(last), refill.at(last) + refill.tolerance);
        }
    }
    let slow = alone(1, 1, 1);
    assert_eq!(slow.last, (1 << POINT) - 1, "the times for which `scale` is near enough");
}

#[test]
fn the_fastest_tier_is_exact_and_the_others_are_close() {
    let (fast, slow) = (bucket(1_013, 1_000_000_000_000, 5), bucket(1_009, 1_000_000_000_000, 1));
    for tiers in [[fast, slow], [slow, fast]] {
        let (refill, prices) = Refill::fit(&tiers, Room::ALL).expect("both fit");
        for (tier, price) in tiers.iter().zip(prices) {
            let dripped = u128::from(refill.a) * u128::from(tier.rate.period_nanos());
            let drained = u128::from(price) * u128::from(refill.b) * u128::from(tier.rate.count());
            assert!(drained >= dripped && drained - dripped <= dripped / 1_000_000_000, "{refill:?}");
            assert!(drained == dripped || tier.rate == slow.rate, "{refill:?}");
        }
    }
}

#[test]
fn the_error_names_a_tier_that_would_be_too_inexact() {
    let fast = bucket(99, 10, 1);
    let with = |slow| Refill::fit(&[fast, slow], Room::ALL).map(drop);
    assert_eq!(with(bucket(17, 1_000_000_000, 1)), Err(BuildError::TierTooFine { tier: 1 }));
    assert_eq!(with(bucket(17, 1_000_000_000_000, 1)), Ok(()));
}

/// The deep bucket takes longer to refill than the fast one, which alone would have all the room.
#[test]
fn a_deep_bucket_has_room_beside_a_grained_rate() {
    let year = UPTIME / 10;
    for (fast, deep) in [
        (bucket(999_999_937, 1_000_000_000, 1_000), bucket(1, 3_600_000_000_000, 100_000)),
        (bucket(17, 1_000_000_000, 20), bucket(17, 1_000_000_000, 2_000_000_000)),
        (bucket(1_000_003, 1_000_000_000, 1), bucket(13, year, 13 * 60)),
        (bucket(999_983, 999_979, 1), bucket(1, 99_991, LONGEST / 99_991 / 4)),
        (bucket(17, year, 1), bucket(1, year, 10_000)),
    ] {
        for tiers in [[fast, deep], [deep, fast], [deep, deep]] {
            let (refill, prices) = Refill::fit(&tiers, Room::ALL).expect("there is room");
            for (tier, &price) in tiers.iter().zip(&prices) {
                let full = u128::from(price) * u128::from(tier.burst);
                assert!(full + grains(UPTIME, refill.a, refill.b) <= u128::from(TOP), "{refill:?}");
                assert!(full <= u128::from(refill.tolerance) && price > 0, "{refill:?}");
                assert!(refill.a >= refill.b || price >= FINE, "{refill:?}");
            }
            if let Some(at) = tiers.iter().position(|tier| tier.rate == fast.rate) {
                // As fine as the room allows, up to a thousand-millionth.
                let more = |price: u64| {
                    u128::from(price + 2 + price / 500_000_000) * u128::from(refill.a)
                        / u128::from(prices[at])
                };
                let drip = |time: u128| time * more(prices[at]) / u128::from(refill.b);
                let fill = u128::from(deep.burst) * u128::from(deep.rate.period_nanos())
                    / u128::from(deep.rate.count());
                assert!(drip(fill + u128::from(UPTIME)) > u128::from(TOP), "{tiers:?}: {refill:?}");
            }
        }
    }
}

#[test]
fn the_error_names_a_tier_without_room_beside_another_bucket() {
    let deep = bucket(1, 1_000_000_000, 4_000_000_000_000);
    assert!(Refill::fit(&[deep], Room::ALL).is_ok());
    let shallow = bucket(17, 1_000_000_000, 1);
    for room in [Room::ALL, Room::after(UPTIME, TOP / 2)] {
        assert_eq!(Refill::fit(&[deep, shallow], room).map(drop), Err(BuildError::TierTooFine { tier: 1 }));
    }
}

/// A whole word would have room for these tiers, so the error blames the changes.
#[test]
fn tiers_without_room_after_changes_are_changed_too_often() {
    let fast = bucket(17, 1_000_000_000, 1);
    for (other, left) in
        [(bucket(1, 1_000_000_000, 20_000_000_000), 4 * FINE), (bucket(13, 1_000_000_000, 1), 4 * FINE)]
    {
        let tiers = [fast, other];
        assert!(Refill::fit(&tiers, Room::ALL).is_ok(), "{tiers:?}");
        let room = room_for(left, (17, 1_000_000_000));
        assert_eq!(Refill::fit(&tiers, room).map(drop), Err(BuildError::ChangedTooOften), "{tiers:?}");
    }
}

#[test]
fn rates_too_large_for_whole_grains_are_grained() {
    for tiers in [
        vec![bucket(2, 1_000_000_001, 1_000_000_000), bucket(3, 2_000_000_000, 1)],
        vec![bucket(13, 1_000_000_000, 1_000_000_000)],
    ] {
        assert!(Refill::fit(&tiers, Room::ALL).expect("there is room").0.is_grained());
    }
}

/// The same tiers, in the rest of a word after a change.
#[test]
fn a_change_makes_no_grain_finer_than_before() {
    let room = Room::after(UPTIME, 1);
    for count in [17, 1_000_003] {
        let (whole, left) =
            (alone(count, 1_000_000_000, 1), Refill::fit(&[bucket(count, 1_000_000_000, 1)], room));
        let left = left.expect("one year").0;
        assert_eq!((left.a, left.b), (whole.a, whole.b), "{count}/s");
    }
}

/// Room in which a token is exactly this many grains, in the last year.
fn room_for(grains: u64, (count, nanos): (u64, u64)) -> Room {
    let (year, wide) = (UPTIME / 10, u128::from);
    let needed = (wide(grains) * (wide(year) * wide(count) + wide(nanos))).div_ceil(wide(nanos));
    Room::after(UPTIME, TOP - u64::try_from(needed).expect("it fits a word"))
}

#[test]
fn after_a_change_a_grain_is_no_coarser_than_promised() {
    for (rate, least) in [((17, 1_000_000_000), FINE), ((17, 1_000), 59)] {
        let fit = |grains| Refill::fit(&[bucket(rate.0, rate.1, 1)], room_for(grains, rate));
        let (_, prices) = fit(least).expect("just enough");
        assert_eq!(prices, [least], "{rate:?}");
        assert_eq!(fit(least - 1).map(drop), Err(BuildError::ChangedTooOften), "{rate:?}");
    }
}

#[test]
fn a_grain_a_nanosecond_is_fine_enough_after_a_change() {
    let tiers = [bucket(1, 1_000, 1_000_000_000), bucket(3, 1_000_000_000_001, 1)];
    let room = Room::after(UPTIME, TOP - UPTIME / 10 - 1_000_000_000_000);
    let (refill, prices) = Refill::fit(&tiers, room).expect("just enough");
    assert_eq!((refill.a, refill.b, prices[0]), (1, 1, 1_000));
}

#[test]
fn a_change_leaves_room_for_ten_years_or_one_more() {
    for (since, left) in
        [(0, UPTIME), (UPTIME / 4, UPTIME - UPTIME / 4), (UPTIME, UPTIME / 10), (3 * UPTIME, UPTIME / 10)]
    {
        // One token per nanosecond: as many grains as nanoseconds.
        let fit =
            |floor| Refill::fit(&[bucket(1, 1, 1)], Room::after(since, floor)).map(|(refill, _)| refill);
        let most = TOP - left - 1;
        let refill = fit(most).expect("just enough");
        assert_eq!(refill.at(u64::MAX) - refill.at(since), left.min((1 << POINT) - 1));
        assert_eq!(fit(most + 1).map(drop), Err(BuildError::ChangedTooOften));
    }
}

/// A clock that begins with the limiter, and whose grains are nanoseconds, is one multiplication.
#[test]
fn a_whole_clock_shows_the_same_in_fewer_instructions() {
    for (count, nanos) in [(1, 1_000_000_000), (7, 3), (99_999_999, 1_000_000_000), (17, 1_000_000_000)] {
        for now in [0, 1, 1 << 30, 1 << 31, UPTIME] {
            let refill = alone(count, nanos, 3);
            assert_eq!(u128::from(refill.at(now)), grains(now, refill.a, refill.b), "{refill:?} at {now}");
            assert!(!refill.is_whole() || refill.whole(now) == refill.at(now), "{refill:?} at {now}");
        }
    }
    assert!(alone(7, 3, 3).is_whole() && !alone(17, 1_000_000_000, 3).is_whole());
}

#[test]
fn a_target_already_shown_needs_no_wait() {
    let (since, floor) = (1_000, 5_000);
    let refill = Refill::fit(&[bucket(5, 1, 3)], Room::after(since, floor)).expect("it fits").0;
    for target in [0, 1, floor] {
        assert_eq!((refill.until(target, 0), refill.until(target, since + 7)), (0, 0));
    }
    assert_eq!(refill.until(floor + 1, 0), since + 1);
    assert_eq!(refill.until(floor + 10, since + 1), 1);
    let (last, end) = (refill.last, refill.at(u64::MAX));
    assert_eq!(refill.until(end, since), last);
    assert_eq!(refill.until(end + 1, since), u64::MAX);
}

#[test]
fn half_is_that_of_the_smallest_bucket() {
    let buckets = [bucket(1, 1_000, 7), bucket(2, 1_000, 20)];
    assert_eq!(half(&buckets, &[1_000, 500]), 3_000);
    assert_eq!(half(&buckets, &[1_000, 5]), 50);
}

/// Buckets of these counts in `nanos`, refilled by intervals, on a clock whose zero is at `origin`.
fn by_intervals(
    counts: &[u64],
    nanos: u64,
    burst: u64,
    origin: u64,
) -> Result<(Refill, Vec<u64>), BuildError> {
    let intervals = Some(origin);
    let buckets: Vec<_> =
        counts.iter().map(|&count| Bucket { intervals, ..bucket(count, nanos, burst) }).collect();
    Refill::fit(&buckets, Room::ALL)
}

#[test]
fn a_clock_by_intervals_steps_at_multiples_of_the_period() {
    for (count, nanos, origin) in [(1, 1, 0), (10, 7, 5), (10, 7, 0), (3, 60_000_000_000, 123), (7, 999, 998)]
    {
        let (refill, prices) = by_intervals(&[count], nanos, 50, origin).expect("it fits");
        assert!(!refill.is_grained() && prices == [1]);
        let start = nanos - origin % nanos;
        for (now, intervals) in
            [(0, 0), (start - 1, 0), (start, 1), (start + nanos - 1, 1), (start + 9 * nanos, 10)]
        {
            let intervals = if nanos == 1 { now } else { intervals };
            assert_eq!(refill.at(now), count * intervals, "{refill:?} at {now}");
        }
        for target in 1..5 * count {
            let when = refill.until(target, 0);
            assert!(refill.at(when) >= target && refill.at(when - 1) < target, "{refill:?} to {target}");
        }
        let last = refill.last();
        assert!(last >= UPTIME && refill.at(u64::MAX) == refill.at(last), "{refill:?}");
        assert!(refill.top(last) <= TOP, "{refill:?}");
    }
}

#[test]
fn tiers_by_intervals_share_one_clock_exactly() {
    let (refill, prices) = by_intervals(&[4, 6, 10], 1_000, 20, 0).expect("60 has room");
    assert_eq!(prices, [15, 10, 6]);
    assert_eq!(refill.at(2_999), 2 * 60);
    let primes = [999_999_937, 1_000_000_007, 1_000_000_009];
    let error = by_intervals(&primes, 1_000_000_000, 20, 0).map(drop);
    assert_eq!(error, Err(BuildError::TierTooFine { tier: 1 }));
    let mixed = [bucket(1, 1_000, 1), Bucket { intervals: Some(0), ..bucket(1, 1_000, 1) }];
    let error = Refill::fit(&mixed, Room::ALL).map(drop);
    assert_eq!(error, Err(BuildError::TiersDiffer { field: "intervals" }));
}

/// The clocks' zeros differ, and both step at the same Unix times.
#[test]
fn a_debt_by_intervals_ends_at_the_same_unix_time() {
    let (nanos, unix) = (1_000, 1_000_000);
    for (zero, fresh_zero) in [(0, 500), (123, 999_000), (999, 998), (5_500, 3)] {
        let (old, _) = by_intervals(&[5], nanos, 50, zero).expect("it fits");
        let (new, _) = by_intervals(&[5], nanos, 50, fresh_zero).expect("it fits");
        let reading = |zero| Reading { at: unix - zero, unix };
        let shift = Shift::between(reading(zero), reading(fresh_zero));
        let target = old.at(unix - zero) + 13;
        let ends = unix + old.until(target, unix - zero);
        let carried = new.carry(target, &old, shift);
        assert_eq!(unix + new.until(carried, unix - fresh_zero), ends, "{zero} and {fresh_zero}");
    }
}

/// Of a period of more than 292 years the remainder of the division would be more than 64 bits
/// hold.
#[test]
fn the_longest_periods_are_counted_exactly() {
    let longest =
        [10_000_000_000_000_000_000, 16_567_868_800_936_647_451, u64::MAX - 58, u64::MAX, (1 << 63) + 9];
    for (period, count) in longest.into_iter().flat_map(|period| [1, 3, 14_552_359_779].map(|n| (period, n)))
    {
        let (refill, prices) = Refill::fit(&[bucket(count, period, 1)], Room::ALL).expect("it fits");
        assert!(refill.is_grained() && u128::from(refill.b) <= LARGEST, "{refill:?}");
        let (p, q) = (count / gcd(count, period), period / gcd(count, period));
        for nth in 0..20_000 {
            let time = 315_576_000_000_000_000 / 20_000 * nth + nth * nth;
            assert_eq!(u128::from(refill.at(time)), grains(time, p * prices[0], q), "{refill:?}, {time}");
        }
    }
}

#[test]
fn a_fraction_becomes_the_largest_small_enough_below_it() {
    for (a, b) in
        [(1, u64::MAX), (u64::MAX - 1, u64::MAX), (u64::MAX, u64::MAX - 1), (1 << 40, u64::MAX - 58)]
    {
        let (p, q) = computable(a, b);
        let below = u128::from(a) * u128::from(q) - u128::from(p) * u128::from(b);
        // No other that is small enough lies nearer.
        assert!(below > 0 && u128::from(q) <= LARGEST, "{p}/{q} for {a}/{b}");
        for larger in [q + 1, q + 2, LARGEST as u64 - 1, LARGEST as u64] {
            let most = u128::from(a) * u128::from(larger) / u128::from(b);
            let is_no_more =
                u128::from(larger) > LARGEST || most * u128::from(q) <= u128::from(p) * u128::from(larger);
            assert!(is_no_more, "{most}/{larger} lies between {p}/{q} and {a}/{b}");
        }
    }
    assert_eq!(computable(7, 1 << 62), (7, 1 << 62));
}
