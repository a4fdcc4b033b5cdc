//! The sliding window counter: `previous * overlap + current`.
//!
//! Two aligned windows approximate one that slides. The count of the previous window is taken as
//! evenly distributed: it counts in proportion to the part of the window that the sliding window
//! still overlaps:
//!
//! ```text
//!        previous = 84            current = 36
//!   |-----------------------|-----+-----------------|
//!         [       sliding window  ]                       84 * 3/4 + 36 = 99
//!                           '- e -'
//! ```
//!
//! A request is admitted if `previous * (W - e) + (current + cost) * W <= limit * W`, in whole
//! numbers.

use crate::CountPolicy;
use crate::grid::Grid;
use crate::rule::{Charge, Rule, clamp};

pub(crate) struct SlidingWindow {
    limit: u64,
    grid: Grid,
    count: CountPolicy,
    ceiling: u64,
    granule: u64,
}

/// The counts of the last window in which a request was counted, and of the window before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    index: u128,
    previous: u64,
    current: u64,
}

impl SlidingWindow {
    pub(crate) fn new(
        limit: u64,
        window_ns: u64,
        origin_ns: u64,
        count: CountPolicy,
        ceiling: u64,
        granule: u64,
    ) -> Self {
        assert!(ceiling >= limit, "a ceiling below the limit cannot enforce it");
        assert!(granule > 0, "counts are multiples of a granule");
        Self { limit, grid: Grid::new(window_ns, origin_ns), count, ceiling, granule }
    }

    /// The windows at `now`.
    fn at(&self, windows: &Windows, now: u64) -> Windows {
        self.advanced(windows, self.grid.index(now, windows.index))
    }

    /// The windows when window `index` is the current one.
    fn advanced(&self, windows: &Windows, index: u128) -> Windows {
        match index - windows.index {
            0 => *windows,
            1 => {
                Windows { index, previous: round_up(windows.current, self.granule, self.ceiling), current: 0 }
            }
            _ => Windows { index, previous: 0, current: 0 },
        }
    }

    /// When `cost` first fits into these windows, as a time since the start of the current one: the
    /// smallest e with `previous * (W - e) <= (limit - current - cost) * W`. `None` if it never
    /// fits.
    fn fits_from(&self, windows: &Windows, cost: u64) -> Option<u64> {
        let room = self.limit.checked_sub(windows.current)?.checked_sub(cost)?;
        if windows.previous <= room {
            return Some(0);
        }
        let window = self.grid.length();
        let overlap = clamp(u128::from(room) * u128::from(window) / u128::from(windows.previous));
        (overlap > 0).then(|| window - overlap)
    }
}

/// A finished window's count, rounded up to whole granules but at most to the ceiling.
pub(crate) fn round_up(count: u64, granule: u64, ceiling: u64) -> u64 {
    clamp(u128::from(count.div_ceil(granule)) * u128::from(granule)).min(ceiling)
}

/// Subtracts `cost` from the count, but at most all of it; returns how much.
pub(crate) fn subtract(count: &mut u64, cost: u64) -> u64 {
    let back = cost.min(*count);
    *count -= back;
    back
}

/// Subtracts the whole granules in `cost` from a finished window's count, which [`round_up`]
/// rounded, so that whole granules remain, but at most the ceiling; returns how much.
pub(crate) fn subtract_granules(count: &mut u64, cost: u64, granule: u64, ceiling: u64) -> u64 {
    let granules = count.div_ceil(granule);
    let back = (cost / granule).min(granules);
    *count = clamp(u128::from(granules - back) * u128::from(granule)).min(ceiling);
    back * granule
}

impl Rule for SlidingWindow {
    type State = Windows;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn unseen(&self) -> Windows {
        Windows { index: 0, previous: 0, current: 0 }
    }

    fn admitted(&self, windows: &Windows, now: u64, cost: u64) -> Option<Windows> {
        let windows = self.at(windows, now);
        let fits = cost <= self.remaining(&windows, now);
        fits.then(|| Windows { current: windows.current + cost, ..windows })
    }

    fn refused(&self, windows: &Windows, now: u64, cost: u64) -> Windows {
        match self.count {
            CountPolicy::Allowed => *windows,
            CountPolicy::All => {
                let windows = self.at(windows, now);
                Windows { current: windows.current.saturating_add(cost).min(self.ceiling), ..windows }
            }
        }
    }

