//! Quotas that come with each call, beside arithmetic in 128 bits.
//!
//! Checks and peeks have the arithmetic's answers to the nanosecond. A refund gives back no more
//! than was taken, and leaves no less debt than if the refunded units had never been charged.

use arbitrary::Arbitrary;
use tollgate::{CallQuota, Decision, Limiter, ManualClock, Outcome, Receipt, Timestamp};
use tollgate_testing::keys::Placed;

use crate::contest::APART;
use crate::limits::Number;

/// The largest number of a quota.
const MOST: u64 = (1 << 60) - 1;

/// The latest time of the clock: 73 years.
const LATEST: u64 = 1 << 61;

#[derive(Arbitrary, Debug)]
pub(crate) struct Calls {
    /// Whether the clock only goes ahead. Then the debts after refunds are compared too.
    ahead: bool,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct Step {
    go: Go,
    key: u8,
    verb: Verb,
}

#[derive(Arbitrary, Debug)]
enum Go {
    Stay,
    By(Number),
    /// The last wait of a refusal, and a few nanoseconds more or less.
    Wait(i8),
    Back(Number),
}

#[derive(Arbitrary, Debug)]
enum Verb {
    Check(Call),
    Peek(Call),
    /// The quota of the last call once more.
    Again(Number),
    Refund(u8, Number),
    Reset,
}

#[derive(Arbitrary, Debug)]
struct Call {
    emission: Number,
    burst: Number,
    more: Number,
    cost: Number,
}

/// A charge: when, how much, and what of it was asked back, in nanoseconds.
struct Charge {
    key: usize,
    at: u128,
    charge: u128,
    back: u128,
    receipt: Receipt,
    emission: u128,
    /// Whether a reset has forgiven it.
    is_forgiven: bool,
}

/// The numbers of an answer.
#[derive(Debug, PartialEq)]
struct Numbers {
    outcome: Outcome,
    remaining: u128,
    retry_after: Option<u128>,
    reset_after: u128,
}

struct Contest {
    limiter: Limiter<Placed, CallQuota, 1, ManualClock>,
    now: u64,
    /// Each key's TAT.
    tats: [u128; 3],
    charges: Vec<Charge>,
    call: Option<(CallQuota, u64, u64)>,
    wait: u64,
}

/// Plays the calls. Panics where the limiter differs.
pub(crate) fn contest_of_calls(calls: &Calls) {
    let clock = ManualClock::new();
    let default = CallQuota::from_nanos(1, MOST).expect("it is the largest");
    let limiter = Limiter::builder(default).per().max_keys(64).clock(clock.clone()).build();
    let limiter = limiter.expect("it is small");
    let mut contest = Contest { limiter, now: 0, tats: [0; 3], charges: Vec::new(), call: None, wait: 0 };
    let (mut latest, mut reset_at) = (0, 0);
    for Step { go, key, verb } in calls.steps.iter().take(100) {
        let now = contest.now;
        let to = match go {
            Go::Stay => now,
            Go::By(by) => now.saturating_add(by.value()),
            Go::Wait(more) => now.saturating_add(contest.wait).saturating_add_signed((*more).into()).max(now),
            Go::Back(by) if !calls.ahead => now.saturating_sub(by.value()),
            Go::Back(_) => now,
        };
        // A word remembers the latest time of the clock, across resets too.
        let is_reset = matches!(verb, Verb::Reset);
        contest.now = to.max(if is_reset { latest } else { reset_at }).min(LATEST);
        reset_at = if is_reset { contest.now } else { reset_at };
        latest = latest.max(contest.now);
        clock.set(Timestamp::from_nanos(contest.now));
        contest.step(usize::from(*key) % APART.len(), verb, calls.ahead);
    }
}

impl Contest {
    fn step(&mut self, key: usize, verb: &Verb, is_ahead: bool) {
        match verb {
            Verb::Check(call) => {
                self.call = call.value().or(self.call);
                self.check(key);
            }
            Verb::Again(cost) => {
                self.call = self.call.map(|(quota, emission, _)| (quota, emission, cost.value()));
                self.check(key);
            }
            Verb::Peek(call) => {
                let Some((quota, _, cost)) = call.value() else { return };
                let (right, _) = self.right(key, quota, cost);
                let lent = quota.lend();
                let found = numbers(&self.limiter.account(&APART[key]).under(&lent).peek_n(cost));
                self.same(&right, &found);
            }
            Verb::Refund(pick, units) if is_ahead => self.refund(*pick, units.value()),
            Verb::Refund(..) => {}
            Verb::Reset => {
                self.limiter.account(&APART[key]).reset();
                self.tats[key] = 0;
                let of_key = self.charges.iter_mut().filter(|charge| charge.key == key);
                of_key.for_each(|charge| charge.is_forgiven = true);
            }
        }
        for key in 0..APART.len() {
            assert_eq!(self.seen_debt(key), self.debt(key), "of key {key} at {}", self.now);
        }
    }

