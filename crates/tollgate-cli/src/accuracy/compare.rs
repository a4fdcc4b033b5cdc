//! Compares the estimate of the sliding window counter with the exact count, request by request.
//!
//! ```text
//!              previous window        current window
//!   |------------------------------|------------------------------|
//!              |<--- the sliding window (t - period, t] -->|t
//!
//!   estimate = previous * (share of the previous window that is still covered) + current
//!   exact    = the admitted cost in (t - period, t]
//! ```
//!
//! The estimator decides; both counts are of what it admitted before the request at `t`. A request
//! is *wrongly allowed* when the estimator admits it although the exact count leaves no room,
//! *wrongly refused* when the estimator refuses it although there is room.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::time::Duration;

use tollgate::{BuildError, Limiter, ManualClock, Quota, Rate, SlidingWindow};

use crate::timelines::{Request, Timelines};

/// What a comparison found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Finding {
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) wrongly_allowed: u64,
    pub(super) wrongly_refused: u64,
    /// Keys that were wrongly allowed at least once.
    pub(super) keys_over: u64,
    /// The most by which the exact count went over the limit, as a share of the limit.
    pub(super) worst_excess: f64,
    /// Over all requests whose exact count is above 0.
    pub(super) difference: Mean,
    /// Over those whose exact count is at least half of the limit, where decisions are close.
    pub(super) difference_near: Mean,
}

/// A mean to which values are added.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    /// `None` without values.
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
    for requests in timelines.each_key() {
        let one = compare_key(timelines.start_ns, limit, period, requests)?;
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

fn compare_key(
    start_ns: u64,
    limit: u64,
    period: Duration,
    requests: &[Request],
) -> Result<Finding, BuildError> {
    let estimator = Limiter::builder(Quota::from(SlidingWindow::new(Rate::new(limit, period))))
        .clock(ManualClock::starting_at(Duration::from_nanos(start_ns)))
        .build()?;
    let length = period.as_nanos() as u64;
    let (mut exact, mut estimate) = (ExactCount::new(length), Estimate::new(start_ns, length));
    let mut found = Finding::default();
    for request in requests {
        let (count, estimated) = (exact.at(request.at.as_nanos()), estimate.at(request.at.as_nanos()));
        if count > 0 {
            let difference = (estimated - count as f64).abs() / count as f64;
            found.difference.add(difference);
            if count >= limit.div_ceil(2) {
                found.difference_near.add(difference);
            }
        }
        let has_room = count.saturating_add(request.cost) <= limit;
        let allowed = estimator.account(()).at(request.at).check_n(request.cost).is_allowed();
        found.requests += 1;
        found.refused += u64::from(!allowed);
        found.wrongly_refused += u64::from(!allowed && has_room);
        if allowed {
            exact.add(request);
            estimate.current += request.cost;
            if !has_room && request.cost > 0 {
                found.wrongly_allowed += 1;
                let excess = (count + request.cost - limit) as f64 / limit as f64;
                found.worst_excess = found.worst_excess.max(excess);
            }
        }
    }
    found.keys_over = u64::from(found.wrongly_allowed > 0);
    Ok(found)
}

/// The cost admitted in the sliding window.
struct ExactCount {
    length: u64,
    admitted: VecDeque<(u64, u64)>,
    sum: u64,
}

impl ExactCount {
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

    fn add(&mut self, request: &Request) {
        self.admitted.push_back((request.at.as_nanos(), request.cost));
        self.sum += request.cost;
    }
}

/// The published formula, computed from the counts of aligned windows.
struct Estimate {
    start_ns: u64,
    length: u64,
    window: u64,
    previous: u64,
    current: u64,
}

impl Estimate {
    fn new(start_ns: u64, length: u64) -> Self {
        Self { start_ns, length, window: 0, previous: 0, current: 0 }
    }

    fn at(&mut self, now: u64) -> f64 {
        let unix = self.start_ns.saturating_add(now);
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

    fn requests(times: &[u64]) -> Vec<Request> {
        times.iter().map(|&t| Request { at: Timestamp::from_nanos(t), cost: 1 }).collect()
    }

    fn finding(limit: u64, times: &[u64]) -> Finding {
        compare_key(0, limit, Duration::from_nanos(MINUTE), &requests(times)).expect("the limit is small")
    }

    #[test]
    fn requests_late_in_a_window_are_underestimated_later() {
        // Four at 0:59 count as two at 1:30, though all four are less than a minute ago.
        let late = MINUTE - MINUTE / 60;
        let times = [late, late, late, late, MINUTE + MINUTE / 2];
        let found = finding(4, &times);
        assert_eq!((found.refused, found.wrongly_allowed, found.wrongly_refused), (0, 1, 0));
        assert_eq!((found.keys_over, found.worst_excess), (1, 0.25));
        // At the last request the estimate is 2, the exact count 4; the three before it are equal.
        assert_eq!(found.difference.value(), Some(0.125));
    }

    #[test]
    fn requests_early_in_a_window_are_overestimated_later() {
        // Four at 0:01 count as two at 1:30, though they have left the window.
        let early = MINUTE / 60;
        let half = MINUTE + MINUTE / 2;
        let found = finding(4, &[early, early, early, early, half, half, half]);
        assert_eq!((found.refused, found.wrongly_allowed, found.wrongly_refused), (1, 0, 1));
    }

    #[test]
    fn the_formula_agrees_with_the_engine() {
        let limit = 7;
        let length = MINUTE;
        let start_ns = 12_345_678_901;
        let estimator = Limiter::builder(SlidingWindow::new(Rate::per_minute(limit)))
            .clock(ManualClock::starting_at(Duration::from_nanos(start_ns)))
            .build()
            .expect("the limit is small");
        let mut estimate = Estimate::new(start_ns, length);
        let mut t = 0;
        for step in 0..5_000_u64 {
            t += step * 7_919 % 17 * 1_000_000_007 / 3;
            let estimated = estimate.at(t);
            let decision = estimator.account(()).at(Timestamp::from_nanos(t)).check();
            assert_eq!(decision.is_allowed(), estimated + 1.0 <= limit as f64 + 1e-9, "at {t}");
            estimate.current += u64::from(decision.is_allowed());
        }
    }
}
