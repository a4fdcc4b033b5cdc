//! Generators: limits that are small, odd or extreme, and operations near their boundaries.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::CountPolicy;

use super::limit::{Kind, Limit, Unit};
use super::script::{Case, Cost, Move, Op, Patience, Verb};
use super::several::SeveralCase;

const SECOND: u64 = 1_000_000_000;

/// Rates at which other limiters failed, and the extremes that must be accepted.
const NOTED: [(u64, u64); 14] = [
    (1, 86_400 * SECOND),
    (10_000_000_000, SECOND),
    (14_500, 60 * SECOND),
    (999_983, SECOND),
    (700_000, 3_600 * SECOND),
    (3, SECOND),
    (3, 2 * SECOND),
    (7_000_000, SECOND),
    (600_000_000, SECOND),
    (700_000_000, SECOND),
    (60, 60 * SECOND),
    (1, 3_600 * SECOND),
    (10, 100),
    (1, 10_000_000_000 * SECOND / 100),
];

/// The kinds of limits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sort {
    TokenBucket,
    Meter,
    Queue,
    Fixed,
    Intervals,
    FirstHitBucket,
    FirstHitWindow,
    Sliding,
    SubWindows,
    Log,
}

pub(crate) const SORTS: [Sort; 10] = [
    Sort::TokenBucket,
    Sort::Meter,
    Sort::Queue,
    Sort::Fixed,
    Sort::Intervals,
    Sort::FirstHitBucket,
    Sort::FirstHitWindow,
    Sort::Sliding,
    Sort::SubWindows,
    Sort::Log,
];

/// A number from 1 to `2^bits - 1`, with every length equally likely.
fn magnitude(bits: u32) -> impl Strategy<Value = u64> {
    (0..bits, any::<u64>()).prop_map(|(bit, rest)| (1 << bit) | (rest & ((1 << bit) - 1)))
}

fn period() -> BoxedStrategy<u64> {
    let usual = select(vec![SECOND, SECOND / 4, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND]);
    prop_oneof![3 => usual, 1 => 1..=100_u64, 2 => magnitude(57)].boxed()
}

fn count() -> impl Strategy<Value = CountPolicy> {
    prop_oneof![Just(CountPolicy::Allowed), Just(CountPolicy::All)]
}

/// A count and a period.
fn bucket_rate() -> BoxedStrategy<(u64, u64)> {
    let small = (1..=20_u64, period());
    let random = (magnitude(34), period());
    prop_oneof![3 => small, 3 => select(NOTED.to_vec()), 2 => random].boxed()
}

fn window_rate() -> BoxedStrategy<(u64, u64)> {
    let small = (1..=20_u64, period());
    let noted = select(NOTED.iter().copied().filter(|(count, _)| *count <= 1_000_000).collect::<Vec<_>>());
    let random = (magnitude(24), period());
    prop_oneof![4 => small, 2 => noted, 2 => random].boxed()
}

