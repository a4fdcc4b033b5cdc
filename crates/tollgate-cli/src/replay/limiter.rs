//! The limits of a replay: one or several, all or nothing.

use std::cell::OnceCell;
use std::io;
use std::time::Duration;

use tollgate::{
    BuildError, CallQuota, DebitError, Decision, Limiter, MOST_LIMITS, ManualClock, Quota, Receipt,
    Reservation, ReserveError, Timestamp,
};

use super::answer::{Answer, nanos};
use super::limit::{Limit, builder};
use super::overflow::Overflow;
use super::state::Saved;
use crate::failure::Failure;

/// The limiter of a replay, which follows the times of its records.
pub(crate) struct ReplayLimiter {
    /// Unix time of the clock's zero: the first record's.
    zero: u64,
    clock: ManualClock,
    limits: Vec<Limit>,
    limiter: Limiter<[u8], Quota, MOST_LIMITS, ManualClock>,
    /// Decides the requests that bring their quota. Built for the first of them.
    calls: OnceCell<Limiter<[u8], CallQuota, 1, ManualClock>>,
}

pub(crate) type Turn<'g> = Reservation<'g, Quota, MOST_LIMITS, ManualClock>;

/// Gives back a check.
pub(crate) enum Charge {
    /// Of the limits.
    Limits(Receipt<8>),
    /// Of the quota that came with it.
    Call(Receipt),
}

/// The limits have no turns: one counts in windows, or one of several is a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoTurns;

/// Why a request that brings its quota has no answer.
#[derive(Debug)]
pub(crate) enum CallFailure {
    Unbuilt(BuildError),
    /// Its key has no room in a limiter for so many.
    Full {
        max_keys: usize,
    },
}

impl ReplayLimiter {
    /// Builds the limiter. Its time begins at `zero`, in Unix time, so that windows align to the
    /// epoch.
    ///
    /// # Errors
    ///
    /// When there is not enough memory, or `saved` cannot be restored under these limits.
    pub(crate) fn open(limits: &[Limit], zero: u64, saved: Option<&Saved>) -> Result<Self, Failure> {
        let unbuilt = |error: BuildError| Failure::Usage(error.to_string());
        let clock = ManualClock::starting_at(Duration::from_nanos(zero));
        let builder = builder(limits).clock(clock.clone());
        let limiter = match saved {
            None => builder.build().map_err(unbuilt)?,
            Some(saved) => builder.restore(saved.file()).map_err(|error| saved.refused(&error))?,
        };
        Ok(Self { zero, clock, limits: limits.to_vec(), limiter, calls: OnceCell::new() })
    }

    /// Decides a request and charges it if it is admitted.
    #[inline]
    pub(crate) fn admit(&self, key: &[u8], cost: u64, t_ns: u64) -> bool {
        self.check(key, cost, t_ns).is_allowed()
    }

