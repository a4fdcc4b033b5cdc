//! Programs of full tables whose keys get back what they took, whose quotas change and which are
//! restored, again and again.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::WhenFull;
use tollgate_testing::limits::Kind;

use super::{Cost, Go, Line, MOST_LIMITS, Program, Time, Verb, change, cost, crowded, go, joint};
use crate::engine::{KEYS, Room, Sort, Way};
use crate::limits::{Limit, SHORTEST, limit};

/// How tables refuse.
const ROOMS: [WhenFull; 5] =
    [WhenFull::Deny, WhenFull::Deny, WhenFull::Share, WhenFull::Share, WhenFull::Allow];

fn line(go: Go, key: usize, verb: Verb) -> Line {
    Line { go, key, tier: 0, verb, within: None }
}

fn check(go: Go, key: usize, cost: Cost) -> Line {
    line(go, key, Verb::Check(cost, Way::Plain))
}

/// A limit of any algorithm, of windows more often: a key keeps its slot though it got back what it
/// took.
fn any_limit() -> impl Strategy<Value = Limit> {
    let windows = vec![Kind::Fixed, Kind::Sliding, Kind::SubWindows, Kind::Log];
    prop_oneof![select(Kind::ALL.to_vec()), select(windows)].prop_flat_map(limit)
}

fn limits() -> impl Strategy<Value = (Sort, Vec<Limit>)> {
    prop_oneof![
        prop::collection::vec(any_limit(), 1).prop_map(|limits| (Sort::Keyed, limits)),
        prop::collection::vec(any_limit(), 1..=MOST_LIMITS).prop_map(|limits| (Sort::Multi, limits)),
        prop::collection::vec(any_limit(), 2..=MOST_LIMITS).prop_map(|limits| (Sort::Beside, limits)),
    ]
}

/// Whatever gives back, changes or restores.
fn any_line() -> impl Strategy<Value = Vec<Line>> {
    let verb = prop_oneof![
        6 => cost().prop_map(|cost| Verb::Check(cost, Way::Plain)),
        8 => joint(),
        3 => (0_usize..4).prop_map(Verb::Refund),
        3 => (0_usize..4, 1_u64..4).prop_map(|(pick, units)| Verb::Part(pick, units)),
        2 => cost().prop_map(Verb::Credit),
        2 => Just(Verb::Reset),
        3 => change().prop_map(Verb::Change),
        3 => Just(Verb::Restore),
        2 => Just(Verb::Strangers),
        4 => prop::option::of(0_usize..4).prop_map(Verb::Panics),
        1 => Just(Verb::Expire),
    ];
    (go(Time::GoesAhead), 0..KEYS, verb).prop_map(|(go, key, verb)| vec![line(go, key, verb)])
}

/// Others fill the table, a key gets back what it took, and each key asks.
fn given_back() -> impl Strategy<Value = Vec<Line>> {
    let back = prop_oneof![Just(Verb::Refund(0)), Just(Verb::Credit(Cost::All(0))), Just(Verb::Reset)];
    (go(Time::GoesAhead), 0..KEYS, 1_u64..4, back).prop_map(|(go, key, cost, back)| {
        let full = line(Go::Stay, key, Verb::Strangers);
        let first = [check(go, key, Cost::Units(cost)), full, line(Go::Stay, key, back)];
        first.into_iter().chain((0..KEYS).map(|key| check(Go::Stay, key, Cost::Units(1)))).collect()
    })
}

/// A refund panics while it holds the slot, and all debts are paid.
fn panics() -> impl Strategy<Value = Vec<Line>> {
    (go(Time::GoesAhead), 0..KEYS, prop::option::of(Just(0))).prop_map(|(go, key, pick)| {
        let first = check(go, key, Cost::Units(1));
        vec![first, line(Go::Stay, key, Verb::Panics(pick)), line(Go::Stay, key, Verb::Expire)]
    })
}

/// A full table that all of these meet.
pub(super) fn mended() -> impl Strategy<Value = Program> {
    let lines = prop_oneof![10 => any_line(), 2 => given_back(), 1 => panics()];
    let lines = prop::collection::vec(lines, 4..16);
    (limits(), select(ROOMS.to_vec()), crowded(Time::GoesAhead, KEYS), lines).prop_map(
        |((sort, limits), room, first, lines)| {
            let lines = [first, lines.concat()].concat();
            Program { sort, room: Room::Full(room), limits, lines }
        },
    )
}

/// A log in a full table: a part of a request comes back. Shortly before what is left of it leaves
/// the window, other keys look for its slot. If they got it, and leave it, then the first key would
/// begin anew. The times are no multiples of what a word counts in.
pub(super) fn leaving() -> impl Strategy<Value = Program> {
    let leaves = (8_u64..12, 1_i64..64, 0..KEYS, 2_u64..6, 1_u64..5, 1_u64..5);
    let leaves = leaves.prop_map(|(ahead, odd, key, cost, back, before)| {
        let others = || (1..KEYS).map(move |other| (key + other) % KEYS);
        let asks = [
            check(Go::Ahead(ahead, odd), key, Cost::Units(cost)),
            line(Go::Stay, key, Verb::Strangers),
            line(Go::Stay, key, Verb::Part(0, back)),
            check(Go::Stay, key, Cost::All(0)),
        ];
        let looks = others().map(|other| check(Go::Retry(before), other, Cost::Units(1)));
        let leaves = others().map(|other| line(Go::Stay, other, Verb::Reset));
        asks.into_iter().chain(looks).chain(leaves).collect::<Vec<_>>()
    });
    let limit = (2_u64..8).prop_map(|most| Limit { kind: Kind::Log, most, nanos: SHORTEST });
    (limit, prop::collection::vec(leaves, 4..12)).prop_map(|(limit, lines)| Program {
        sort: Sort::Keyed,
        room: Room::Full(WhenFull::Deny),
        limits: vec![limit],
        lines: lines.concat(),
    })
}
