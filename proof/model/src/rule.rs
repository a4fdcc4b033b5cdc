//! What all algorithms have in common.
//!
//! A [`Rule`] decides costs from 1 to the limit. [`check`] adds the others:
//!
//! ```text
//!   cost = 0      -> allowed, nothing changes
//!   cost > limit  -> never,   nothing changes
//!   admitted      -> allowed, the state after the request
//!   otherwise     -> denied,  the state after the refusal (which may have been counted)
//! ```
//!
//! Remaining, reset and wait describe the state *after* the request.

use std::fmt;

use crate::inherit::Debt;
use crate::turn::Turn;
use crate::{Answer, NotReservable};

/// One algorithm with its parameters: pure functions of a key's state, the time and the cost.
///
/// `admitted`, `refused`, `retry_after`, `refunded` and `turn` are called only with costs from 1 to
/// the limit; `credited` with any number.
pub(crate) trait Rule {
    /// The state of a key.
    type State: Clone + fmt::Debug + Send + Sync + 'static;

    /// The most that can ever be admitted at once.
    fn limit(&self) -> u64;

    /// The state of a key that was never seen.
    fn unseen(&self) -> Self::State;

    /// The state after admitting the request; `None` when the request is refused.
    fn admitted(&self, state: &Self::State, now: u64, cost: u64) -> Option<Self::State>;

    /// The state after refusing the request: unchanged, unless refusals are counted.
    fn refused(&self, state: &Self::State, now: u64, cost: u64) -> Self::State;

    /// How much more would be admitted now.
    fn remaining(&self, state: &Self::State, now: u64) -> u64;

    /// The smallest wait, above zero, after which a request that is refused now would be admitted.
    fn retry_after(&self, state: &Self::State, now: u64, cost: u64) -> u64;

    /// The wait until the state is equivalent to [`Rule::unseen`].
    fn reset_after(&self, state: &Self::State, now: u64) -> u64;

    /// Gives a charge back, at or after its time: the new state, and how many units came back.
    fn refunded(&self, state: &Self::State, charge: &Charge<'_, Self::State>, now: u64)
    -> (Self::State, u64);

    /// Gives back up to `units` of any charges, the newest first: the new state, and how many units
    /// came back. No less is left than in the state of a key that was never seen.
    fn credited(&self, state: &Self::State, unseen: &Self::State, now: u64, units: u64)
    -> (Self::State, u64);

    /// Whether tokens come in steps: then a reservation is charged as at its departure.
    fn refills_by_steps(&self) -> bool {
        false
    }

    /// The state when a reservation is asked for that departs until then.
    fn booked(&self, state: &Self::State, _until: u64) -> Self::State {
        state.clone()
    }

    /// The turn of a reservation; `None` when the algorithm has no reservations.
    fn turn(&self, _state: &Self::State, _now: u64, _cost: u64) -> Option<Turn<Self::State>> {
        None
    }

    /// The state after a debit of `cost` units, over the limit if need be, and how many of them it
    /// counts. `None` when no state holds more than the limit.
    fn debited(&self, _state: &Self::State, _now: u64, _cost: u64) -> Option<(Self::State, u64)> {
        None
    }

    /// The debt at `now`; `None` when no other limit can inherit it.
    fn debt(&self, _state: &Self::State, _now: u64) -> Option<Debt> {
        None
    }

    /// The state of a key that has this debt at `now`, in this window of the rule before.
    fn with_debt(&self, _debt: Debt, _now: u64, _counted: Option<Counted>) -> Option<Self::State> {
        None
    }

    /// The window in which the debts of all keys count at `now`.
    fn counted(&self, _unseen: &Self::State, _now: u64) -> Option<Counted> {
        None
    }

    /// The same rule with its windows, or its refills, aligned to another Unix time. `None` where
    /// they are aligned to none.
    fn realigned(&self, _origin: u64) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// The state under the `next` rule, which is this one realigned at `now`. `unseen` is the state
    /// of a key that was never seen.
    fn moved(&self, _next: &Self, state: &Self::State, _unseen: &Self::State, _now: u64) -> Self::State {
        state.clone()
    }

    /// How long a request waits for its departure when it is admitted in this state.
    fn delay(&self, _state: &Self::State, _now: u64) -> u64 {
        0
    }
}

/// A window in which debts count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) length: u64,
    /// Its start on the clock; below zero, it began before.
    pub(crate) begins: i128,
}

/// The charge of one request.
pub(crate) struct Charge<'a, S> {
    /// The time of the request.
    pub(crate) at: u64,
    pub(crate) cost: u64,
    /// The key's state right after the charge.
    pub(crate) after: &'a S,
}

