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

/// As long as its word says the same time, refusals bring a log's head back to where it was, two
/// laps later.
const TWICE_AROUND: &str = "a refused request is not counted";

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
        times: &[11, 20],
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
        times: &[11],
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
        name: "a refund of a log beside charges",
        logs: &[(X, &[10])],
        times: &[10, 18],
        threads: &[&[Take(X, 1), Check(X, 1)], &[Check(X, 1), Check(X, 1)]],
        ..of(TWO)
    },
    Scenario {
        name: "a newcomer stalls while its slot goes to others",
        logs: &[(X, &[2]), (Z, &[10])],
        times: &[11, 20],
        threads: &[&[Check(Y, 1)], &[Check(W, 1), Check(W, 1)]],
        ..of(ONE)
    },
    Scenario {
        name: "a log is reset that goes to others",
        logs: &[(X, &[2]), (Z, &[10])],
        times: &[11, 20],
        threads: &[&[Reset(X)], &[Check(Y, 1), Check(Y, 1), Check(Y, 1)]],
        ..of(ONE)
    },
];
