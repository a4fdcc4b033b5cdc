//! Operations with their times.
//!
//! A generator makes a [`Case`]: a limit, and operations with times and costs relative to it ("half
//! a window later", "one more than the limit"). The model turns it into a [`Script`] with absolute
//! times and costs and the expected answers. A failure prints the script, line by line.

use std::fmt;
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Resolution};
use tollgate_model::Answer;
use tollgate_testing::limits::{Limit, Unit};

use super::answers::UPTIME;
use super::ledger::Ledger;

/// The keys of every case.
pub(crate) const KEYS: [&str; 3] = ["alice", "bob", "carol"];

const YEAR: u64 = UPTIME / 10;

/// A limit and its operations.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) limit: Limit,
    /// The Unix time of the clock's zero, in nanoseconds.
    pub(crate) origin: u64,
    pub(crate) ops: Vec<Op>,
}

/// Moves the clock, or not, and then runs an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) go: Move,
    /// An index into [`KEYS`].
    pub(crate) key: usize,
    pub(crate) verb: Verb,
}

/// A move of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Stay,
    /// Ahead by eighths of a unit, and a few nanoseconds more or less.
    Ahead {
        unit: Unit,
        eighths: u16,
        nudge: i8,
    },
    /// Ahead by the last wait in an answer, and a few nanoseconds more or less.
    Wait {
        nudge: i8,
    },
    /// Ahead by eighths of a year.
    Years(u8),
    /// Back by eighths of a unit, but never before a reset.
    Back {
        unit: Unit,
        eighths: u16,
        nudge: i8,
    },
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Check(Cost),
    Peek(Cost),
    /// Takes what there is, at most this.
    UpTo(Cost),
    /// Charges this late, over the limit if need be.
    Debit(Cost),
    Reset,
    /// Refunds an admission of any key that was not refunded yet.
    Refund(u8),
    /// Refunds so many units of it; others may come back later.
    Part(u8, Cost),
    Reserve(Cost, Patience),
    /// Cancels a reservation.
    Cancel(u8),
    Credit(Cost),
}

/// How long a reservation may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    None,
    /// As long as needed, and a few nanoseconds more or less.
    Enough(i8),
    /// Eighths of the limit's recovery.
    Eighths(u8),
    Forever,
}

/// The cost of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Units(u64),
    /// Eighths of the limit.
    Eighths(u8),
    /// The limit plus this.
    Limit(i8),
    Huge,
}

/// A case in absolute numbers.
pub(crate) struct Script {
    pub(crate) lines: Vec<Line>,
    pub(crate) resolution: Resolution,
    /// Whether the clock ever steps back.
    pub(crate) goes_back: bool,
    /// The number of keys in debt at the end.
    pub(crate) owing: usize,
}

/// An operation with its expected answer.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) at: u64,
    since: u64,
    pub(crate) key: usize,
    pub(crate) action: Action,
    pub(crate) right: Said,
}

/// An operation in absolute numbers.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Check(u64),
    Peek(u64),
    /// Asks for so many, of which there are `units`; 1 when it is refused.
    UpTo {
        most: u64,
        units: u64,
    },
    Debit(u64),
    Reset,
    /// Refunds the admission of this line, counted from 0.
    Refund(usize),
    /// Refunds up to so many units of it.
    Part(usize, u64),
    Reserve {
        cost: u64,
        max_wait: u64,
    },
    /// Cancels the reservation of this line.
    Cancel(usize),
    Credit(u64),
}

/// An answer of either side. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The answer to a check or a peek.
    Answer(Answer),
    /// How many units were charged, and the answer: to a debit, or to a request for what there is.
    Took(u64, Answer),
    /// A debit from a log.
    NoDebt,
    /// The units of a refund or a cancellation.
    Back(u64),
    /// The units of a credit.
    Given(u64),
    /// The departure of a reservation, and the state that it leaves.
    Departs(u64, Answer),
    TooLong {
        wait: u64,
    },
    Never,
    NoTurns,
    /// A reset has no answer.
    Nothing,
}