/// A limit of this sort, valid or not.
pub(crate) fn limit(sort: Sort) -> BoxedStrategy<Limit> {
    let room = || prop_oneof![4 => 1..=20_u64, 1 => magnitude(20), 1 => magnitude(50)];
    let windows = |kind: BoxedStrategy<Kind>| {
        (window_rate(), kind).prop_map(|((count, period), kind)| Limit { kind, count, period }).boxed()
    };
    let bucket = |kind: fn(u64) -> Kind| {
        (bucket_rate(), room())
            .prop_map(move |((count, period), room)| Limit { kind: kind(room), count, period })
            .boxed()
    };
    // Filled at the clock's zero, or not.
    let filled = |rate: BoxedStrategy<(u64, u64)>, kind: fn(u64, Option<u64>) -> Kind| {
        (rate, room(), any::<Option<(u8, u8)>>())
            .prop_map(move |((count, period), burst, initial)| {
                let initial = initial.map(|(share, more)| {
                    (u128::from(burst) * u128::from(share) / 255) as u64 + u64::from(more & 1)
                });
                let initial = initial.map(|initial| initial.min(burst));
                Limit { kind: kind(burst, initial), count, period }
            })
            .boxed()
    };
    match sort {
        Sort::TokenBucket => filled(bucket_rate(), |burst, initial| Kind::TokenBucket { burst, initial }),
        Sort::Intervals => filled(bucket_rate(), |burst, initial| Kind::Intervals { burst, initial }),
        Sort::FirstHitBucket => {
            filled(window_rate(), |burst, initial| Kind::FirstHitBucket { burst, initial })
        }
        Sort::FirstHitWindow => windows(count().prop_map(|count| Kind::FirstHitWindow { count }).boxed()),
        Sort::Meter => bucket(|capacity| Kind::Meter { capacity }),
        Sort::Queue => bucket(|capacity| Kind::Queue { capacity }),
        Sort::Fixed => windows(count().prop_map(|count| Kind::Fixed { count }).boxed()),
        Sort::Sliding => windows(count().prop_map(|count| Kind::Sliding { count }).boxed()),
        Sort::SubWindows => {
            let k = prop_oneof![4 => 1..=6_u32, 1 => 7..=24_u32];
            windows((k, count()).prop_map(|(k, count)| Kind::SubWindows { k, count }).boxed())
        }
        Sort::Log => (prop_oneof![4 => 1..=20_u64, 1 => magnitude(10)], period(), count())
            .prop_map(|(limit, period, count)| Limit { kind: Kind::Log { count }, count: limit, period })
            .boxed(),
    }
}

fn unit() -> impl Strategy<Value = Unit> {
    prop_oneof![Just(Unit::Interval), Just(Unit::Window), Just(Unit::Recovery)]
}

fn nudge() -> impl Strategy<Value = i8> {
    prop_oneof![3 => Just(0_i8), 1 => -1..=1_i8, 1 => any::<i8>()]
}

fn ahead() -> BoxedStrategy<Move> {
    let eighths =
        prop_oneof![4 => 0..=9_u16, 2 => (0..=5_u16).prop_map(|whole| 8 * whole), 1 => 0..=2_000_u16];
    prop_oneof![
        6 => Just(Move::Stay),
        8 => (unit(), eighths, nudge()).prop_map(|(unit, eighths, nudge)| Move::Ahead { unit, eighths, nudge }),
        4 => (-1..=1_i8).prop_map(|nudge| Move::Wait { nudge }),
        1 => (0..=12_u8).prop_map(Move::Years),
    ]
    .boxed()
}

fn ahead_or_back() -> BoxedStrategy<Move> {
    let back = (unit(), 0..=40_u16, nudge());
    let back = back.prop_map(|(unit, eighths, nudge)| Move::Back { unit, eighths, nudge });
    prop_oneof![8 => ahead(), 1 => back].boxed()
}

fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        8 => (0..=4_u64).prop_map(Cost::Units),
        3 => (1..=8_u8).prop_map(Cost::Eighths),
        2 => (-1..=1_i8).prop_map(Cost::Limit),
        1 => Just(Cost::Huge),
    ]
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![10 => cost().prop_map(Verb::Check), 4 => cost().prop_map(Verb::Peek), 1 => Just(Verb::Reset)]
}

/// Operations on one or more keys, with a clock that may step back.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    (prop_oneof![Just(ahead()), Just(ahead_or_back())], prop_oneof![Just(1_usize), Just(3_usize)])
        .prop_flat_map(|(go, keys)| {
            let op = (go, 0..keys, verb()).prop_map(|(go, key, verb)| Op { go, key, verb });
            prop::collection::vec(op, 1..60)
        })
}

