//! One key of a limiter whose quota comes with each call, and the verbs.

use std::fmt;
use std::time::Duration;

use crate::algorithm::{CallQuota, PerCallRule, Refusal, Rule};
use crate::clock::Clock;
use crate::decision::Outcome;
use crate::limiter::per_call::{CallDecision, CallError, State};
use crate::limiter::{ByClock, Time};
use crate::table::Fingerprint;
use crate::table::basis::Basis;
use crate::table::dated::{Current, ThenAndNow};
use crate::table::ruling::{Ask, Ruling};
use crate::time::{Timestamp, nanos};

/// One key of a [`PerCallLimiter`](crate::PerCallLimiter), ready to be checked: see
/// [`PerCallLimiter::prepare`](crate::PerCallLimiter::prepare).
///
/// A few words, `Copy`, and good for as long as the limiter. It decides as the limiter does for the
/// key, and holds nothing in the table.
#[must_use = "a prepared key is charged when it is checked"]
pub struct PreparedCall<'l, C, T = ByClock> {
    pub(super) state: &'l State<C>,
    pub(super) fingerprint: Fingerprint,
    pub(super) time: T,
}

impl<C, T: Copy> Clone for PreparedCall<'_, C, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, T: Copy> Copy for PreparedCall<'_, C, T> {}

impl<'l, C: Clock, T: Time> PreparedCall<'l, C, T> {
    /// Decides a request by this quota, and charges it if it is admitted: see
    /// [`PerCallLimiter::check`](crate::PerCallLimiter::check).
    ///
    /// # Errors
    ///
    /// [`CallError`]; nothing is charged then.
    #[inline(always)]
    pub fn check(&self, quota: CallQuota, cost: u64) -> Result<CallDecision, CallError> {
        let Self { state, fingerprint, time } = *self;
        let Some(charge) = quota.charge(cost).filter(|&charge| charge > 0) else {
            let key = *self;
            return CallDecision::by_fields(key.peek(quota, cost));
        };
        let resets = state.resets();
        let current = Current { rule: quota.rule(), term: &state.term };
        let clock = || time.now(&state.clock);
        let view = state.table.view(fingerprint);
        let (ruling, now) = view.check(&current, fingerprint.kept(), charge, clock);
        if !ruling.allowed {
            return CallDecision::by_fields(state.refused(ruling, quota, cost, now));
        }
        Ok(CallDecision {
            outcome: Outcome::Allowed,
            quota,
            cost,
            payload: ruling.payload,
            now,
            left: cost,
            fingerprint,
            resets,
            limiter: state.number,
        })
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    ///
    /// # Errors
    ///
    /// [`CallError`], where `check` would be an error.
    #[cold]
    #[inline(never)]
    pub fn peek(&self, quota: CallQuota, cost: u64) -> Result<CallDecision, CallError> {
        let Self { state, fingerprint, time } = *self;
        let now = time.now(&state.clock);
        let (rule, at) = (quota.rule(), quota.rule().moment(now));
        let ask = |cost| Ask { rule: state.dated(&rule), fingerprint: fingerprint.kept(), cost };
        let view = state.table.view(fingerprint);
        let Some(charge) = quota.charge(cost).filter(|&charge| charge > 0) else {
            if cost > quota.largest_cost() {
                return Err(CallError::CostOutOfRange { cost, max: quota.largest_cost() });
            }
            // Nothing to decide: only the key as it is.
            let outcome = if cost == 0 { Outcome::Allowed } else { Outcome::Never };
            let payload = view.probe(ask(1), at).map_err(|_| state.full(quota, now))?.payload;
            return Ok(CallDecision::without_charge(outcome, payload, quota, cost, now));
        };
        let ruling = view.peek(ask(charge), now);
        if ruling.allowed {
            Ok(CallDecision::without_charge(Outcome::Allowed, ruling.payload, quota, cost, now))
        } else {
            state.refused(ruling, quota, cost, now)
        }
    }

    /// The same key at a time that the caller has, and no clock is read: see
    /// [`Limiter::at`](crate::Limiter::at).
    #[inline(always)]
    pub fn at(&self, now: Timestamp) -> PreparedCall<'l, C, Timestamp> {
        PreparedCall { state: self.state, fingerprint: self.fingerprint, time: now }
    }

    /// Gives back what an admitted request took: see
    /// [`PerCallLimiter::refund`](crate::PerCallLimiter::refund). The decision knows its key.
    pub fn refund(&self, charge: &mut CallDecision, units: u64) -> u64 {
        let Self { state, time, .. } = *self;
        state.refund(charge, units, || time.now(&state.clock))
    }

