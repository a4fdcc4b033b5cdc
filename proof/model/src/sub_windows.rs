//! The sliding window in sub-windows, which never admits more than the limit.
//!
//! The window has k sub-windows of length `s = ceil(W / k)`. The state has a count for the current
//! sub-window and the k before it. Together they always cover at least the last W, so no interval
//! of length W has more than `limit`. A count drops out up to one sub-window later than W.
//!
//! ```text
//!        k closed sub-windows, at least W long      the current one
//!   |-----------|-----------|-----------|-----------|------>
//!   index - k                           index - 1   index
//! ```

use crate::CountPolicy;
use crate::grid::Grid;
use crate::rule::{Charge, Rule, clamp};
use crate::sliding_window::{round_up, subtract, subtract_granules};

pub(crate) struct SubWindows {
    limit: u64,
    /// How many closed sub-windows count (k).
    closed: u32,
    grid: Grid,
    count: CountPolicy,
    ceiling: u64,
    granule: u64,
}

/// The counts of the last sub-window in which a request was counted, and of the k before it.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    index: u128,
    /// The current count, then the closed ones, latest first: k + 1 counts.
    counts: Vec<u64>,
}

impl SubWindows {
    pub(crate) fn new(
        limit: u64,
        window_ns: u64,
        subwindows: u32,
        origin_ns: u64,
        count: CountPolicy,
        ceiling: u64,
        granule: u64,
    ) -> Self {
        assert!(subwindows > 0, "a window has at least one part");
        assert!(ceiling >= limit, "a ceiling below the limit cannot enforce it");
        assert!(granule > 0, "counts are multiples of a granule");
        let grid = Grid::new(window_ns.div_ceil(subwindows.into()), origin_ns);
        Self { limit, closed: subwindows, grid, count, ceiling, granule }
    }

    /// The counts at `now`.
    fn at(&self, counts: &Counts, now: u64) -> Counts {
        self.advanced(counts, self.grid.index(now, counts.index))
    }

    /// The counts when sub-window `index` is the current one.
    fn advanced(&self, counts: &Counts, index: u128) -> Counts {
        let mut counts = counts.clone();
        while counts.index < index && counts.sum() > 0 {
            counts.index += 1;
            counts.counts.rotate_right(1);
            counts.counts[0] = 0;
            counts.counts[1] = round_up(counts.counts[1], self.granule, self.ceiling);
        }
        counts.index = index;
        counts
    }

    fn fits(&self, counts: &Counts, cost: u64) -> bool {
        counts.sum() + u128::from(cost) <= u128::from(self.limit)
    }
}

impl Counts {
    fn sum(&self) -> u128 {
        self.counts.iter().copied().map(u128::from).sum()
    }
}

impl Rule for SubWindows {
    type State = Counts;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn unseen(&self) -> Counts {
        Counts { index: 0, counts: vec![0; self.closed as usize + 1] }
    }

    fn admitted(&self, counts: &Counts, now: u64, cost: u64) -> Option<Counts> {
        let mut counts = self.at(counts, now);
        if !self.fits(&counts, cost) {
            return None;
        }
        counts.counts[0] += cost;
        Some(counts)
    }

    fn refused(&self, counts: &Counts, now: u64, cost: u64) -> Counts {
        match self.count {
            CountPolicy::Allowed => counts.clone(),
            CountPolicy::All => {
                let mut counts = self.at(counts, now);
                counts.counts[0] = counts.counts[0].saturating_add(cost).min(self.ceiling);
                counts
            }
        }
    }

    fn remaining(&self, counts: &Counts, now: u64) -> u64 {
        clamp(u128::from(self.limit).saturating_sub(self.at(counts, now).sum()))
    }

    /// The wait until the first later sub-window in which `cost` fits. After k + 1 sub-windows all
    /// counts are 0.
    fn retry_after(&self, counts: &Counts, now: u64, cost: u64) -> u64 {
        let mut later = self.at(counts, now);
        loop {
            later = self.advanced(&later, later.index + 1);
            if self.fits(&later, cost) {
                return self.grid.wait_for(now, later.index);
            }
        }
    }

    /// The latest count drops out last, k + 1 sub-windows after the start of its sub-window.
    fn reset_after(&self, counts: &Counts, now: u64) -> u64 {
        let counts = self.at(counts, now);
        match counts.counts.iter().position(|&count| count > 0) {
            None => 0,
            Some(age) => {
                let latest = counts.index - age as u128;
                self.grid.wait_for(now, latest + u128::from(self.closed) + 1)
            }
        }
    }

    fn debited(&self, counts: &Counts, now: u64, cost: u64) -> Option<(Counts, u64)> {
        let mut counts = self.at(counts, now);
        let units = cost.min(self.ceiling.saturating_sub(counts.counts[0]));
        counts.counts[0] += units;
        Some((counts, units))
    }

