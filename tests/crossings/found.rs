//! Programs that show a defect, and programs that the judge once took for contradictions.

use tollgate::{Inherit, WhenFull};
use tollgate_testing::limits::Kind;

use super::engine::{Room, Sort, Way};
use super::limits::Limit;
use super::play::play;
use super::program::{Change, Cost, Go, Inner, Joint, Line, Program, Verb};

fn line(tier: usize, verb: Verb, within: Option<(usize, Vec<Inner>)>) -> Line {
    Line { go: Go::Stay, key: 0, tier, verb, within }
}

fn change(numbers: [(u64, u64); 3]) -> Change {
    Change { numbers: numbers.into(), only: None, inherit: Inherit::AsIs }
}

const SLOW: (u64, u64) = (1, 1_000_000_000);
const FAST: (u64, u64) = (1, 1);

/// Other keys fill the bucket of the first key, which is in debt. A change to a slower quota, and
/// the time in which the first debt would have run out by the old one, overtake an insertion. Then
/// the second key's slot is vacant, and the first key asks for its whole limit.
#[test]
fn an_overtaken_insertion_leaves_the_first_debt() {
    let of = |key, verb, within| Line { key, ..line(0, verb, within) };
    let check = |cost| Verb::Check(cost, Way::Plain);
    for inherit in [Inherit::AsIs, Inherit::Proportional, Inherit::Additive] {
        let slower = Change { numbers: vec![(10, 1_000_000_000)], only: None, inherit };
        let overtaken = vec![Inner::Change(slower), Inner::Ahead(5 * 8)];
        let program = Program {
            sort: Sort::Keyed,
            room: Room::Full(WhenFull::Share),
            limits: vec![Limit { kind: Kind::Bucket, most: 10, nanos: 1_000 }],
            lines: vec![
                // At zero no version has a horizon yet.
                Line { go: Go::Ahead(8, 0), ..of(0, check(Cost::Units(3)), None) },
                of(0, Verb::Strangers, None),
                of(1, check(Cost::Units(1)), Some((1, overtaken))),
                of(1, Verb::Reset, None),
                of(0, check(Cost::All(0)), None),
            ],
        };
        assert_eq!(play(&program).map(drop), Ok(()), "{inherit:?}");
    }
}

/// In the middle of a refund its charge is forgiven, and another request is charged as much.
#[test]
fn a_refund_after_a_reset_leaves_the_next_charge() {
    let check = Verb::Check(Cost::Units(3), Way::Plain);
    let overtaken = vec![Inner::Reset(0), Inner::Check(0, Cost::Units(3))];
    for kind in [Kind::Bucket, Kind::Fixed] {
        for sort in [Sort::Keyed, Sort::Global] {
            let program = Program {
                sort,
                room: Room::Enough,
                limits: vec![Limit { kind, most: 5, nanos: 1_000_000_000 }],
                lines: vec![
                    line(0, check.clone(), None),
                    line(0, Verb::Refund(0), Some((1, overtaken.clone()))),
                    line(0, check.clone(), None),
                ],
            };
            assert_eq!(play(&program).map(drop), Ok(()), "{kind:?}, {sort:?}");
        }
    }
}

/// A debt of five seconds is one of 5e9 units of the fast tier. At a unit a second these would take
/// longer than a word has room for, so the second change finds fewer.
#[test]
fn a_change_cuts_a_debt_to_its_word() {
    let check = |cost, within| line(0, Verb::Check(Cost::Units(cost), Way::Plain), within);
    let overtaken = |numbers, ahead| Some((1, vec![Inner::Change(change(numbers)), Inner::Ahead(ahead)]));
    let program = Program {
        sort: Sort::Keyed,
        room: Room::Full(WhenFull::Deny),
        limits: vec![Limit { kind: Kind::Bucket, most: 1, nanos: 1 }; 2],
        lines: vec![
            check(2, None),
            line(0, Verb::Strangers, None),
            check(1, overtaken([SLOW; 3], 0)),
            check(1, overtaken([FAST, (16, 1), FAST], 1)),
            check(1, overtaken([FAST, (5, 1_000_000_000), FAST], 0)),
            check(1, None),
            line(1, Verb::UpTo(Cost::Left), None),
            line(0, Verb::Change(change([SLOW, FAST, FAST])), None),
            line(0, Verb::Change(change([FAST; 3])), None),
            line(0, Verb::Expire, None),
        ],
    };
    assert_eq!(play(&program).map(drop), Ok(()));
}

/// The lease spends its permit on the request and acquires the rest after the reset, which ends the
/// permits that then remain.
#[test]
fn a_reset_before_a_leases_charge_ends_the_rest() {
    let program = Program {
        sort: Sort::Multi,
        room: Room::Enough,
        limits: vec![Limit { kind: Kind::Bucket, most: 2, nanos: 1000 }],
        lines: vec![
            line(0, Verb::Lease(2, 1), None),
            line(0, Verb::Spend(0, Cost::Units(1)), None),
            line(0, Verb::Spend(0, Cost::All(0)), Some((2, vec![Inner::Reset(0)]))),
            line(0, Verb::Spend(0, Cost::Units(1)), None),
            line(0, Verb::Release(0), None),
        ],
    };
    assert_eq!(play(&program).map(drop), Ok(()));
}

fn at(go: Go, verb: Verb) -> Line {
    Line { go, ..line(0, verb, None) }
}

