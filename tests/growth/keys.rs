//! The keys and limits of the tests of growing and shrinking tables.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tollgate::{Count, FixedWindow, Identity, Key, LeakyBucket, Quota, Rate, SlidingWindow, TokenBucket};

/// What each key has an hour.
pub(crate) const LIMIT: u64 = 3;

/// Every algorithm whose keys can move: all but the log, whose rings stay where they are.
pub(crate) fn movable() -> Vec<Quota> {
    let rate = Rate::per_hour(LIMIT);
    vec![
        TokenBucket::new(rate).into(),
        LeakyBucket::meter(rate).into(),
        LeakyBucket::queue(rate).into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
        SlidingWindow::new(rate).subwindows(4).into(),
        FixedWindow::new(rate).count(Count::All).into(),
    ]
}

/// A key whose name no secret changes: which keys meet in a bucket is the same in every run.
pub(crate) struct Nth(pub(crate) u64);

impl Key for Nth {
    fn name(&self, _: &Identity) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014).
        let mixed = self.0.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// How many units a test may see charged twice: a thread that is suspended right after a charge, until its key has moved
/// and its old slot is another's, cannot tell that it has paid. (It is in `docs/design.md`, and errs by refusing.)
pub(crate) const CHARGED_TWICE: u64 = 5;

/// Each key was admitted its limit, and none more.
pub(crate) fn nobody_got_more(admitted: &[AtomicU64], quota: &str) {
    let admitted: Vec<u64> = admitted.iter().map(|count| count.load(SeqCst)).collect();
    for (nth, &admitted) in admitted.iter().enumerate() {
        assert!(admitted <= LIMIT, "{quota}: key {nth} was admitted {admitted} times");
    }
    let missing = LIMIT * admitted.len() as u64 - admitted.iter().sum::<u64>();
    assert!(missing <= CHARGED_TWICE, "{quota}: {missing} units are missing");
}
