//! What is the same for all algorithms.
//!
//! A [`Rule`] says what its algorithm does with a request that can be judged. [`check`] adds the rest:
//!
//! ```text
//!   cost = 0      -> allowed, nothing changes
//!   cost > limit  -> never,   nothing changes
//!   admitted      -> allowed, the state after the request
//!   otherwise     -> denied,  the state after the refusal (which may have been counted)
//! ```
//!
//! Remaining and reset always describe the state *after* the request, and so does the wait.

use std::fmt;

use crate::inherit::Debt;
use crate::reservation::Place;
use crate::{Answer, NoMeaning};

/// One algorithm with its parameters: pure functions of a key's state, the time and the cost.
///
/// `admitted`, `refused`, `retry_after`, `refunded` and `reserved` are only ever asked about costs from 1 to the limit.
pub(crate) trait Rule {
    /// What is remembered of a key.
    type State: Clone + fmt::Debug + Send + Sync + 'static;

    /// The most that can ever be admitted at once.
    fn limit(&self) -> u64;

    /// The state of a key that was never seen.
    fn unseen(&self) -> Self::State;

    /// The state after admitting the request; `None` when it has to be refused.
    fn admitted(&self, state: &Self::State, now: u64, cost: u64) -> Option<Self::State>;

    /// The state after refusing the request: unchanged, unless refusals are counted.
    fn refused(&self, state: &Self::State, now: u64, cost: u64) -> Self::State;

    /// How much more would be admitted now.
    fn remaining(&self, state: &Self::State, now: u64) -> u64;

    /// The smallest wait, above zero, after which a request that is refused now would be admitted.
    fn retry_after(&self, state: &Self::State, now: u64, cost: u64) -> u64;

    /// The wait until the state is worth the same as [`Rule::unseen`].
    fn reset_after(&self, state: &Self::State, now: u64) -> u64;

    /// Gives a charge back, not before it was made: the state then, and how many units that was.
    fn refunded(&self, state: &Self::State, charge: &Charge<'_, Self::State>, now: u64)
    -> (Self::State, u64);

    /// Where a reservation finds its place; `None` when the algorithm books nothing ahead.
    fn reserved(&self, _state: &Self::State, _now: u64, _cost: u64) -> Option<Place<Self::State>> {
        None
    }

    /// What is owed at `now`; `None` when nobody else can take it over.
    fn debt(&self, _state: &Self::State, _now: u64) -> Option<Debt> {
        None
    }

    /// The state of a key that owes so much at `now`.
    fn owing(&self, _debt: Debt, _now: u64) -> Option<Self::State> {
        None
    }

    /// How long a request that is admitted in this state waits for its departure.
    fn delay(&self, _state: &Self::State, _now: u64) -> u64 {
        0
    }
}

/// What was charged for one request.
pub(crate) struct Charge<'a, S> {
    /// When it was asked.
    pub(crate) at: u64,
    pub(crate) cost: u64,
    /// The key's state right after.
    pub(crate) after: &'a S,
}

/// Decides one check and gives the state it leaves behind.
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

/// Gives an admission back; a cost of nothing changes nothing.
pub(crate) fn refund<R: Rule>(
    rule: &R,
    state: &R::State,
    charge: &Charge<'_, R::State>,
    now: u64,
) -> (R::State, u64) {
    if charge.cost == 0 { (state.clone(), 0) } else { rule.refunded(state, charge, now.max(charge.at)) }
}

/// What became of a reservation.
pub(crate) enum Reserved<S> {
    Booked { wait: u64, charged: S },
    Refused { wait: u64 },
    Never,
}

/// Books `cost` if it departs at most `max_wait` from now.
pub(crate) fn reserve<R: Rule>(
    rule: &R,
    state: &R::State,
    now: u64,
    cost: u64,
    max_wait: u64,
) -> Result<Reserved<R::State>, NoMeaning> {
    // Whether there are departures does not depend on the cost.
    let place = rule.reserved(state, now, cost.min(rule.limit())).ok_or(NoMeaning)?;
    Ok(match place {
        _ if cost == 0 => Reserved::Booked { wait: 0, charged: state.clone() },
        _ if cost > rule.limit() => Reserved::Never,
        Place::Full { wait } => Reserved::Refused { wait },
        Place::After { wait, charged } => match u64::try_from(wait) {
            Ok(wait) if wait <= max_wait => Reserved::Booked { wait, charged },
            _ => Reserved::Refused { wait: clamp(wait) },
        },
    })
}

/// What was decided, before the key's numbers are added.
enum Verdict {
    Allowed { delay: u64 },
    Denied { wait: u64 },
    Never,
}

/// The verdict together with the numbers of the state that it leaves behind.
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

/// `value` as a `u64`; what does not fit becomes the largest one.
pub(crate) fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Answer, CountPolicy, Model};

    const LOG: Algorithm = Algorithm::SlidingLog { limit: 2, window_ns: 10, count: CountPolicy::All };

    #[test]
    fn a_cost_of_nothing_is_allowed_and_changes_nothing() {
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
    fn a_cost_above_the_limit_is_never_allowed_and_never_counted() {
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
