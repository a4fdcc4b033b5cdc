//! The fixed window: at most `limit` in each aligned window.
//!
//! Around a boundary, up to `2 * limit` pass within one window's length.

use crate::CountPolicy;
use crate::grid::Grid;
use crate::inherit::Debt;
use crate::rule::{Charge, Counted, Rule, clamp};

pub(crate) struct FixedWindow {
    limit: u64,
    grid: Grid,
    count: CountPolicy,
    ceiling: u64,
}

/// The last window in which a request was counted, and its count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    index: u128,
    count: u64,
}

impl FixedWindow {
    pub(crate) fn new(limit: u64, window_ns: u64, origin_ns: u64, count: CountPolicy, ceiling: u64) -> Self {
        assert!(ceiling >= limit, "a ceiling below the limit cannot enforce it");
        Self { limit, grid: Grid::new(window_ns, origin_ns), count, ceiling }
    }

    /// The window at `now`; a new one is empty.
    fn at(&self, window: &Window, now: u64) -> Window {
        let index = self.grid.index(now, window.index);
        Window { index, count: if index == window.index { window.count } else { 0 } }
    }
}

impl Rule for FixedWindow {
    type State = Window;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn unseen(&self) -> Window {
        Window { index: 0, count: 0 }
    }

    fn admitted(&self, window: &Window, now: u64, cost: u64) -> Option<Window> {
        let Window { index, count } = self.at(window, now);
        let count = count.checked_add(cost).filter(|&count| count <= self.limit)?;
        Some(Window { index, count })
    }

    fn refused(&self, window: &Window, now: u64, cost: u64) -> Window {
        match self.count {
            CountPolicy::Allowed => *window,
            CountPolicy::All => {
                let Window { index, count } = self.at(window, now);
                Window { index, count: count.saturating_add(cost).min(self.ceiling) }
            }
        }
    }

    fn remaining(&self, window: &Window, now: u64) -> u64 {
        self.limit.saturating_sub(self.at(window, now).count)
    }

    /// The next window admits every cost up to the limit.
    fn retry_after(&self, window: &Window, now: u64, _cost: u64) -> u64 {
        self.grid.wait_for(now, self.at(window, now).index + 1)
    }

    fn reset_after(&self, window: &Window, now: u64) -> u64 {
        match self.at(window, now) {
            Window { count: 0, .. } => 0,
            Window { index, .. } => self.grid.wait_for(now, index + 1),
        }
    }

    fn debited(&self, window: &Window, now: u64, cost: u64) -> Option<(Window, u64)> {
        let Window { index, count } = self.at(window, now);
        let units = cost.min(self.ceiling.saturating_sub(count));
        Some((Window { index, count: count + units }, units))
    }

    fn debt(&self, window: &Window, now: u64) -> Option<Debt> {
        Some(Debt { amount: self.at(window, now).count.into(), unit: 1 })
    }

    /// The debt counts in the window that takes the place of the one before.
    fn with_debt(&self, debt: Debt, now: u64, counted: Option<Counted>) -> Option<Window> {
        let count = clamp(debt.in_units_of(1)).min(self.ceiling);
        Some(Window { index: self.grid.successor(counted, now), count })
    }

    fn realigned(&self, origin: u64) -> Option<Self> {
        Some(Self { grid: Grid::new(self.grid.length(), origin), ..*self })
    }

    fn moved(&self, next: &Self, window: &Window, unseen: &Window, now: u64) -> Window {
        let index = next.grid.successor(self.counted(unseen, now), now);
        Window { index, count: self.at(window, now).count }
    }

    fn counted(&self, unseen: &Window, now: u64) -> Option<Counted> {
        Some(self.grid.counted(self.at(unseen, now).index))
    }

