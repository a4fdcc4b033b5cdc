//! The sliding window log: at most `limit` in every window `(t - W, t]`, exactly.
//!
//! The log has the time of each admitted unit. A unit is *inside* the window until W after its
//! time, exclusive: units at 0 and at W never share a window. Only the latest `limit` units can
//! matter, so the log has no more.

use std::collections::VecDeque;

use crate::CountPolicy;
use crate::rule::{Charge, Rule, clamp};

pub(crate) struct SlidingLog {
    limit: u64,
    window: u64,
    count: CountPolicy,
}

/// Units of one request. A cost may be 2^60, too many for one entry a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    at: u64,
    units: u64,
    /// Whether they took the place of units inside the window, as only refused requests do.
    is_over: bool,
}

/// The state of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// When the newest unit was logged, even if it was given back since. The key's time is never
    /// earlier.
    latest: u64,
    /// How many units were ever logged and not given back. Equal to the value right after an
    /// admission if that admission is the newest.
    total: u128,
}

impl SlidingLog {
    pub(crate) fn new(limit: u64, window_ns: u64, count: CountPolicy) -> Self {
        assert!(window_ns > 0, "a window needs a length");
        Self { limit, window: window_ns, count }
    }

    /// When an entry leaves the window.
    fn leaves(&self, entry: &Entry) -> u128 {
        u128::from(entry.at) + u128::from(self.window)
    }

    /// The entries inside the window that ends now, oldest first.
    fn inside<'log>(&self, log: &'log Log, now: u64) -> impl Iterator<Item = &'log Entry> {
        let now = effective(log, now);
        log.entries.iter().filter(move |entry| self.leaves(entry) > u128::from(now))
    }

    fn units_inside(&self, log: &Log, now: u64) -> u128 {
        self.inside(log, now).map(|entry| u128::from(entry.units)).sum()
    }

    /// The log with `cost` more units, reduced to the latest `limit` units.
    fn logged(&self, log: &Log, now: u64, cost: u64) -> Log {
        let inside = self.units_inside(log, now);
        let mut log = log.clone();
        log.latest = effective(&log, now);
        log.total += u128::from(cost);
        let over = clamp((inside + u128::from(cost)).saturating_sub(self.limit.into()));
        for (units, is_over) in [(cost - over, false), (over, true)] {
            if units > 0 {
                log.entries.push_back(Entry { at: log.latest, units, is_over });
            }
        }
        let units: u128 = log.entries.iter().map(|entry| u128::from(entry.units)).sum();
        let mut surplus = clamp(units.saturating_sub(self.limit.into()));
        while surplus > 0 {
            let oldest = &mut log.entries[0];
            let dropped = surplus.min(oldest.units);
            oldest.units -= dropped;
            surplus -= dropped;
            if oldest.units == 0 {
                log.entries.pop_front();
            }
        }
        log
    }
}

/// The key's time: `now`, but never before the newest unit was logged.
fn effective(log: &Log, now: u64) -> u64 {
    log.latest.max(now)
}

impl Rule for SlidingLog {
    type State = Log;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn unseen(&self) -> Log {
        Log::default()
    }

    fn admitted(&self, log: &Log, now: u64, cost: u64) -> Option<Log> {
        let fits = self.units_inside(log, now) + u128::from(cost) <= u128::from(self.limit);
        fits.then(|| self.logged(log, now, cost))
    }

    fn refused(&self, log: &Log, now: u64, cost: u64) -> Log {
        match self.count {
            CountPolicy::Allowed => log.clone(),
            CountPolicy::All => self.logged(log, now, cost),
        }
    }

    fn remaining(&self, log: &Log, now: u64) -> u64 {
        clamp(u128::from(self.limit).saturating_sub(self.units_inside(log, now)))
    }

    /// With n units too many, the wait ends when the n-th oldest unit leaves the window.
    fn retry_after(&self, log: &Log, now: u64, cost: u64) -> u64 {
        let too_many = self.units_inside(log, now) + u128::from(cost) - u128::from(self.limit);
        let mut gone = 0;
        for entry in self.inside(log, now) {
            gone += u128::from(entry.units);
            if gone >= too_many {
                return clamp(self.leaves(entry) - u128::from(now));
            }
        }
        unreachable!("a cost of at most the limit fits into an empty window")
    }

    fn reset_after(&self, log: &Log, now: u64) -> u64 {
        match self.inside(log, now).last() {
            None => 0,
            Some(newest) => clamp(self.leaves(newest) - u128::from(now)),
        }
    }

    /// Gives back only the newest admission, whose entry is the last. Units that its admission
    /// pushed out of the log had left the window and need not come back. An admission that has left
    /// the window no longer counts, so it gives nothing back.
    fn refunded(&self, log: &Log, charge: &Charge<'_, Log>, now: u64) -> (Log, u64) {
        let mut log = log.clone();
        let is_inside = self.inside(&log, now).next().is_some();
        if log.total != charge.after.total || !is_inside {
            return (log, 0);
        }
        let Some(newest) = log.entries.pop_back() else { return (log, 0) };
        if newest.units > charge.cost {
            log.entries.push_back(Entry { units: newest.units - charge.cost, ..newest });
        }
        log.total -= u128::from(charge.cost);
        (log, charge.cost)
    }

