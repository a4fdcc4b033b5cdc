//! Any limit and any operations at any times: the engine decides as its model does.
//!
//! The bytes become a case of `tests/model/against_model`, of one limit or of several, which runs
//! it through every way to call the engine and compares every field of every answer. A crash prints
//! the case as a script. Or they become calls with quotas of their own (`shared/calls.rs`).

#![no_main]

#[path = "../../tests/model/against_model/answers.rs"]
mod answers;
#[path = "shared/calls.rs"]
mod calls;
#[path = "../../tests/model/against_model/contest.rs"]
mod contest;
#[path = "../../tests/model/against_model/doors.rs"]
mod doors;
#[path = "../../tests/model/against_model/ledger.rs"]
mod ledger;
#[path = "shared/limits.rs"]
mod limits;
#[path = "../../tests/model/against_model/script.rs"]
mod script;
#[path = "../../tests/model/against_model/several.rs"]
mod several;
#[path = "../../tests/model/against_model/shared.rs"]
mod shared;

use std::fmt;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tollgate_testing::limits::Unit;

use calls::Calls;
use limits::AnyLimit;
use script::{Case, Cost, KEYS, Move, Op, Patience, Verb};
use several::SeveralCase;

#[derive(Arbitrary)]
enum Input {
    One(AnyLimit, AnyOps),
    Several([AnyLimit; 3], u8, AnyOps),
    Calls(Calls),
}

#[derive(Arbitrary)]
struct AnyOps {
    origin: u64,
    /// Whether the clock only goes ahead. Then the case has refunds and reservations too.
    ahead: bool,
    ops: Vec<AnyOp>,
}

#[derive(Arbitrary)]
struct AnyOp {
    go: AnyMove,
    key: u8,
    verb: AnyVerb,
}

#[derive(Arbitrary)]
enum AnyMove {
    Stay,
    Ahead { unit: AnyUnit, eighths: u16, nudge: i8 },
    Wait { nudge: i8 },
    Years(u8),
    Back { unit: AnyUnit, eighths: u8, nudge: i8 },
}

#[derive(Arbitrary)]
enum AnyUnit {
    Interval,
    Window,
    Recovery,
}

#[derive(Arbitrary)]
enum AnyVerb {
    Check(AnyCost),
    Peek(AnyCost),
    Reset,
    Refund(u8),
    Part(u8, AnyCost),
    Reserve(AnyCost, AnyPatience),
    Cancel(u8),
    UpTo(AnyCost),
    Debit(AnyCost),
    Credit(AnyCost),
}

#[derive(Arbitrary)]
enum AnyPatience {
    None,
    Enough(i8),
    Eighths(u8),
    Forever,
}

#[derive(Arbitrary)]
enum AnyCost {
    Units(u8),
    Eighths(u8),
    Limit(i8),
    Huge,
}

fuzz_target!(|input: Input| {
    let played = match &input {
        Input::One(limit, ops) => contest::contest(&case(limit, ops)),
        Input::Several(limits, count, ops) => several::contest_of_several(&several_case(limits, *count, ops)),
        Input::Calls(calls) => {
            calls::contest_of_calls(calls);
            Ok(true)
        }
    };
    if let Err(difference) = played {
        panic!("{difference}\n{input:?}");
    }
});

/// Prints the script; libFuzzer needs it if the engine panics.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(limit, ops) => case(limit, ops).fmt(f),
            Self::Several(limits, count, ops) => several_case(limits, *count, ops).fmt(f),
            Self::Calls(calls) => calls.fmt(f),
        }
    }
}

fn case(limit: &AnyLimit, ops: &AnyOps) -> Case {
    Case { limit: limit.limit(), origin: ops.origin, ops: ops.value() }
}

fn several_case(limits: &[AnyLimit], count: u8, ops: &AnyOps) -> SeveralCase {
    let count = 1 + usize::from(count) % limits.len();
    let limits = limits[..count].iter().map(AnyLimit::limit).collect();
    SeveralCase { limits, origin: ops.origin, ops: ops.value() }
}

impl AnyOps {
    fn value(&self) -> Vec<Op> {
        self.ops.iter().take(100).map(|some| op(some, self.ahead)).collect()
    }
}

fn op(op: &AnyOp, ahead: bool) -> Op {
    let key = usize::from(op.key) % KEYS.len();
    let go = match op.go {
        AnyMove::Stay => Move::Stay,
        AnyMove::Ahead { ref unit, eighths, nudge } => Move::Ahead { unit: unit.value(), eighths, nudge },
        AnyMove::Wait { nudge } => Move::Wait { nudge },
        AnyMove::Years(eighths) => Move::Years(eighths % 16),
        AnyMove::Back { .. } if ahead => Move::Stay,
        AnyMove::Back { ref unit, eighths, nudge } => {
            Move::Back { unit: unit.value(), eighths: eighths.into(), nudge }
        }
    };
    let verb = match op.verb {
        AnyVerb::Check(ref cost) => Verb::Check(cost.value()),
        AnyVerb::Peek(ref cost) => Verb::Peek(cost.value()),
        AnyVerb::Reset => Verb::Reset,
        AnyVerb::Reserve(ref cost, ref patience) if ahead => Verb::Reserve(cost.value(), patience.value()),
        AnyVerb::Refund(pick) if ahead => Verb::Refund(pick),
        AnyVerb::Part(pick, ref units) if ahead => Verb::Part(pick, units.value()),
        AnyVerb::Cancel(pick) if ahead => Verb::Cancel(pick),
        AnyVerb::UpTo(ref most) => Verb::UpTo(most.value()),
        AnyVerb::Debit(ref cost) if ahead => Verb::Debit(cost.value()),
        AnyVerb::Credit(ref units) if ahead => Verb::Credit(units.value()),
        _ => Verb::Peek(Cost::Units(1)),
    };
    Op { go, key, verb }
}

impl AnyUnit {
    fn value(&self) -> Unit {
        match self {
            Self::Interval => Unit::Interval,
            Self::Window => Unit::Window,
            Self::Recovery => Unit::Recovery,
        }
    }
}

impl AnyPatience {
    fn value(&self) -> Patience {
        match *self {
            Self::None => Patience::None,
            Self::Enough(nudge) => Patience::Enough(nudge),
            Self::Eighths(eighths) => Patience::Eighths(eighths),
            Self::Forever => Patience::Forever,
        }
    }
}

impl AnyCost {
    fn value(&self) -> Cost {
        match *self {
            Self::Units(units) => Cost::Units(units.into()),
            Self::Eighths(eighths) => Cost::Eighths(eighths),
            Self::Limit(more) => Cost::Limit(more),
            Self::Huge => Cost::Huge,
        }
    }
}
