//! The quotas for tests of every algorithm, in each form with different words or answers.

use tollgate::{CountPolicy, FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};

/// Every algorithm at this rate.
pub(crate) fn every(rate: Rate) -> Vec<Quota> {
    vec![
        TokenBucket::new(rate).into(),
        TokenBucket::new(rate).by_intervals().into(),
        TokenBucket::new(rate).from_first_hit().into(),
        LeakyBucket::meter(rate).into(),
        LeakyBucket::queue(rate).into(),
        FixedWindow::new(rate).into(),
        FixedWindow::new(rate).from_first_hit().into(),
        SlidingWindow::new(rate).into(),
        SlidingWindow::new(rate).subwindows(4).into(),
        SlidingLog::new(rate).into(),
    ]
}

/// Whether debts do not compare, so that a full bucket refuses new keys.
#[allow(dead_code, reason = "not every test fills buckets")]
pub(crate) fn refuses_when_full(quota: &Quota) -> bool {
    matches!(quota, Quota::SlidingWindow(_) | Quota::SlidingLog(_) | Quota::FirstHit(_))
}

/// The algorithms that can count refusals, with `CountPolicy::All`.
#[allow(dead_code, reason = "not every test counts them")]
pub(crate) fn counting_all(rate: Rate) -> Vec<Quota> {
    vec![
        FixedWindow::new(rate).count(CountPolicy::All).into(),
        FixedWindow::new(rate).count(CountPolicy::All).from_first_hit().into(),
        SlidingWindow::new(rate).count(CountPolicy::All).into(),
        SlidingWindow::new(rate).subwindows(4).count(CountPolicy::All).into(),
        SlidingLog::new(rate).count(CountPolicy::All).into(),
    ]
}