impl Case {
    /// Returns the script with the model's answers; `None` if the engine rejects the limit.
    pub(crate) fn script(&self) -> Option<Script> {
        let resolution = self.resolution()?;
        let mut ledger = Ledger::new(self.limit.model(resolution, self.origin));
        let mut script = Script { lines: Vec::new(), resolution, goes_back: false, owing: 0 };
        let (mut now, mut latest, mut reset_at, mut wait) = (0, 0, 0, 0);
        for op in &self.ops {
            // A word remembers the latest time of the clock, across resets too.
            let floor = if let Verb::Reset = op.verb { latest } else { reset_at };
            let at = self.moved(op.go, now, wait).max(floor);
            let (key, number) = (op.key % KEYS.len(), script.lines.len());
            let (key, action, right) = match op.verb {
                Verb::Check(cost) => {
                    let cost = self.cost(cost);
                    (key, Action::Check(cost), Said::Answer(ledger.check(number, key, at, cost)))
                }
                Verb::Peek(cost) => {
                    let cost = self.cost(cost);
                    (key, Action::Peek(cost), Said::Answer(ledger.peek(key, at, cost)))
                }
                Verb::UpTo(most) => {
                    let most = self.cost(most);
                    let (units, answer) = ledger.check_up_to(number, key, at, most);
                    (key, Action::UpTo { most, units }, Said::Took(units, answer))
                }
                Verb::Debit(cost) => {
                    let cost = self.cost(cost).min(self.payable(at, ledger.peek(key, at, 0)));
                    (key, Action::Debit(cost), ledger.debit(number, key, at, cost))
                }
                Verb::Reset => {
                    ledger.reset(key);
                    reset_at = at;
                    (key, Action::Reset, Said::Nothing)
                }
                Verb::Reserve(cost, patience) => {
                    let (cost, patience) = (self.cost(cost), self.patience(patience));
                    let (max_wait, said) = ledger.reserve(number, key, at, cost, patience);
                    (key, Action::Reserve { cost, max_wait }, said)
                }
                Verb::Refund(pick) => {
                    let Some((line, key, back)) = ledger.refund(pick, at) else { continue };
                    (key, Action::Refund(line), Said::Back(back))
                }
                Verb::Part(pick, units) => {
                    let units = self.cost(units);
                    let Some((line, key, back)) = ledger.refund_part(pick, units, at) else { continue };
                    (key, Action::Part(line, units), Said::Back(back))
                }
                Verb::Cancel(pick) => {
                    let Some((line, key, back)) = ledger.cancel(pick, at) else { continue };
                    (key, Action::Cancel(line), Said::Back(back))
                }
                Verb::Credit(units) => {
                    let units = self.cost(units);
                    (key, Action::Credit(units), Said::Given(ledger.credit(key, at, units)))
                }
            };
            wait = right.wait(at).unwrap_or(wait);
            latest = at.max(latest);
            script.goes_back |= at < now;
            script.lines.push(Line { at, since: now, key, action, right });
            now = at;
        }
        script.owing = (0..KEYS.len()).filter(|key| ledger.peek(*key, now, 0).reset_after_ns > 0).count();
        Some(script)
    }