    fn check(&mut self, key: usize) {
        let Some((quota, emission, cost)) = self.call else { return };
        let (right, tat) = self.right(key, quota, cost);
        let lent = quota.lend();
        let decision = self.limiter.account(&APART[key]).under(&lent).check_n(cost);
        let (found, receipt) = (numbers(&decision), decision.receipt());
        self.same(&right, &found);
        let Some(tat) = tat else { return };
        self.tats[key] = tat;
        let (emission, at) = (u128::from(emission), u128::from(self.now));
        let charge = emission * u128::from(cost);
        self.charges.push(Charge { key, at, charge, back: 0, receipt, emission, is_forgiven: false });
    }

    fn refund(&mut self, pick: u8, units: u64) {
        let Some(back) = usize::from(pick).checked_rem(self.charges.len()) else { return };
        let number = self.charges.len() - 1 - back;
        let before = self.seen_debt(self.charges[number].key);
        let Charge { key, charge, back, receipt, emission, is_forgiven, .. } = &mut self.charges[number];
        let (key, emission) = (*key, *emission);
        let most = (*charge - *back).min(u128::from(units) * emission);
        *back += most;
        let (found, is_forgiven) = (self.limiter.refund_part(receipt, units), *is_forgiven);
        let given = before - self.seen_debt(key);
        assert!(given <= if is_forgiven { 0 } else { most }, "{given} came back of {most}");
        assert_eq!(u128::from(found), given.div_ceil(emission), "units of {given} nanoseconds");
        self.tats[key] -= given;
        assert!(self.seen_debt(key) >= self.least_debt(key), "a refund of {units} units mints");
    }

    /// The key's debt if nothing that was asked back had ever been charged.
    fn least_debt(&self, key: usize) -> u128 {
        let of_key = self.charges.iter().filter(|charge| charge.key == key && !charge.is_forgiven);
        let tat = of_key.fold(0, |tat, charge| match charge.charge - charge.back {
            0 => tat,
            kept => charge.at.max(tat) + kept,
        });
        tat.saturating_sub(self.now.into())
    }

    fn debt(&self, key: usize) -> u128 {
        self.tats[key].saturating_sub(self.now.into())
    }

    fn seen_debt(&self, key: usize) -> u128 {
        self.limiter.account(&APART[key]).peek_n(0).reset_after().as_nanos()
    }

    /// What a call is answered, and the key's TAT if it is charged.
    fn right(&self, key: usize, quota: CallQuota, cost: u64) -> (Numbers, Option<u128>) {
        let (emission, tolerance) = (quota.emission().as_nanos(), quota.tolerance().as_nanos());
        let (debt, charge, now) = (self.debt(key), emission * u128::from(cost), u128::from(self.now));
        let (after, tat) = (debt + charge, now + debt + charge);
        let (outcome, debt, wait) = match () {
            () if charge > tolerance => (Outcome::Never, debt, None),
            () if charge == 0 => (Outcome::Allowed, debt, None),
            () if after > tolerance => (Outcome::Denied, debt, Some(after - tolerance)),
            () => (Outcome::Allowed, after, None),
        };
        let remaining = tolerance.saturating_sub(debt) / emission;
        let numbers = Numbers { outcome, remaining, retry_after: wait, reset_after: debt };
        (numbers, (outcome == Outcome::Allowed && charge > 0).then_some(tat))
    }

    fn same(&mut self, right: &Numbers, found: &Numbers) {
        assert_eq!(right, found, "by the arithmetic, and by the limiter at {}", self.now);
        if let Some(wait) = found.retry_after {
            self.wait = u64::try_from(wait).unwrap_or(u64::MAX);
        }
    }
}

fn numbers(decision: &Decision<'_>) -> Numbers {
    assert!(!decision.is_full(), "there is room");
    Numbers {
        outcome: decision.outcome(),
        remaining: decision.remaining().into(),
        retry_after: decision.retry_after().map(|wait| wait.as_nanos()),
        reset_after: decision.reset_after().as_nanos(),
    }
}

impl Call {
    /// The quota, its emission interval, and the cost; `None` for a quota that is none.
    fn value(&self) -> Option<(CallQuota, u64, u64)> {
        let emission = self.emission.value();
        let tolerance = emission.saturating_mul(self.burst.value()).saturating_add(self.more.value());
        let quota = CallQuota::from_nanos(emission, tolerance.min(MOST)).ok()?;
        Some((quota, emission, self.cost.value()))
    }
}