    /// The largest n with `previous * (W - e) + (current + n) * W <= limit * W`, zero if there is
    /// none.
    fn remaining(&self, windows: &Windows, now: u64) -> u64 {
        let Windows { index, previous, current } = self.at(windows, now);
        let window = self.grid.length();
        let overlap = window - self.grid.elapsed(now, index);
        let estimate = (u128::from(previous) * u128::from(overlap)).div_ceil(window.into());
        clamp(u128::from(self.limit).saturating_sub(estimate + u128::from(current)))
    }

    /// The wait ends in this window, in the next, or at the start of the one after, where both are
    /// empty.
    fn retry_after(&self, windows: &Windows, now: u64, cost: u64) -> u64 {
        let this = self.at(windows, now);
        let next = self.advanced(&this, this.index + 1);
        for windows in [this, next] {
            if let Some(elapsed) = self.fits_from(&windows, cost) {
                return self.grid.wait_within(now, windows.index, elapsed);
            }
        }
        self.grid.wait_for(now, this.index + 2)
    }

    fn reset_after(&self, windows: &Windows, now: u64) -> u64 {
        match self.at(windows, now) {
            Windows { previous: 0, current: 0, .. } => 0,
            Windows { current: 0, index, .. } => self.grid.wait_for(now, index + 1),
            Windows { index, .. } => self.grid.wait_for(now, index + 2),
        }
    }

    fn debited(&self, windows: &Windows, now: u64, cost: u64) -> Option<(Windows, u64)> {
        let windows = self.at(windows, now);
        let units = cost.min(self.ceiling.saturating_sub(windows.current));
        Some((Windows { current: windows.current + units, ..windows }, units))
    }

    /// Subtracts from the charged window if it is the current or the previous one.
    fn refunded(&self, seen: &Windows, charge: &Charge<'_, Windows>, now: u64) -> (Windows, u64) {
        let mut windows = self.at(seen, now);
        let back = match windows.index.checked_sub(charge.after.index) {
            Some(0) => subtract(&mut windows.current, charge.cost),
            Some(1) => subtract_granules(&mut windows.previous, charge.cost, self.granule, self.ceiling),
            _ => 0,
        };
        // A refund of nothing must not move the key to a later window.
        if back == 0 { (*seen, 0) } else { (windows, back) }
    }