    /// [`admit`](Self::admit) with the whole answer.
    #[inline]
    pub(crate) fn check(&self, key: &[u8], cost: u64, t_ns: u64) -> Decision<'_, MOST_LIMITS> {
        self.limiter.account(key).at(self.time(t_ns)).check_n(cost)
    }

    /// The answer that [`check`](Self::check) would give. Changes nothing.
    pub(crate) fn peek(&self, key: &[u8], cost: u64, t_ns: u64) -> Decision<'_, MOST_LIMITS> {
        self.limiter.account(key).at(self.time(t_ns)).peek_n(cost)
    }

    /// Reserves a turn of the key. A refusal has the wait until the turn.
    ///
    /// # Errors
    ///
    /// When these limits have no turns.
    pub(crate) fn reserve(
        &self,
        key: &[u8],
        cost: u64,
        max_wait_ns: u64,
        t_ns: u64,
    ) -> Result<Result<Turn<'_>, Answer>, NoTurns> {
        let prepared = self.limiter.account(key).at(self.time(t_ns));
        let refusal = match prepared.reserve(cost, Duration::from_nanos(max_wait_ns)) {
            Ok(turn) => return Ok(Ok(turn)),
            Err(ReserveError::NoTurns) => return Err(NoTurns),
            Err(refusal) => refusal,
        };
        let wait = match refusal {
            ReserveError::TooLong { wait } => Some(nanos(wait)),
            _ => None,
        };
        // Nothing was charged, so a peek of cost 0 has the other numbers.
        let (before, refused) =
            (Answer::from(&self.peek(key, 0, t_ns)), Answer::from(&self.peek(key, cost, t_ns)));
        let refused_by = if refused.refused_by.is_empty() { vec![0] } else { refused.refused_by };
        let never = wait.is_none();
        Ok(Err(Answer { allowed: false, retry_after_ns: wait, never, delay_ns: 0, refused_by, ..before }))
    }

    /// Takes what there is, at most `most`.
    pub(crate) fn check_up_to(&self, key: &[u8], most: u64, t_ns: u64) -> Decision<'_, MOST_LIMITS> {
        self.limiter.account(key).at(self.time(t_ns)).check_up_to(most)
    }

    /// Charges over the limit if need be.
    ///
    /// # Errors
    ///
    /// When a limit keeps no debts, or the key has no room.
    pub(crate) fn debit(
        &self,
        key: &[u8],
        cost: u64,
        t_ns: u64,
    ) -> Result<Decision<'_, MOST_LIMITS>, DebitError> {
        self.limiter.account(key).at(self.time(t_ns)).debit(cost)
    }

    /// Gives at most `units` on top of the limits; returns how many were given.
    pub(crate) fn credit(&self, key: &[u8], units: u64, t_ns: u64) -> u64 {
        self.limiter.account(key).at(self.time(t_ns)).credit(units)
    }

    /// Gives back at most `units` of what a check took; returns how many came back.
    pub(crate) fn refund(&self, charge: Charge, units: u64, t_ns: u64) -> u64 {
        match charge {
            Charge::Limits(mut receipt) => self.limiter.refund_part_at(&mut receipt, units, self.time(t_ns)),
            Charge::Call(mut receipt) => {
                let give_back =
                    |calls: &Limiter<_, _, 1, _>| calls.refund_part_at(&mut receipt, units, self.time(t_ns));
                self.calls.get().map_or(0, give_back)
            }
        }
    }

    /// Decides a request by the quota that it brings, and charges it unless it only looks.
    ///
    /// # Errors
    ///
    /// When the table of such keys is full.
    pub(crate) fn call(
        &self,
        key: &[u8],
        (quota, cost): (CallQuota, u64),
        is_peek: bool,
        t_ns: u64,
    ) -> Result<(Answer, Receipt), CallFailure> {
        let calls = match self.calls.get() {
            Some(calls) => calls,
            None => {
                let keys = self.limits.iter().map(Limit::max_keys).min().unwrap_or(1);
                let builder = Limiter::builder(quota).per().max_keys(keys).memory_budget(usize::MAX);
                let calls = builder.clock(self.clock.clone()).build().map_err(CallFailure::Unbuilt)?;
                self.calls.get_or_init(|| calls)
            }
        };
        let (quota, prepared) = (quota.lend(), calls.account(key).at(self.time(t_ns)));
        let prepared = prepared.under(&quota);
        let decision = if is_peek { prepared.peek_n(cost) } else { prepared.check_n(cost) };
        if decision.is_full() {
            return Err(CallFailure::Full { max_keys: calls.usage().max_keys });
        }
        Ok(((&decision).into(), decision.receipt()))
    }

    /// Gives back what a reservation took, unless it has departed; returns how many came back.
    pub(crate) fn cancel(&self, turn: Turn<'_>, t_ns: u64) -> u64 {
        turn.cancel_at(self.time(t_ns))
    }

    /// Clears the debt of the key.
    pub(crate) fn reset(&self, key: &[u8], t_ns: u64) {
        self.clock.set(self.time(t_ns));
        self.limiter.account(key).reset();
        if let Some(calls) = self.calls.get() {
            calls.account(key).reset();
        }
    }

    /// Writes the debt of every key at this time; returns how many keys are in debt.
    ///
    /// # Errors
    ///
    /// Those of `out`, or when requests brought their quota.
    pub(crate) fn save(&self, out: impl io::Write, t_ns: u64) -> io::Result<usize> {
        if self.calls.get().is_some() {
            return Err(io::Error::other("debts by quotas that came with their requests cannot be saved"));
        }
        self.clock.set(self.time(t_ns));
        // A key may be in debt under more than one limit.
        self.limiter.save(out).map(|_| self.limiter.usage().live_keys)
    }

    /// What happened because tables were full, for each limit where it did.
    pub(crate) fn overflows(&self) -> Vec<Overflow> {
        let keys = self.limiter.usage().max_keys;
        let overflow =
            |(number, limit): (usize, &Limit)| Overflow::of(limit, keys, self.limiter.stats_of(number)?);
        self.limits.iter().enumerate().filter_map(overflow).collect()
    }

    fn time(&self, t_ns: u64) -> Timestamp {
        Timestamp::from_nanos(t_ns - self.zero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn limiter(limits: &[&str]) -> ReplayLimiter {
        let limit = |text: &&str| Limit::new(text.parse().expect(text), Some(64), 1).expect(text);
        let limits: Vec<Limit> = limits.iter().map(limit).collect();
        ReplayLimiter::open(&limits, 1_000 * SECOND, None).expect("it is small")
    }

    /// Whether each limit admits, and what remains of it.
    fn check(limiter: &ReplayLimiter, cost: u64, t: u64) -> Vec<(bool, u64)> {
        let each = |decision: &Decision<'_, MOST_LIMITS>| {
            decision.parts().map(|part| (!part.refuses(), part.remaining())).collect::<Vec<_>>()
        };
        let foreseen = each(&limiter.peek(b"k", cost, 1_000 * SECOND + t));
        let seen = each(&limiter.check(b"k", cost, 1_000 * SECOND + t));
        assert_eq!(foreseen, seen, "a peek foresees the check");
        seen
    }

    #[test]
    fn a_request_that_one_limit_refuses_is_charged_to_none() {
        let limiter = limiter(&["fixed-window:2/s", "fixed-window:10/h"]);
        assert_eq!(check(&limiter, 1, 0), [(true, 1), (true, 9)]);
        assert_eq!(check(&limiter, 2, 1), [(false, 1), (true, 9)]);
        assert_eq!(check(&limiter, 1, 2), [(true, 0), (true, 8)]);
        assert_eq!(check(&limiter, 1, SECOND), [(true, 1), (true, 7)]);
    }

    #[test]
    fn a_limit_does_not_count_what_only_another_refuses() {
        let limiter = limiter(&["fixed-window:2/s", "sliding-log:3/h,count=all"]);
        assert_eq!(check(&limiter, 1, 0), [(true, 1), (true, 2)]);
        assert_eq!(check(&limiter, 2, 1), [(false, 1), (true, 2)]);
        assert_eq!(check(&limiter, 2, SECOND), [(true, 0), (true, 0)]);
    }

    #[test]
    fn admit_decides_and_charges_as_check_does() {
        for limits in [&["sliding-log:2/s"][..], &["fixed-window:3/s", "sliding-window:5/2s,count=all"]] {
            let (checked, admitted) = (limiter(limits), limiter(limits));
            for step in 0..200 {
                let (cost, t) = (step % 3 + 1, (1_000 + step / 5) * SECOND + step);
                let allowed = checked.check(b"k", cost, t).is_allowed();
                assert_eq!(admitted.admit(b"k", cost, t), allowed, "step {step} under {limits:?}");
            }
        }
    }

    #[test]
    fn a_reset_forgives_every_limit_at_its_own_time() {
        let limiter = limiter(&["fixed-window:1/h", "token-bucket:1/h", "sliding-log:1/h"]);
        assert!(limiter.admit(b"k", 1, 1_000 * SECOND));
        assert!(!limiter.admit(b"k", 1, 1_001 * SECOND));
        limiter.reset(b"k", 1_001 * SECOND);
        assert!(limiter.admit(b"k", 1, 1_001 * SECOND));
    }
}