/// Decides one check; returns the state after it.
pub(crate) fn check<R: Rule>(rule: &R, state: &R::State, now: u64, cost: u64) -> (R::State, Answer) {
    if cost == 0 {
        return (state.clone(), answer(rule, state, now, Verdict::Allowed { delay: 0 }));
    }
    if cost > rule.limit() {
        return (state.clone(), answer(rule, state, now, Verdict::Never));
    }
    match rule.admitted(state, now, cost) {
        Some(next) => {
            let verdict = Verdict::Allowed { delay: rule.delay(state, now) };
            let answer = answer(rule, &next, now, verdict);
            (next, answer)
        }
        None => {
            let next = rule.refused(state, now, cost);
            let verdict = Verdict::Denied { wait: rule.retry_after(&next, now, cost) };
            let answer = answer(rule, &next, now, verdict);
            (next, answer)
        }
    }
}

/// Gives an admission back. A cost of 0 changes nothing.
pub(crate) fn refund<R: Rule>(
    rule: &R,
    state: &R::State,
    charge: &Charge<'_, R::State>,
    now: u64,
) -> (R::State, u64) {
    if charge.cost == 0 { (state.clone(), 0) } else { rule.refunded(state, charge, now.max(charge.at)) }
}

/// The outcome of a reservation.
pub(crate) enum Reserved<S> {
    Booked { wait: u64, charged: S },
    Refused { wait: u64 },
    Never,
}

/// Reserves `cost` if it departs at most `max_wait` from now.
pub(crate) fn reserve<R: Rule>(
    rule: &R,
    state: &R::State,
    now: u64,
    cost: u64,
    max_wait: u64,
) -> Result<Reserved<R::State>, NotReservable> {
    // An algorithm without reservations refuses any cost.
    let turn = rule.turn(state, now, cost.min(rule.limit())).ok_or(NotReservable)?;
    Ok(match turn {
        _ if cost == 0 => Reserved::Booked { wait: 0, charged: state.clone() },
        _ if cost > rule.limit() => Reserved::Never,
        Turn::Full { wait } => Reserved::Refused { wait },
        Turn::After { wait, charged } => match u64::try_from(wait) {
            Ok(wait) if wait <= max_wait => Reserved::Booked { wait, charged },
            _ => Reserved::Refused { wait: clamp(wait) },
        },
    })
}

/// The decision without the key's numbers.
enum Verdict {
    Allowed { delay: u64 },
    Denied { wait: u64 },
    Never,
}

/// The verdict with the numbers of the state after it.
fn answer<R: Rule>(rule: &R, state: &R::State, now: u64, verdict: Verdict) -> Answer {
    let (allowed, never, retry_after_ns, delay_ns) = match verdict {
        Verdict::Allowed { delay } => (true, false, None, delay),
        Verdict::Denied { wait } => (false, false, Some(wait), 0),
        Verdict::Never => (false, true, None, 0),
    };
    Answer {
        allowed,
        never,
        limit: rule.limit(),
        remaining: rule.remaining(state, now),
        retry_after_ns,
        reset_after_ns: rule.reset_after(state, now),
        delay_ns,
    }
}

/// `value` as a `u64`, or `u64::MAX` if it does not fit.
pub(crate) fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Answer, CountPolicy, Model};

    const LOG: Algorithm = Algorithm::SlidingLog { limit: 2, window_ns: 10, count: CountPolicy::All };

    #[test]
    fn a_cost_of_zero_is_allowed_and_changes_nothing() {
        let mut model = Model::new(LOG);
        assert!(model.check("k", 0, 2).allowed);
        let full = Answer {
            allowed: true,
            never: false,
            limit: 2,
            remaining: 0,
            retry_after_ns: None,
            reset_after_ns: 9,
            delay_ns: 0,
        };
        assert_eq!(model.check("k", 1, 0), full);
        assert_eq!(model.check("k", 1, 0), full);
    }

    #[test]
    fn a_cost_above_the_limit_is_not_counted() {
        let mut model = Model::new(LOG);
        let never = Answer {
            allowed: false,
            never: true,
            limit: 2,
            remaining: 2,
            retry_after_ns: None,
            reset_after_ns: 0,
            delay_ns: 0,
        };
        assert_eq!(model.check("k", 0, 3), never);
        assert_eq!(model.check("k", 0, u64::MAX), never);
        assert!(model.check("k", 0, 2).allowed);
    }
}