    fn credited(&self, seen: &Windows, _unseen: &Windows, now: u64, units: u64) -> (Windows, u64) {
        let mut windows = self.at(seen, now);
        let now = subtract(&mut windows.current, units);
        let before = subtract_granules(&mut windows.previous, units - now, self.granule, self.ceiling);
        if now + before == 0 { (*seen, 0) } else { (windows, now + before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::check;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;

    fn window(limit: u64, window_ns: u64) -> SlidingWindow {
        SlidingWindow::new(limit, window_ns, 0, CountPolicy::Allowed, u64::MAX, 1)
    }

    /// A charge at time zero.
    fn charge(after: &Windows, cost: u64) -> Charge<'_, Windows> {
        Charge { at: 0, cost, after }
    }

    #[test]
    fn the_estimate_may_reach_but_not_exceed_the_limit() {
        let rule = window(100, HOUR);
        let estimated_99 = Windows { index: 1, previous: 84, current: 36 };
        let quarter_past = HOUR + HOUR / 4;
        let (then, answer) = check(&rule, &estimated_99, quarter_past, 1);
        assert_eq!((answer.allowed, answer.remaining), (true, 0));
        assert!(!check(&rule, &then, quarter_past, 1).1.allowed);
    }

    #[test]
    fn a_request_refused_at_a_quarter_passes_at_the_half() {
        let rule = window(10, MINUTE);
        let four = Windows { index: 1, previous: 9, current: 4 };
        assert!(!check(&rule, &four, MINUTE + MINUTE / 4, 1).1.allowed); // 9 * 3/4 + 5 = 11.75
        assert!(check(&rule, &four, MINUTE + MINUTE / 2, 1).1.allowed); // 9 * 1/2 + 5 = 9.5
    }

    #[test]
    fn the_wait_may_end_one_or_two_windows_later() {
        let rule = window(10, SECOND);
        let (drained, answer) = check(&rule, &rule.unseen(), 0, 10);
        assert!(answer.allowed);
        let half = SECOND / 2;
        assert_eq!(check(&rule, &drained, half, 1).1.retry_after_ns, Some(600_000_000));
        assert!(!check(&rule, &drained, 1_099_999_999, 1).1.allowed);
        assert!(check(&rule, &drained, 1_100_000_000, 1).1.allowed);
        assert_eq!(check(&rule, &drained, half, 10).1.retry_after_ns, Some(2 * SECOND - half));
    }

    #[test]
    fn a_skipped_window_forgets_everything() {
        let rule = window(10, SECOND);
        let (drained, _) = check(&rule, &rule.unseen(), 0, 10);
        assert_eq!(rule.at(&drained, SECOND).previous, 10);
        assert_eq!(rule.at(&drained, 2 * SECOND).previous, 0);
        assert!(check(&rule, &drained, 2 * SECOND, 10).1.allowed);
    }

    #[test]
    fn a_finished_window_is_rounded_up_to_granules() {
        assert_eq!([0, 1, 4, 5].map(|count| round_up(count, 4, 100)), [0, 4, 4, 8]);
        assert_eq!(round_up(99, 4, 99), 99);
        let rule = SlidingWindow::new(10, SECOND, 0, CountPolicy::Allowed, 16, 4);
        let (five, _) = check(&rule, &rule.unseen(), 0, 5);
        assert_eq!(rule.remaining(&five, 0), 5);
        assert_eq!(rule.remaining(&five, SECOND), 2);
    }

    #[test]
    fn a_refund_follows_its_window_into_the_past() {
        let rule = window(10, SECOND);
        let (charged, _) = check(&rule, &rule.unseen(), SECOND - SECOND / 10, 3);
        let late = SECOND + SECOND / 10;
        let (state, answer) = check(&rule, &charged, late, 4);
        assert!(answer.allowed);
        assert_eq!((state.previous, state.current), (3, 4));
        let (state, back) = rule.refunded(&state, &charge(&charged, 3), late);
        assert_eq!((back, state.previous, state.current), (3, 0, 4));
        // A second time, nothing is left to give back.
        let (state, back) = rule.refunded(&state, &charge(&charged, 3), late);
        assert_eq!((back, state.previous, state.current), (0, 0, 4));
    }

    #[test]
    fn a_refund_is_too_late_two_windows_on() {
        let rule = window(10, SECOND);
        let (charged, _) = check(&rule, &rule.unseen(), 0, 3);
        let (state, _) = check(&rule, &charged, 2 * SECOND, 4);
        let (state, back) = rule.refunded(&state, &charge(&charged, 3), 2 * SECOND);
        assert_eq!((back, state.previous, state.current), (0, 0, 4));
    }

    #[test]
    fn a_finished_window_gives_back_whole_granules() {
        let rule = SlidingWindow::new(20, SECOND, 0, CountPolicy::Allowed, 32, 4);
        let (charged, _) = check(&rule, &rule.unseen(), 0, 7);
        let (now, _) = rule.refunded(&charged, &charge(&charged, 7), SECOND - 1);
        assert_eq!(now.current, 0);
        let (later, back) = rule.refunded(&charged, &charge(&charged, 7), SECOND);
        assert_eq!((back, later.previous), (4, 4)); // 7 was kept as 8
    }

    #[test]
    fn a_finished_window_that_reached_the_ceiling_keeps_whole_granules() {
        let rule = SlidingWindow::new(10, SECOND, 0, CountPolicy::Allowed, 10, 4);
        let (charged, _) = check(&rule, &rule.unseen(), 0, 10);
        let (later, back) = rule.refunded(&charged, &charge(&charged, 10), SECOND);
        assert_eq!((back, later.previous), (8, 4)); // 10 stood for 12
    }

    #[test]
    fn the_policy_all_counts_refusals() {
        let rule = SlidingWindow::new(10, SECOND, 0, CountPolicy::All, 15, 1);
        let (state, _) = check(&rule, &rule.unseen(), 0, 8);
        let (state, answer) = check(&rule, &state, 0, 9);
        assert_eq!((answer.allowed, answer.remaining, state.current), (false, 0, 15));
        // 15 * (1 - e) + 9 <= 10 from e = 14/15 of the next window on.
        assert_eq!(answer.retry_after_ns, Some(SECOND + 933_333_334));
    }

    #[test]
    fn a_key_resets_when_its_windows_are_over() {
        let rule = window(10, SECOND);
        let (one, answer) = check(&rule, &rule.unseen(), SECOND / 4, 1);
        assert_eq!(answer.reset_after_ns, SECOND + 3 * SECOND / 4);
        assert_eq!(rule.reset_after(&one, SECOND + 1), SECOND - 1);
        assert_eq!(rule.reset_after(&one, 2 * SECOND), 0);
    }
}
