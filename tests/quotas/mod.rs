//! The quotas that tests go through: every algorithm, in each form that has words or answers of its own.

use tollgate::{CountPolicy, FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};

/// Every algorithm at this rate.
pub(crate) fn every(rate: Rate) -> Vec<Quota> {
    vec![
        TokenBucket::new(rate).into(),
        LeakyBucket::meter(rate).into(),
        LeakyBucket::queue(rate).into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
        SlidingWindow::new(rate).subwindows(4).into(),
        SlidingLog::new(rate).into(),
    ]
}

/// Those that can count refused requests, doing so.
#[allow(dead_code, reason = "not every test counts them")]
pub(crate) fn counting_all(rate: Rate) -> Vec<Quota> {
    vec![
        FixedWindow::new(rate).count(CountPolicy::All).into(),
        SlidingWindow::new(rate).count(CountPolicy::All).into(),
        SlidingWindow::new(rate).subwindows(4).count(CountPolicy::All).into(),
        SlidingLog::new(rate).count(CountPolicy::All).into(),
    ]
}
