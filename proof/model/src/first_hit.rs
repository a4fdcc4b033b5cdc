//! The fixed window that begins with a key's first request.
//!
//! It begins when a key without one is admitted, and ends one period later. Time is counted in
//! ticks: a request comes at the start of its tick. With ticks longer than a nanosecond a period is
//! rounded up to ticks, and one more, so that none is too short.

use crate::CountPolicy;
use crate::rule::{Charge, Rule, clamp};

pub(crate) struct FirstHit {
    limit: u64,
    period: u128,
    tick: u64,
    count: CountPolicy,
    ceiling: u64,
}

/// The end of a window, and its count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    end: u128,
    count: u64,
}

impl FirstHit {
    pub(crate) fn new(limit: u64, window_ns: u64, tick: u64, count: CountPolicy, ceiling: u64) -> Self {
        assert!(window_ns > 0 && tick > 0, "time must pass");
        assert!(ceiling >= limit, "a ceiling below the limit cannot enforce it");
        let ticks = window_ns.div_ceil(tick) + u64::from(tick > 1);
        Self { limit, period: u128::from(ticks) * u128::from(tick), tick, count, ceiling }
    }

    /// The start of the tick.
    fn start(&self, now: u64) -> u128 {
        (now - now % self.tick).into()
    }

    /// The window at the start of a tick; one without units begins then, or when a later request
    /// has begun it.
    fn at(&self, window: &Window, start: u128) -> Window {
        if start < window.end && window.count > 0 {
            return *window;
        }
        Window { end: start.max(window.end.saturating_sub(self.period)) + self.period, count: 0 }
    }
}

impl Rule for FirstHit {
    type State = Window;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn unseen(&self) -> Window {
        Window { end: 0, count: 0 }
    }

    fn admitted(&self, window: &Window, now: u64, cost: u64) -> Option<Window> {
        let Window { end, count } = self.at(window, self.start(now));
        let count = count.checked_add(cost).filter(|&count| count <= self.limit)?;
        Some(Window { end, count })
    }

    fn refused(&self, window: &Window, now: u64, cost: u64) -> Window {
        match self.count {
            CountPolicy::Allowed => *window,
            CountPolicy::All => {
                let Window { end, count } = self.at(window, self.start(now));
                Window { end, count: count.saturating_add(cost).min(self.ceiling) }
            }
        }
    }

    fn remaining(&self, window: &Window, now: u64) -> u64 {
        self.limit.saturating_sub(self.at(window, self.start(now)).count)
    }

    /// The next window admits every cost up to the limit.
    fn retry_after(&self, window: &Window, now: u64, _cost: u64) -> u64 {
        clamp(self.at(window, self.start(now)).end - u128::from(now))
    }

    fn reset_after(&self, window: &Window, now: u64) -> u64 {
        match self.at(window, self.start(now)) {
            Window { count: 0, .. } => 0,
            Window { end, .. } => clamp(end - u128::from(now)),
        }
    }

    /// A charge in a finished window no longer counts, so it gives nothing back.
    fn refunded(&self, window: &Window, charge: &Charge<'_, Window>, now: u64) -> (Window, u64) {
        let Window { end, count } = self.at(window, self.start(now));
        let back = if window.end == charge.after.end { charge.cost.min(count) } else { 0 };
        if back == 0 { (*window, 0) } else { (Window { end, count: count - back }, back) }
    }

    fn credited(&self, window: &Window, _: &Window, now: u64, units: u64) -> (Window, u64) {
        let Window { end, count } = self.at(window, self.start(now));
        let back = units.min(count);
        if back == 0 { (*window, 0) } else { (Window { end, count: count - back }, back) }
    }

    fn debited(&self, window: &Window, now: u64, cost: u64) -> Option<(Window, u64)> {
        let Window { end, count } = self.at(window, self.start(now));
        let units = cost.min(self.ceiling.saturating_sub(count));
        Some((Window { end, count: count + units }, units))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, CountPolicy, Model};

    fn window(count: CountPolicy) -> Model {
        Model::new(Algorithm::FirstHitWindow { limit: 3, window_ns: 10, tick_ns: 1, count, ceiling: 5 })
    }

    #[test]
    fn a_window_begins_with_the_first_admitted_request() {
        let mut model = window(CountPolicy::Allowed);
        assert!(model.check("k", 7, 2).allowed);
        assert!(model.check("k", 16, 1).allowed);
        assert_eq!(model.check("k", 16, 1).retry_after_ns, Some(1));
        assert!(model.check("k", 17, 3).allowed); // twice the limit within two nanoseconds
        assert_eq!(model.check("k", 17, 3).retry_after_ns, Some(10));
        assert!(model.check("k", 99, 1).allowed);
        assert_eq!(model.peek("k", 100, 0).reset_after_ns, 9);
    }

    #[test]
    fn a_counted_refusal_ends_with_the_window() {
        let mut model = window(CountPolicy::All);
        assert!(model.check("k", 0, 2).allowed);
        assert!(!model.check("k", 1, 3).allowed);
        assert!(!model.check("k", 9, 1).allowed);
        assert!(model.check("k", 10, 3).allowed);
    }

    #[test]
    fn a_tick_makes_no_window_shorter() {
        let (limit, count) = (2, CountPolicy::Allowed);
        let algorithm = Algorithm::FirstHitWindow { limit, window_ns: 100, tick_ns: 8, count, ceiling: 2 };
        let mut model = Model::new(algorithm);
        assert!(model.check("k", 15, 2).allowed); // in the tick that began at 8; 14 ticks a period
        assert_eq!([119, 120].map(|t| model.peek("k", t, 0).remaining), [0, 2]);
    }

    #[test]
    fn a_refund_belongs_to_the_window_that_was_charged() {
        let mut model = window(CountPolicy::Allowed);
        let [first, second] = [2, 1].map(|cost| model.admit("k", 5, cost).1.unwrap());
        assert_eq!((model.refund(first, 14), model.peek("k", 14, 0).remaining), (2, 2));
        assert_eq!((model.refund(second, 15), model.peek("k", 15, 0).remaining), (0, 3));
    }
}