    /// A charge in a finished window no longer counts, so it gives nothing back.
    fn refunded(&self, window: &Window, charge: &Charge<'_, Window>, now: u64) -> (Window, u64) {
        let Window { index, count } = self.at(window, now);
        let back = if index == charge.after.index { charge.cost.min(count) } else { 0 };
        // A refund of nothing must not move the key to a later window.
        if back == 0 { (*window, 0) } else { (Window { index, count: count - back }, back) }
    }

    fn credited(&self, window: &Window, unseen: &Window, now: u64, units: u64) -> (Window, u64) {
        let Window { index, count } = self.at(window, now);
        let least = if index == unseen.index { unseen.count } else { 0 };
        let back = units.min(count.saturating_sub(least));
        if back == 0 { (*window, 0) } else { (Window { index, count: count - back }, back) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, CountPolicy, Model};

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn five_a_second(count: CountPolicy) -> Model {
        let window_ns = SECOND;
        Model::new(Algorithm::FixedWindow { limit: 5, window_ns, origin_ns: 0, count, ceiling: 7 })
    }

    #[test]
    fn twice_the_limit_can_pass_around_a_boundary() {
        let mut model = five_a_second(CountPolicy::Allowed);
        assert!(model.check("k", 999 * MS, 5).allowed);
        assert!(model.check("k", 1_000 * MS, 5).allowed);
        assert_eq!(model.check("k", 1_000 * MS, 1).retry_after_ns, Some(SECOND));
    }

    #[test]
    fn a_late_request_cannot_roll_the_window_back() {
        let mut model = five_a_second(CountPolicy::Allowed);
        assert!(model.check("k", 1_000 * MS, 5).allowed);
        let late = model.check("k", 999 * MS, 1);
        assert_eq!((late.allowed, late.retry_after_ns), (false, Some(1_001 * MS)));
        assert!(!model.check("k", 1_001 * MS, 1).allowed);
    }

    #[test]
    fn the_policy_all_counts_refusals_up_to_the_ceiling() {
        let mut model = five_a_second(CountPolicy::All);
        assert!(model.check("k", 0, 3).allowed);
        assert_eq!(model.check("k", 0, 3).remaining, 0);
        assert!(!model.check("k", 0, 1).allowed);
        assert_eq!(model.check("k", SECOND, 5).remaining, 0);

        let mut model = five_a_second(CountPolicy::Allowed);
        assert!(model.check("k", 0, 3).allowed);
        assert_eq!(model.check("k", 0, 3).remaining, 2);
        assert!(model.check("k", 0, 2).allowed);
    }

    #[test]
    fn a_refund_belongs_to_the_window_that_was_charged() {
        let mut model = five_a_second(CountPolicy::Allowed);
        let receipts = [3, 1, 1].map(|cost| model.admit("k", 0, cost).1.unwrap());
        let [three, one, late] = receipts;
        assert_eq!(model.refund(three, 999 * MS), 3);
        assert_eq!(model.refund(one, 0), 1);
        assert_eq!(model.peek("k", 999 * MS, 0).remaining, 4);
        assert!(model.check("k", SECOND, 2).allowed);
        assert_eq!(model.refund(late, SECOND), 0);
        assert_eq!(model.peek("k", SECOND, 0).remaining, 3);
    }

    #[test]
    fn a_refund_takes_no_refusal_off_the_count() {
        let mut model = five_a_second(CountPolicy::All);
        let receipt = model.admit("k", 0, 3).1.unwrap();
        assert!(!model.check("k", 0, 5).allowed); // 8, of which 7 are kept
        assert_eq!(model.refund(receipt, 0), 3);
        assert_eq!(model.peek("k", 0, 0).remaining, 1);
    }

    #[test]
    fn the_window_resets_at_its_end() {
        let mut model = five_a_second(CountPolicy::Allowed);
        assert_eq!(model.peek("k", 300 * MS, 0).reset_after_ns, 0);
        assert_eq!(model.check("k", 300 * MS, 1).reset_after_ns, 700 * MS);
        assert_eq!(model.peek("k", SECOND, 0).reset_after_ns, 0);
    }
}
