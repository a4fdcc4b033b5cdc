//! Generators: limits that are small, odd or extreme, with operations near their boundaries.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate_testing::limits::{Kind, Unit, limit};

use super::script::{Case, Cost, Move, Op, Patience, Verb};
use super::several::SeveralCase;

const SECOND: u64 = 1_000_000_000;

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

/// A case for a limit of this kind.
pub(crate) fn case(kind: Kind) -> impl Strategy<Value = Case> {
    // Unix time 1.7e9 s, as of a real clock, or 0, as in tests.
    let origin =
        prop_oneof![Just(0_u64), any::<u64>().prop_map(|some| 1_700_000_000 * SECOND + some % SECOND)];
    (limit(kind), origin, ops()).prop_map(|(limit, origin, ops)| Case { limit, origin, ops })
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
pub(crate) fn with_all_verbs(kind: Kind) -> impl Strategy<Value = Case> {
    let origin =
        prop_oneof![Just(0_u64), any::<u64>().prop_map(|some| 1_700_000_000 * SECOND + some % SECOND)];
    let ops = (verbs(), prop_oneof![Just(1_usize), Just(3_usize)]).prop_flat_map(|(verb, keys)| {
        // The interesting operations are at the same time, or before all debt is drained.
        let go = prop_oneof![1 => Just(Move::Stay), 2 => ahead()];
        let op = (go, 0..keys, verb).prop_map(|(go, key, verb)| Op { go, key, verb });
        prop::collection::vec(op, 1..60)
    });
    (limit(kind), origin, ops).prop_map(|(limit, origin, ops)| Case { limit, origin, ops })
}

/// Up to four limits of any kinds, with the operations of [`case`] or of [`with_all_verbs`].
pub(crate) fn several(is_ahead: bool) -> impl Strategy<Value = SeveralCase> {
    let limits = prop::collection::vec(select(Kind::ALL.to_vec()).prop_flat_map(limit), 1..=4);
    let case = move |kind| if is_ahead { with_all_verbs(kind).boxed() } else { case(kind).boxed() };
    (limits, case(Kind::Bucket)).prop_map(|(limits, Case { origin, ops, .. })| SeveralCase {
        limits,
        origin,
        ops,
    })
}

/// Checks of one key close to each other, with a clock that only goes ahead, as of a greedy client.
pub(crate) fn greed(kind: Kind) -> impl Strategy<Value = Case> {
    let op = (ahead(), cost()).prop_map(|(go, cost)| Op { go, key: 0, verb: Verb::Check(cost) });
    let ops = prop::collection::vec(op, 1..150);
    (limit(kind), 0..2 * SECOND, ops).prop_map(|(limit, origin, ops)| Case { limit, origin, ops })
}