    /// Forgives the key up to `amount` of its debt: how much. A `CL.THROTTLE` with a negative
    /// quantity does so.
    ///
    /// **Guarantee.** The admitted charges of a key exceed its bound by at most what credits
    /// forgave. The TAT comes no earlier than now, so nothing is saved up for later. Zero when the
    /// key has no slot. A [refund](Self::refund) after a credit may give less, and mints nothing.
    ///
    /// **Cost.** Five atomic operations when no other thread interferes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CallQuota, ManualClock, PerCallLimiter};
    ///
    /// let limiter = PerCallLimiter::<str>::builder().clock(ManualClock::new()).build()?;
    /// let quota = CallQuota::from_nanos(1_000, 5_000)?;
    /// assert!(limiter.check("alice", quota, 5)?.is_allowed());
    /// let alice = limiter.prepare("alice");
    /// assert_eq!(alice.credit(Duration::from_nanos(2_000)), Duration::from_nanos(2_000));
    /// assert_eq!(alice.peek(quota, 0)?.remaining(), 2);
    /// assert_eq!(alice.credit(Duration::MAX), Duration::from_nanos(3_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn credit(&self, amount: Duration) -> Duration {
        let Self { state, fingerprint, time } = *self;
        let ask = Ask { rule: state.dated(&PerCallRule::ANY), fingerprint, cost: nanos(amount) };
        Duration::from_nanos(state.table.credit(ask, || time.now(&state.clock)))
    }

    /// Forgives the key its debt, as if it had never been seen. `false` when it has no slot.
    ///
    /// A key that inherited another's slot is forgiven what it inherited, too; a debt that the key
    /// left in a full bucket when it lost its slot stays. It ends what could be
    /// [refunded](Self::refund) of the key, and of the keys that share a mark with it, of which a
    /// table has 1,024. A call that is decided meanwhile may be forgiven too, and so is one at a
    /// time before the reset.
    ///
    /// **Cost.** Six atomic operations when no other thread interferes. One of them writes a word
    /// that every check loads: not a verb for every request.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CallQuota, PerCallLimiter, Rate};
    ///
    /// let limiter = PerCallLimiter::<str>::builder().build()?;
    /// let quota = CallQuota::new(Rate::per_hour(1), 1)?;
    /// assert!(limiter.check("alice", quota, 1)?.is_allowed());
    /// assert!(limiter.prepare("alice").reset());
    /// assert!(limiter.check("alice", quota, 1)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self) -> bool {
        let Self { state, fingerprint, time } = *self;
        let (rule, now) = (PerCallRule::ANY, time.now(&state.clock));
        state.table.reset(state.dated(&rule), fingerprint, now, || state.count_reset())
    }
}

impl<C: Clock> State<C> {
    /// The answer to a request that the table did not admit.
    #[cold]
    #[inline(never)]
    fn refused(
        &self,
        ruling: Ruling<'_>,
        quota: CallQuota,
        cost: u64,
        now: Timestamp,
    ) -> Result<CallDecision, CallError> {
        if ruling.basis == Basis::Full {
            return Err(self.full(quota, now));
        }
        let decision = CallDecision::without_charge(Outcome::Denied, ruling.payload, quota, cost, now);
        match decision.refusal() {
            Refusal::Wait(_) => Ok(decision),
            Refusal::Beyond(tat) => Err(CallError::beyond(tat)),
        }
    }

    fn full(&self, quota: CallQuota, now: Timestamp) -> CallError {
        let rule = quota.rule();
        let keys_in_debt = self.table.estimate_in_debt(self.dated(&rule), rule.moment(now));
        CallError::Full { keys_in_debt, max_keys: self.max_keys }
    }

    /// Gives back up to `units` of what a decision took.
    pub(super) fn refund(&self, charge: &mut CallDecision, units: u64, time: impl Fn() -> Timestamp) -> u64 {
        let units = units.min(charge.left);
        if units == 0 || charge.limiter != self.number {
            return 0;
        }
        let (rule, taken) = (charge.quota.rule(), charge.spend(units));
        let rule = self.dated(&rule);
        let (fingerprint, since) = (charge.fingerprint, Timestamp::from_nanos(taken.since.tick));
        let charged = (since, charge.resets);
        let rules = ThenAndNow { then: rule, now: rule };
        let (back, short) = self.table.refund(&rules, fingerprint, taken, charged, time);
        self.table.refunds.count_short(short / charge.quota.nanos(1));
        back.div_ceil(charge.quota.nanos(1))
    }
}

impl<C, T> fmt::Debug for PreparedCall<'_, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedCall").finish_non_exhaustive()
    }
}