/// A case for a limit of this sort.
pub(crate) fn case(sort: Sort) -> impl Strategy<Value = Case> {
    // Unix time 1.7e9 s, as of a real clock, or 0, as in tests.
    let origin =
        prop_oneof![Just(0_u64), any::<u64>().prop_map(|some| 1_700_000_000 * SECOND + some % SECOND)];
    (limit(sort), origin, ops()).prop_map(|(limit, origin, ops)| Case { limit, origin, ops })
}

fn patience() -> impl Strategy<Value = Patience> {
    prop_oneof![
        2 => Just(Patience::None),
        3 => (-1..=1_i8).prop_map(Patience::Enough),
        2 => (0..=40_u8).prop_map(Patience::Eighths),
        4 => Just(Patience::Forever),
    ]
}

/// All verbs, with different frequencies in each case, so that some cases have refunds in order
/// only, keys without reservations, or reservations without refunds.
fn verbs() -> impl Strategy<Value = BoxedStrategy<Verb>> {
    (0..=8_u32, 0..=8_u32, 0..=1_u32, 0..=3_u32, 0..=1_u32).prop_map(
        |(refunds, bookings, resets, as_much, credits)| {
            prop_oneof![
                8 => cost().prop_map(Verb::Check),
                2 => cost().prop_map(Verb::Peek),
                as_much => cost().prop_map(Verb::UpTo),
                as_much.saturating_sub(1) => cost().prop_map(Verb::Debit),
                resets => Just(Verb::Reset),
                refunds => any::<u8>().prop_map(Verb::Refund),
                refunds.div_ceil(2) => (any::<u8>(), cost()).prop_map(|(pick, units)| Verb::Part(pick, units)),
                bookings => (cost(), patience()).prop_map(|(cost, patience)| Verb::Reserve(cost, patience)),
                bookings.min(refunds + 1) => any::<u8>().prop_map(Verb::Cancel),
                credits => cost().prop_map(Verb::Credit),
            ]
            .boxed()
        },
    )
}

/// Every verb, with a clock that only goes ahead: the time of a refund must not be before the key's
/// latest charge.
pub(crate) fn with_all_verbs(sort: Sort) -> impl Strategy<Value = Case> {
    let origin =
        prop_oneof![Just(0_u64), any::<u64>().prop_map(|some| 1_700_000_000 * SECOND + some % SECOND)];
    let ops = (verbs(), prop_oneof![Just(1_usize), Just(3_usize)]).prop_flat_map(|(verb, keys)| {
        // The interesting operations are at the same time, or before all debt is drained.
        let go = prop_oneof![1 => Just(Move::Stay), 2 => ahead()];
        let op = (go, 0..keys, verb).prop_map(|(go, key, verb)| Op { go, key, verb });
        prop::collection::vec(op, 1..60)
    });
    (limit(sort), origin, ops).prop_map(|(limit, origin, ops)| Case { limit, origin, ops })
}

/// Up to four limits of any sorts, with the operations of [`case`] or of [`with_all_verbs`].
pub(crate) fn several(is_ahead: bool) -> impl Strategy<Value = SeveralCase> {
    let limits = prop::collection::vec(select(SORTS.to_vec()).prop_flat_map(limit), 1..=4);
    let case = move |sort| if is_ahead { with_all_verbs(sort).boxed() } else { case(sort).boxed() };
    (limits, case(Sort::TokenBucket)).prop_map(|(limits, Case { origin, ops, .. })| SeveralCase {
        limits,
        origin,
        ops,
    })
}

/// Checks of one key close to each other, with a clock that only goes ahead, as of a greedy client.
pub(crate) fn greed(sort: Sort) -> impl Strategy<Value = Case> {
    let op = (ahead(), cost()).prop_map(|(go, cost)| Op { go, key: 0, verb: Verb::Check(cost) });
    let ops = prop::collection::vec(op, 1..150);
    (limit(sort), 0..2 * SECOND, ops).prop_map(|(limit, origin, ops)| Case { limit, origin, ops })
}
