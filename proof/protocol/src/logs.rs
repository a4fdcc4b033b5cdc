//! The scenarios of the log and its ring, as data.

use crate::ring::Log;
use crate::rule::Rule;
use crate::scenario::Op::{Check, Reset, Take};
use crate::scenario::{BASE, Scenario};
use crate::values::Key;

/// Who asked a period ago and is stopped before it wins the head, may win it with a time that a
/// newcomer to its slot has proposed: the word says that the slot has run out, and a newcomer finds
/// a time in it that is not its own.
const STALLED_A_PERIOD: &str = "a key was refused for what another owed";

/// An entry tells one bit of its lap. A thread that is stopped before it proposes, until the entry
/// says after two laps what it said, proposes over another thread's proposal of the same time. What
/// that thread then wins is marked as of an earlier lap, over a time in the window: it counts.
const TWICE_AROUND: &str = "a refused request is not counted";

/// A thread proposes over a time that has left, and was asked while a refund held the word. The
/// refund lowers the head, and another thread wins the time as its own, with the proposal over it.
/// That says rightly when it had left.
const PROPOSED_OVER: &str = "an admission is logged earlier than it was made";

/// One and two in any eight ticks.
const ONE: Log = Log { limit: 1, period: 8, ring: 1, all: false };
const TWO: Log = Log { limit: 2, ring: 2, ..ONE };

// Keys from 4 on have the second slot for their home.
const X: Key = 1;
const Y: Key = 3;
const Z: Key = 2;
const W: Key = 4;

const fn of(log: Log) -> Scenario {
    Scenario { rule: Rule::Log(log), ..BASE }
}

pub(crate) const LOGS: &[Scenario] = &[
    Scenario {
        name: "two admit at a log's limit",
        logs: &[(X, &[10])],
        threads: &[&[Check(X, 1)], &[Check(X, 1)]],
        quick: true,
        ..of(TWO)
    },
    Scenario {
        name: "three admit at a log's limit",
        logs: &[(X, &[10])],
        threads: &[&[Check(X, 1)], &[Check(X, 1)], &[Check(X, 1)]],
        ..of(TWO)
    },
    Scenario {
        name: "costs of two and of one at a log's limit",
        logs: &[(X, &[4, 10])],
        times: &[10, 12, 18],
        threads: &[&[Check(X, 2)], &[Check(X, 1), Check(X, 1)]],
        ..of(TWO)
    },
    Scenario {
        name: "a stalled proposer comes back a lap later",
        logs: &[(X, &[2])],
        times: &[10, 18, 26],
        threads: &[&[Check(X, 1)], &[Check(X, 1), Check(X, 1), Check(X, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a stalled proposer of two comes back a lap later",
        logs: &[(X, &[2, 2])],
        times: &[10, 18, 26],
        threads: &[&[Check(X, 2)], &[Check(X, 1), Check(X, 1), Check(X, 2), Check(X, 1)]],
        ..of(TWO)
    },
    Scenario {
        name: "proposals of three while time passes",
        logs: &[(X, &[2, 2])],
        times: &[10, 18],
        threads: &[&[Check(X, 1)], &[Check(X, 1)], &[Check(X, 2)]],
        ..of(TWO)
    },
    Scenario {
        name: "a ring longer than its limit",
        logs: &[(X, &[2, 2, 10])],
        times: &[10, 18],
        threads: &[&[Check(X, 1), Check(X, 1)], &[Check(X, 2), Check(X, 1)]],
        ..of(Log { ring: 3, ..TWO })
    },
    Scenario {
        name: "refused requests count",
        known: &[TWICE_AROUND],
        logs: &[(X, &[4])],
        times: &[10, 12, 18],
        threads: &[&[Check(X, 1), Check(X, 1)], &[Check(X, 1), Check(X, 1)]],
        ..of(Log { all: true, ..ONE })
    },
    Scenario {
        name: "a new key has a log",
        times: &[10, 18],
        threads: &[&[Check(Y, 1), Check(Y, 1)], &[Check(Y, 2)]],
        ..of(TWO)
    },
    Scenario {
        name: "a log's slot is recycled under a proposer",
        known: &[STALLED_A_PERIOD],
        logs: &[(X, &[2]), (Z, &[18])],
        times: &[10, 18, 26],
        threads: &[&[Check(X, 1), Check(X, 1)], &[Check(Y, 1), Check(Y, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a newcomer stalls beside its slot's owner",
        known: &[STALLED_A_PERIOD],
        logs: &[(X, &[2]), (Z, &[18])],
        times: &[12, 22],
        threads: &[&[Check(Y, 1)], &[Check(X, 1), Check(X, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a log is admitted over what a newcomer proposed",
        logs: &[(X, &[10, 10]), (Z, &[20])],
        times: &[10, 20],
        threads: &[&[Check(X, 1), Check(X, 2)], &[Check(Y, 1)]],
        ..of(TWO)
    },
    Scenario {
        name: "two newcomers want one log",
        logs: &[(X, &[2]), (Z, &[10])],
        times: &[12],
        threads: &[&[Check(Y, 1), Check(Y, 1)], &[Check(W, 1), Check(Y, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a reset of a log beside charges",
        logs: &[(X, &[10])],
        times: &[10, 18],
        threads: &[&[Check(X, 1), Check(X, 1)], &[Reset(X), Check(X, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a log's word before a reset does not come back",
        logs: &[(X, &[10])],
        threads: &[&[Check(X, 1)], &[Reset(X), Check(X, 1), Reset(X), Check(X, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a log's word before a refund beside charges",
        known: &[PROPOSED_OVER],
        logs: &[(X, &[2])],
        times: &[10, 11, 18],
        threads: &[&[Check(X, 1)], &[Take(X, 1)], &[Check(X, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a refund of a log beside charges",
        logs: &[(X, &[10])],
        times: &[10, 18],
        threads: &[&[Take(X, 1), Check(X, 1)], &[Check(X, 1), Check(X, 1)]],
        ..of(TWO)
    },
    Scenario {
        name: "a newcomer stalls while its slot goes to others",
        logs: &[(X, &[2]), (Z, &[10])],
        times: &[12, 22],
        threads: &[&[Check(Y, 1)], &[Check(W, 1), Check(W, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a log is reset that goes to others",
        logs: &[(X, &[2]), (Z, &[10])],
        times: &[12, 22],
        threads: &[&[Reset(X)], &[Check(Y, 1), Check(Y, 1), Check(Y, 1)]],
        ..of(ONE)
    },
];
