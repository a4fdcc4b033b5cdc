//! The ranges that errors of quotas name: their ends can be built.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{BuildError, CountPolicy, Limiter, ManualClock, Quota};
use tollgate_testing::limits::{Kind, Limit};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// Ten years, for which every clock has room.
const UPTIME: u64 = 10 * 31_557_600 * SECOND;
/// The longest period of an aligned window.
const LONGEST: u64 = (1 << 61) - 1;

/// An end of a range.
#[derive(Clone, Copy, Debug)]
enum End {
    Least,
    Most,
}

/// Builds a limiter. Of a long log, whose ring takes memory, only its size is asked.
fn build(quota: Quota) -> Result<(), BuildError> {
    if matches!(quota, Quota::SlidingLog(_)) && quota.limit() > 1_000 {
        return Limiter::builder(quota).per::<u64>().max_keys(1).memory().map(drop);
    }
    let clock = ManualClock::starting_at(Duration::from_nanos(1_700_000_000 * SECOND + 123_456_789));
    Limiter::builder(quota).clock(clock).build().map(drop)
}

/// The number of this name.
fn number<'l>(limit: &'l mut Limit, field: &str) -> Option<&'l mut u64> {
    match field {
        "rate.count" => Some(&mut limit.count),
        "rate.period" => Some(&mut limit.period),
        "burst" | "capacity" => Some(&mut limit.burst),
        "initial" => limit.initial.as_mut(),
        _ => None,
    }
}

/// Sets what each error names to an end of the range that it says, until the limit can be built. No
/// error may name a number that one has named before.
fn follow(mut limit: Limit, end: End) -> Result<(), String> {
    let (given, mut named) = (limit, Vec::new());
    while let Err(error) = build(limit.quota()) {
        let BuildError::OutOfRange { field, value, min, max } = error else {
            return Err(format!("{given:?}: {error}"));
        };
        let next = match end {
            End::Least => min,
            End::Most => max,
        };
        let was = if field == "subwindows" {
            let next = u32::try_from(next).map_err(|_| format!("{given:?}: {error}"))?;
            u128::from(std::mem::replace(&mut limit.subwindows, next))
        } else {
            let next = u64::try_from(next).map_err(|_| format!("{given:?}: {error}"))?;
            let number = number(&mut limit, field).ok_or(format!("{given:?}: {error}"))?;
            u128::from(std::mem::replace(number, next))
        };
        if was != value || (min..=max).contains(&value) || named.contains(&field) {
            return Err(format!("{given:?}, {end:?} of {named:?}: {error}"));
        }
        named.push(field);
    }
    Ok(())
}

#[test]
fn both_ends_of_every_named_range_can_be_built() {
    let periods =
        [0, 1, 2, 3, 1_000, SECOND, DAY, UPTIME, UPTIME + 1, LONGEST, LONGEST + 1, u64::MAX - 1, u64::MAX];
    for kind in Kind::ALL {
        for period in periods {
            for count in [0, 1, 5, 1_000, 1_000_000, 1 << 40, u64::MAX] {
                for policy in [CountPolicy::Allowed, CountPolicy::All] {
                    let most = if kind == Kind::SubWindows { 6 } else { 1 };
                    for subwindows in [4, 0, 1, 24, 25, u32::MAX].into_iter().take(most) {
                        let limit = Limit { policy, subwindows, ..kind.limit(count, period) };
                        follow(limit, End::Most).unwrap();
                        follow(limit, End::Least).unwrap();
                    }
                }
            }
        }
    }
}

/// A number of any size.
fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..=200_u64, any::<u64>(), (0..64_u32, any::<u64>()).prop_map(|(bits, rest)| rest >> bits)]
}

proptest! {
    #[test]
    fn the_ends_of_random_ranges_can_be_built(
        kind in select(Kind::ALL.to_vec()),
        (count, period, burst) in (any_number(), any_number(), any_number()),
        initial in any::<Option<u64>>(),
        policy in select(vec![CountPolicy::Allowed, CountPolicy::All]),
        subwindows in 0..30_u32,
    ) {
        let initial = initial.filter(|_| kind == Kind::Bucket || kind == Kind::Intervals);
        let limit = Limit { burst, initial, policy, subwindows, ..kind.limit(count, period) };
        follow(limit, End::Most).map_err(TestCaseError::fail)?;
        follow(limit, End::Least).map_err(TestCaseError::fail)?;
    }
}

/// Where fewer sub-windows have room for the count, their number is wrong, and not the count.
#[test]
fn too_many_sub_windows_are_wrong_and_not_the_count() {
    let wrong = |text: &str| build(text.parse().unwrap()).expect_err(text).to_string();
    assert_eq!(
        wrong("sliding-window:100/min,subwindows=6"),
        "subwindows is 6, but must be between 1 and 4 beside this rate"
    );
    assert!(wrong("sliding-window:0/min,subwindows=6").starts_with("rate.count is 0, "));
    assert!(
        wrong("sliding-window:1000000000000/min,subwindows=6").starts_with("rate.count is 1000000000000, ")
    );
}

/// The table at `SlidingWindow::subwindows`, row by row.
#[test]
fn the_table_of_sub_windows_says_what_fits() {
    let source = include_str!("../../src/algorithm/sliding_window.rs");
    let rows = source.lines().filter_map(|line| line.trim().strip_prefix("/// | ")).map(cells);
    let rows: Vec<_> = rows.filter(|row| row[0].parse::<u32>().is_ok()).collect();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let k = row[0].parse().unwrap();
        for (period, said) in [SECOND, 60 * SECOND, 3_600 * SECOND, DAY].into_iter().zip(&row[1..]) {
            let fits =
                |count| build(Limit { subwindows: k, ..Kind::SubWindows.limit(count, period) }.quota());
            let most = if said == "millions" { 2_000_000 } else { said.replace(',', "").parse().unwrap() };
            for count in (1..=most).step_by((most / 500).max(1) as usize).chain([most]) {
                assert_eq!(fits(count), Ok(()), "{count} in {period} ns, {k} sub-windows");
            }
            assert!(said == "millions" || fits(most + 1).is_err(), "{said} in {period} ns, {k} sub-windows");
        }
    }
}

/// The cells of a row, without blanks.
fn cells(row: &str) -> Vec<String> {
    row.trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}