    /// Gives back the newest units, up to those that took another unit's place: without them that
    /// one would be missing.
    fn credited(&self, log: &Log, _unseen: &Log, now: u64, units: u64) -> (Log, u64) {
        let (mut log, now, mut back) = (log.clone(), effective(log, now), 0);
        while let Some(newest) = log.entries.back_mut()
            && !newest.is_over
            && u128::from(newest.at) + u128::from(self.window) > u128::from(now)
            && back < units
        {
            let taken = newest.units.min(units - back);
            newest.units -= taken;
            back += taken;
            if newest.units == 0 {
                log.entries.pop_back();
            }
        }
        log.total -= u128::from(back);
        (log, back)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, CountPolicy, Model};

    const SECOND: u64 = 1_000_000_000;

    fn log(limit: u64, window_ns: u64, count: CountPolicy) -> Model {
        Model::new(Algorithm::SlidingLog { limit, window_ns, count })
    }

    #[test]
    fn an_entry_leaves_the_window_exactly_one_window_later() {
        let mut model = log(5, SECOND, CountPolicy::Allowed);
        assert!(model.check("k", 0, 5).allowed);
        assert_eq!(model.check("k", SECOND - 1, 1).retry_after_ns, Some(1));
        assert!(model.check("k", SECOND, 5).allowed);
    }

    #[test]
    fn the_policy_all_keeps_refusing_a_client_that_keeps_trying() {
        let mut model = log(2, 60 * SECOND, CountPolicy::All);
        let allowed = [12, 24, 36, 85].map(|second| model.check("k", second * SECOND, 1).allowed);
        assert_eq!(allowed, [true, true, false, true]);

        let mut model = log(2, 60 * SECOND, CountPolicy::All);
        let allowed = [0, 59, 61, 100, 122].map(|second| model.check("k", second * SECOND, 1).allowed);
        assert_eq!(allowed, [true, true, true, false, true]);
    }

    #[test]
    fn a_refusal_that_counts_lengthens_its_own_wait() {
        let mut model = log(2, 10, CountPolicy::All);
        assert!(model.check("k", 0, 1).allowed);
        assert!(model.check("k", 3, 1).allowed);
        let refused = model.check("k", 5, 1);
        assert_eq!((refused.remaining, refused.retry_after_ns), (0, Some(13 - 5)));
        assert_eq!(refused.reset_after_ns, 10);
    }

    #[test]
    fn a_request_waits_for_as_many_units_as_it_needs() {
        let mut model = log(5, 10, CountPolicy::Allowed);
        for (now, cost) in [(0, 1), (2, 3), (4, 1)] {
            assert!(model.check("k", now, cost).allowed);
        }
        assert_eq!([1, 2, 4, 5].map(|cost| model.peek("k", 5, cost).retry_after_ns.unwrap()), [5, 7, 7, 9]);
    }

    #[test]
    fn the_newest_admission_can_be_given_back() {
        let mut model = log(3, 10, CountPolicy::Allowed);
        let [first, second] = [1, 2].map(|cost| model.admit("k", 4, cost).1.unwrap());
        assert_eq!(model.refund(second, 5), 2);
        assert_eq!(model.refund(first, 6), 1);
        assert_eq!(model.peek("k", 6, 0).remaining, 3);
    }

    #[test]
    fn an_older_admission_cannot_be_given_back() {
        for (policy, cost) in [(CountPolicy::Allowed, 1), (CountPolicy::All, 3)] {
            let mut model = log(3, 10, policy);
            let receipt = model.admit("k", 4, 1).1.unwrap();
            assert_eq!(model.check("k", 4, cost).allowed, cost == 1);
            let before = model.peek("k", 5, 0);
            assert_eq!(model.refund(receipt, 5), 0);
            assert_eq!(model.peek("k", 5, 0), before);
        }
    }

    #[test]
    fn an_admission_that_left_the_window_is_not_given_back() {
        for (now, back) in [(13, 1), (14, 0)] {
            let mut model = log(3, 10, CountPolicy::Allowed);
            let receipt = model.admit("k", 4, 1).1.unwrap();
            assert_eq!(model.refund(receipt, now), back);
        }
    }

    #[test]
    fn a_refund_does_not_move_the_time_back() {
        let mut model = log(2, 10, CountPolicy::Allowed);
        assert!(model.check("k", 0, 1).allowed);
        let receipt = model.admit("k", 20, 2).1.unwrap();
        assert_eq!(model.refund(receipt, 20), 2);
        assert_eq!(model.check("k", 5, 1).reset_after_ns, 30 - 5);
    }

    #[test]
    fn a_clock_that_goes_back_reads_the_newest_time() {
        let mut model = log(2, 10, CountPolicy::Allowed);
        assert!(model.check("k", 20, 1).allowed);
        assert_eq!(model.check("k", 5, 1).reset_after_ns, 30 - 5);
        assert_eq!(model.check("k", 5, 1).retry_after_ns, Some(30 - 5));
    }
}
