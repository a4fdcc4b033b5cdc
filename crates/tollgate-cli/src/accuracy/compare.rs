//! The estimate of the sliding window counter beside the truth, request by request.
//!
//! ```text
//!              previous window        current window
//!   |------------------------------|------------------------------|
//!              |<---- the true window (t - period, t] ---->|t
//!
//!   estimate = previous * (share of the previous window that is still covered) + current
//!   truth    = what was admitted in (t - period, t]
//! ```
//!
//! The estimator decides; both counts are of what it admitted, before the request at `t`. It is *wrongly
//! allowed* when the estimator admits it although the truth leaves no room for it, *wrongly refused* when the
//! estimator refuses it although there is room.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::time::Duration;

use tollgate::{BuildError, GlobalLimiter, ManualClock, Quota, Rate, SlidingWindow};

use crate::timelines::{Ask, Timelines};

/// What a comparison found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Finding {
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) wrongly_allowed: u64,
    pub(super) wrongly_refused: u64,
    /// Keys that were wrongly allowed at least once.
    pub(super) keys_over: u64,
    /// The most by which the truth went over the limit, as a share of the limit.
    pub(super) worst_excess: f64,
    /// Over all requests with a truth above zero.
    pub(super) difference: Mean,
    /// Over those with a truth of at least half of the limit: where decisions are close.
    pub(super) difference_near: Mean,
}

/// A mean under way.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    /// `None` of nothing.
    pub(super) fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }
}

impl AddAssign for Mean {
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// Compares over a whole log at one limit.
///
/// # Errors
///
/// When the engine does not accept the limit or the period.
pub(super) fn compare(timelines: &Timelines, limit: u64, period: Duration) -> Result<Finding, BuildError> {
    let mut all = Finding::default();
    for asks in timelines.each() {
        let one = compare_key(timelines.zero, limit, period, asks)?;
        all.requests += one.requests;
        all.refused += one.refused;
        all.wrongly_allowed += one.wrongly_allowed;
        all.wrongly_refused += one.wrongly_refused;
        all.keys_over += one.keys_over;
        all.worst_excess = all.worst_excess.max(one.worst_excess);
        all.difference += one.difference;
        all.difference_near += one.difference_near;
    }
    Ok(all)
}

fn compare_key(zero: u64, limit: u64, period: Duration, asks: &[Ask]) -> Result<Finding, BuildError> {
    let estimator = GlobalLimiter::builder(Quota::from(SlidingWindow::new(Rate::new(limit, period))))
        .clock(ManualClock::starting_at(Duration::from_nanos(zero)))
        .build()?;
    let length = period.as_nanos() as u64;
    let (mut truth, mut estimate) = (Truth::new(length), Estimate::new(zero, length));
    let mut found = Finding::default();
    for ask in asks {
        let (exact, estimated) = (truth.at(ask.at.as_nanos()), estimate.at(ask.at.as_nanos()));
        if exact > 0 {
            let difference = (estimated - exact as f64).abs() / exact as f64;
            found.difference.add(difference);
            if exact >= limit.div_ceil(2) {
                found.difference_near.add(difference);
            }
        }
        let has_room = exact.saturating_add(ask.cost) <= limit;
        let allowed = estimator.at(ask.at).check_n(ask.cost).is_allowed();
        found.requests += 1;
        found.refused += u64::from(!allowed);
        found.wrongly_refused += u64::from(!allowed && has_room);
        if allowed {
            truth.add(ask);
            estimate.current += ask.cost;
            if !has_room && ask.cost > 0 {
                found.wrongly_allowed += 1;
                let excess = (exact + ask.cost - limit) as f64 / limit as f64;
                found.worst_excess = found.worst_excess.max(excess);
            }
        }
    }
    found.keys_over = u64::from(found.wrongly_allowed > 0);
    Ok(found)
}

/// What was admitted in the true window.
struct Truth {
    length: u64,
    admitted: VecDeque<(u64, u64)>,
    sum: u64,
}

impl Truth {
    fn new(length: u64) -> Self {
        Self { length, admitted: VecDeque::new(), sum: 0 }
    }