/// At the time of the refund three units of the first request were not refilled yet; by the second
/// they were. docs/engine.md, "Known limits", allows it.
#[test]
fn a_refund_in_the_past_gives_back_others_units() {
    for kind in [Kind::Bucket, Kind::Intervals] {
        let check = |units| Verb::Check(Cost::Units(units), Way::Plain);
        let program = Program {
            sort: Sort::Keyed,
            room: Room::Enough,
            limits: vec![Limit { kind, most: 5, nanos: 1_000_000_000 }],
            lines: vec![
                at(Go::Stay, check(5)),
                at(Go::Ahead(7 * 8, 0), check(5)),
                at(Go::Back(35, 0), Verb::Refund(1)),
                at(Go::Ahead(35, 0), check(3)),
            ],
        };
        assert_eq!(play(&program).map(drop), Ok(()), "{kind:?}");
    }
}

/// Others take the slot of a key that has paid. Then the clock steps back, and the key is new.
#[test]
fn a_paid_key_is_forgotten_at_earlier_times() {
    let check = |units| Verb::Check(Cost::Units(units), Way::Plain);
    let others = vec![at(Go::Stay, Verb::Strangers); 16];
    let program = Program {
        sort: Sort::Keyed,
        room: Room::Growing,
        limits: vec![Limit { kind: Kind::Intervals, most: 5, nanos: 1_000_000_000 }],
        lines: [
            vec![at(Go::Stay, check(5)), at(Go::Ahead(41, 0), Verb::Poll)],
            others,
            vec![at(Go::Back(21, 0), check(5)), at(Go::Ahead(41, 0), check(5))],
        ]
        .concat(),
    };
    assert_eq!(play(&program).map(drop), Ok(()));
}

/// A file does not tell when a credit was given: the restored limiter gives back what the request
/// at that very time still owes, and the model would not.
#[test]
fn a_restored_limiter_has_no_marks() {
    let check = |cost| Verb::Check(cost, Way::Plain);
    for kind in [Kind::Bucket, Kind::Intervals] {
        let program = Program {
            sort: Sort::Keyed,
            room: Room::Enough,
            limits: vec![Limit { kind, most: 5, nanos: 1_000_000_000 }],
            lines: vec![
                at(Go::Stay, check(Cost::Units(5))),
                at(Go::Stay, Verb::Refund(0)),
                at(Go::Stay, check(Cost::Units(5))),
                at(Go::Stay, Verb::Part(0, 1)),
                at(Go::Stay, Verb::Credit(Cost::Units(1))),
                at(Go::Stay, Verb::Restore),
                at(Go::Stay, check(Cost::Units(1))),
                at(Go::Ahead(8, 0), Verb::Refund(0)),
            ],
        };
        assert_eq!(play(&program).map(drop), Ok(()), "{kind:?}");
    }
}

/// A debit in the middle of a request of several limits leaves nothing for the second limit. What
/// the first was charged does not come back: a later request may rest on a debit.
#[test]
fn a_request_that_a_debit_overtakes_may_stay_charged() {
    let check = Verb::Check(Cost::Units(2), Way::Prepared);
    let program = Program {
        sort: Sort::Multi,
        room: Room::Growing,
        limits: vec![Limit { kind: Kind::Bucket, most: 4, nanos: 1 }; 2],
        lines: vec![
            line(0, check, Some((3, vec![Inner::Debit(0, Cost::Left)]))),
            line(0, Verb::Credit(Cost::Units(2)), None),
        ],
    };
    assert_eq!(play(&program).map(drop), Ok(()));
}

/// Between a change and the end of its check, a quota that was full goes on until its horizon: the
/// old one admits a unit that it has refilled since.
#[test]
fn an_overtaken_check_may_end_by_the_old_quota() {
    let of = |numbers: [(u64, u64); 2], inherit| Change { numbers: numbers.into(), only: None, inherit };
    let check = |cost| Verb::Check(cost, Way::Plain);
    let second = 1_000_000_000;
    let first = Inner::Change(of([(6, second), (21, second)], Inherit::AsIs));
    let then = Inner::Change(of([(18, second), (11, second)], Inherit::Proportional));
    let program = Program {
        sort: Sort::Keyed,
        room: Room::Full(WhenFull::Share),
        limits: [second, 3].map(|nanos| Limit { kind: Kind::Bucket, most: 4, nanos }).into(),
        lines: vec![
            line(0, check(Cost::Units(1)), Some((1, vec![first, Inner::Ahead(73)]))),
            at(Go::Ahead(70, 1), check(Cost::Left)),
            line(0, check(Cost::Units(1)), Some((1, vec![then, Inner::Ahead(65)]))),
        ],
    };
    assert_eq!(play(&program).map(drop), Ok(()));
}

/// Each tier is asked before one is charged: the second by a debt that the first charge would
/// convert.
#[test]
fn a_joint_charge_asks_all_tiers_before_it_charges() {
    let parts = vec![(0, 0, Cost::Units(2)), (0, 1, Cost::Units(1))];
    let joint = Joint { parts, refuses: None, way: Way::Plain, pause: 0 };
    let program = Program {
        sort: Sort::Keyed,
        room: Room::Growing,
        limits: [5, 2].map(|most| Limit { kind: Kind::Bucket, most, nanos: 1_000 }).into(),
        lines: vec![
            line(1, Verb::Check(Cost::Left, Way::At), None),
            at(Go::Ahead(6, 0), Verb::Change(change([(5, 1_571), (14, 4_592), (1, 1_000)]))),
            line(0, Verb::Joint(joint), None),
        ],
    };
    assert_eq!(play(&program).map(drop), Ok(()));
}