    /// How many units more a bucket may be charged so that its debt ends within the ten years. A
    /// window counts any number up to its ceiling.
    pub(crate) fn payable(&self, at: u64, standing: Answer) -> u64 {
        if !self.limit.kind.refills() {
            return u64::MAX;
        }
        // In ticks an interval is up to a thousandth longer.
        let nanos = (UPTIME - UPTIME / 500).saturating_sub(at).saturating_sub(standing.reset_after_ns);
        let units = u128::from(nanos) * u128::from(self.limit.count) / u128::from(self.limit.period);
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    pub(crate) fn resolution(&self) -> Option<Resolution> {
        let builder = Limiter::builder(self.limit.quota()).memory_budget(usize::MAX);
        Some(builder.clock(ManualClock::new()).build().ok()?.resolution())
    }

    pub(crate) fn moved(&self, go: Move, now: u64, wait: u64) -> u64 {
        let by = |unit, eighths: u16| {
            u64::try_from(u128::from(self.limit.nanos(unit)) * u128::from(eighths) / 8).unwrap_or(u64::MAX)
        };
        let moved = match go {
            Move::Stay => now,
            Move::Ahead { unit, eighths, nudge } => {
                now.max(now.saturating_add(by(unit, eighths)).saturating_add_signed(nudge.into()))
            }
            Move::Wait { nudge } => now.max(now.saturating_add(wait).saturating_add_signed(nudge.into())),
            Move::Years(eighths) => now.saturating_add(YEAR / 8 * u64::from(eighths)),
            Move::Back { unit, eighths, nudge } => {
                now.min(now.saturating_sub(by(unit, eighths)).saturating_add_signed(nudge.into()))
            }
        };
        moved.min(UPTIME)
    }

    /// Returns the longest wait in nanoseconds, or how many more than needed.
    fn patience(&self, patience: Patience) -> Result<u64, i8> {
        match patience {
            Patience::None => Ok(0),
            Patience::Enough(more) => Err(more),
            Patience::Eighths(eighths) => {
                let nanos = u128::from(self.limit.nanos(Unit::Recovery)) * u128::from(eighths) / 8;
                Ok(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            Patience::Forever => Ok(u64::MAX),
        }
    }

    pub(crate) fn cost(&self, cost: Cost) -> u64 {
        let limit = self.limit.most();
        match cost {
            Cost::Units(units) => units,
            Cost::Eighths(eighths) => {
                u64::try_from(u128::from(limit) * u128::from(eighths) / 8).unwrap_or(u64::MAX)
            }
            Cost::Limit(more) => limit.saturating_add_signed(more.into()),
            Cost::Huge => u64::MAX,
        }
    }
}

impl Said {
    /// Returns the wait at this time in the answer.
    fn wait(self, at: u64) -> Option<u64> {
        match self {
            Said::Answer(answer) | Said::Took(_, answer) => answer.retry_after_ns,
            Said::Departs(departs, _) => Some(departs - at),
            Said::TooLong { wait } => Some(wait),
            _ => None,
        }
    }
}

impl Script {
    /// Returns the number of different keys.
    pub(crate) fn keys(&self) -> usize {
        (0..KEYS.len()).filter(|key| self.lines.iter().any(|line| line.key == *key)).count()
    }
}

/// Prints the limit, then a line for each operation: `1. t=+1ms check alice 3`.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, clock zero at Unix time {:?}", self.limit, Duration::from_nanos(self.origin))?;
        let Some(script) = self.script() else { return write!(f, ": refused by the engine") };
        write!(f, ", {:?}", script.resolution)?;
        (1..).zip(&script.lines).try_for_each(|(number, line)| write!(f, "\n  {number}. {line}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.at < self.since { '-' } else { '+' };
        write!(f, "t={sign}{:?} ", Duration::from_nanos(self.at.abs_diff(self.since)))?;
        let key = KEYS[self.key];
        match self.action {
            Action::Check(cost) => write!(f, "check {key} {cost}"),
            Action::Peek(cost) => write!(f, "peek {key} {cost}"),
            Action::UpTo { most, .. } => write!(f, "check {key} up to {most}"),
            Action::Debit(cost) => write!(f, "debit {key} {cost}"),
            Action::Reset => write!(f, "reset {key}"),
            Action::Refund(line) => write!(f, "refund {key} line {}", line + 1),
            Action::Part(line, units) => write!(f, "refund {key} {units} of line {}", line + 1),
            Action::Reserve { cost, max_wait: u64::MAX } => write!(f, "reserve {key} {cost}"),
            Action::Reserve { cost, max_wait } => {
                write!(f, "reserve {key} {cost} within {:?}", Duration::from_nanos(max_wait))
            }
            Action::Cancel(line) => write!(f, "cancel {key} line {}", line + 1),
            Action::Credit(units) => write!(f, "credit {key} {units}"),
        }
    }
}