    fn at(&mut self, now: u64) -> u64 {
        while let Some((when, cost)) =
            self.admitted.front().copied().filter(|(when, _)| when + self.length <= now)
        {
            debug_assert!(when <= now, "time never steps back");
            self.admitted.pop_front();
            self.sum -= cost;
        }
        self.sum
    }

    fn add(&mut self, ask: &Ask) {
        self.admitted.push_back((ask.at.as_nanos(), ask.cost));
        self.sum += ask.cost;
    }
}

/// The published formula, on the counts of aligned windows.
struct Estimate {
    zero: u64,
    length: u64,
    window: u64,
    previous: u64,
    current: u64,
}

impl Estimate {
    fn new(zero: u64, length: u64) -> Self {
        Self { zero, length, window: 0, previous: 0, current: 0 }
    }

    fn at(&mut self, now: u64) -> f64 {
        let unix = self.zero.saturating_add(now);
        let (window, elapsed) = (unix / self.length, unix % self.length);
        match window - self.window {
            0 => {}
            1 => (self.previous, self.current) = (self.current, 0),
            _ => (self.previous, self.current) = (0, 0),
        }
        self.window = window;
        let overlap = (self.length - elapsed) as f64 / self.length as f64;
        self.previous as f64 * overlap + self.current as f64
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Timestamp;

    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    fn asks(times: &[u64]) -> Vec<Ask> {
        times.iter().map(|&t| Ask { at: Timestamp::from_nanos(t), cost: 1 }).collect()
    }

    fn finding(limit: u64, times: &[u64]) -> Finding {
        compare_key(0, limit, Duration::from_nanos(MINUTE), &asks(times)).expect("the limit is small")
    }

    #[test]
    fn requests_late_in_a_window_are_underestimated_in_the_next_one() {
        // Four at 0:59 count as two at 1:30, though all four are less than a minute ago.
        let late = MINUTE - MINUTE / 60;
        let times = [late, late, late, late, MINUTE + MINUTE / 2];
        let found = finding(4, &times);
        assert_eq!((found.refused, found.wrongly_allowed, found.wrongly_refused), (0, 1, 0));
        assert_eq!((found.keys_over, found.worst_excess), (1, 0.25));
        // At the last request the estimate is 2, the truth 4; the three before it are exact.
        assert_eq!(found.difference.value(), Some(0.125));
    }

    #[test]
    fn requests_early_in_a_window_are_overestimated_in_the_next_one() {
        // Four at 0:01 count as two at 1:30, though they have left the window.
        let early = MINUTE / 60;
        let half = MINUTE + MINUTE / 2;
        let found = finding(4, &[early, early, early, early, half, half, half]);
        assert_eq!((found.refused, found.wrongly_allowed, found.wrongly_refused), (1, 0, 1));
    }

    #[test]
    fn the_mirrored_estimate_agrees_with_the_engine() {
        let limit = 7;
        let length = MINUTE;
        let zero = 12_345_678_901;
        let estimator = GlobalLimiter::builder(SlidingWindow::new(Rate::per_minute(limit)))
            .clock(ManualClock::starting_at(Duration::from_nanos(zero)))
            .build()
            .expect("the limit is small");
        let mut estimate = Estimate::new(zero, length);
        let mut t = 0;
        for step in 0..5_000_u64 {
            t += step * 7_919 % 17 * 1_000_000_007 / 3;
            let estimated = estimate.at(t);
            let decision = estimator.at(Timestamp::from_nanos(t)).check();
            assert_eq!(decision.is_allowed(), estimated + 1.0 <= limit as f64 + 1e-9, "at {t}");
            estimate.current += u64::from(decision.is_allowed());
        }
    }
}