    /// Subtracts from the charged sub-window if it still counts.
    fn refunded(&self, seen: &Counts, charge: &Charge<'_, Counts>, now: u64) -> (Counts, u64) {
        let mut counts = self.at(seen, now);
        let age = counts.index.checked_sub(charge.after.index).and_then(|age| usize::try_from(age).ok());
        let back = match age.and_then(|age| counts.counts.get_mut(age)) {
            None => 0,
            Some(count) if age == Some(0) => subtract(count, charge.cost),
            Some(count) => subtract_granules(count, charge.cost, self.granule, self.ceiling),
        };
        // A refund of nothing must not move the key to a later sub-window.
        if back == 0 { (seen.clone(), 0) } else { (counts, back) }
    }

    fn credited(&self, seen: &Counts, _unseen: &Counts, now: u64, units: u64) -> (Counts, u64) {
        let mut counts = self.at(seen, now);
        let mut back = subtract(&mut counts.counts[0], units);
        for count in &mut counts.counts[1..] {
            back += subtract_granules(count, units - back, self.granule, self.ceiling);
        }
        if back == 0 { (seen.clone(), 0) } else { (counts, back) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, CountPolicy, Model};

    fn ten_in_sixty(count: CountPolicy, granule: u64) -> Model {
        let (window_ns, subwindows, origin_ns) = (60, 6, 0);
        Model::new(Algorithm::SubWindows {
            limit: 10,
            window_ns,
            subwindows,
            origin_ns,
            count,
            ceiling: 15,
            granule,
        })
    }

    #[test]
    fn a_count_drops_out_when_its_sub_window_has_left() {
        let mut model = ten_in_sixty(CountPolicy::Allowed, 1);
        assert!(model.check("k", 9, 4).allowed);
        assert!(model.check("k", 25, 6).allowed);
        let full = model.check("k", 30, 1);
        assert_eq!((full.allowed, full.remaining, full.retry_after_ns), (false, 0, Some(70 - 30)));
        assert_eq!(full.reset_after_ns, 90 - 30);
        assert_eq!(model.peek("k", 30, 5).retry_after_ns, Some(90 - 30));
        assert_eq!([69, 70, 89, 90].map(|now| model.peek("k", now, 0).remaining), [0, 4, 4, 10]);
    }

    #[test]
    fn a_closed_sub_window_counts_whole_granules() {
        let mut model = ten_in_sixty(CountPolicy::Allowed, 4);
        assert_eq!(model.check("k", 0, 5).remaining, 5);
        assert_eq!(model.peek("k", 10, 0).remaining, 2);
    }

    #[test]
    fn a_refund_belongs_to_the_charged_sub_window() {
        let mut model = ten_in_sixty(CountPolicy::Allowed, 1);
        let [soon, late, too_late] = [4, 1, 1].map(|cost| model.admit("k", 9, cost).1.unwrap());
        assert!(model.check("k", 25, 4).allowed);
        assert_eq!(model.refund(soon, 9), 4);
        assert_eq!(model.refund(late, 69), 1);
        assert_eq!([69, 70].map(|now| model.peek("k", now, 0).remaining), [5, 6]);
        assert_eq!(model.refund(too_late, 70), 0);
        assert_eq!(model.peek("k", 70, 0).remaining, 6);
    }

    #[test]
    fn a_closed_sub_window_gives_back_whole_granules() {
        let mut model = ten_in_sixty(CountPolicy::Allowed, 4);
        let receipt = model.admit("k", 0, 7).1.unwrap();
        assert_eq!(model.refund(receipt, 10), 4);
        assert_eq!(model.peek("k", 10, 0).remaining, 6);
    }

    #[test]
    fn the_policy_all_counts_refusals() {
        let mut model = ten_in_sixty(CountPolicy::All, 1);
        assert!(model.check("k", 0, 10).allowed);
        let refused = model.check("k", 10, 1);
        assert_eq!((refused.retry_after_ns, refused.reset_after_ns), (Some(70 - 10), 80 - 10));
        assert_eq!(model.peek("k", 70, 0).remaining, 9);
    }

    #[test]
    fn parts_that_do_not_divide_the_window_are_rounded_up() {
        let (window_ns, subwindows, origin_ns, count) = (10, 3, 0, CountPolicy::Allowed);
        let mut model = Model::new(Algorithm::SubWindows {
            limit: 1,
            window_ns,
            subwindows,
            origin_ns,
            count,
            ceiling: 1,
            granule: 1,
        });
        assert_eq!(model.check("k", 3, 1).reset_after_ns, 4 * 4 - 3);
    }

    #[test]
    fn a_late_request_counts_in_the_sub_window_already_reached() {
        let mut model = ten_in_sixty(CountPolicy::Allowed, 1);
        assert!(model.check("k", 50, 6).allowed);
        let late = model.check("k", 20, 5);
        assert_eq!((late.allowed, late.retry_after_ns), (false, Some(120 - 20)));
    }
}
