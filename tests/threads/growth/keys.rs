//! Keys and limits for tests of growing tables.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use tollgate::{CountPolicy, FixedWindow, Limiter, ManualClock, Quota, Rate};
use tollgate_testing::keys::Scattered;

pub(crate) type Subject = Limiter<Scattered, Quota, 1, ManualClock>;

/// The limit of each key, an hour.
pub(crate) const LIMIT: u64 = 3;

/// Every algorithm whose keys migrate: all but the log, whose rings stay in place.
pub(crate) fn movable() -> Vec<Quota> {
    let rate = Rate::per_hour(LIMIT);
    let moves = |quota: &Quota| !matches!(quota, Quota::SlidingLog(_));
    tollgate_testing::limits::every(rate)
        .into_iter()
        .chain([FixedWindow::new(rate).count(CountPolicy::All).into()])
        .filter(moves)
        .collect()
}

/// The most units that may be charged twice: a thread that is suspended right after a charge, until
/// its key has migrated and another key has its old slot, cannot tell that it has charged.
/// `docs/proof/holes.md` explains this; it refuses more, not less.
pub(crate) const CHARGED_TWICE: u64 = 5;

/// Asserts that each key was admitted its limit and no more.
pub(crate) fn nobody_got_more(admitted: &[AtomicU64], quota: &str) {
    let admitted: Vec<u64> = admitted.iter().map(|count| count.load(SeqCst)).collect();
    for (nth, &admitted) in admitted.iter().enumerate() {
        assert!(admitted <= LIMIT, "{quota}: key {nth} was admitted {admitted} times");
    }
    let missing = LIMIT * admitted.len() as u64 - admitted.iter().sum::<u64>();
    assert!(missing <= CHARGED_TWICE, "{quota}: {missing} units are missing");
}

/// Checks every key `rounds` times, in steps of `stride`, and counts the admissions. The stride
/// must be coprime to the number of keys.
pub(crate) fn ask_for_all(limiter: &Subject, admitted: &[AtomicU64], stride: usize, rounds: usize) {
    for turn in 0..rounds * admitted.len() {
        let nth = (turn * stride) % admitted.len();
        if limiter.check(Scattered(nth as u64)).is_allowed() {
            admitted[nth].fetch_add(1, SeqCst);
        }
    }
}

/// Takes a unit of each key in turn and refunds it, until `done`. All threads together never hold
/// more than the limit of a key.
pub(crate) fn take_and_give_back(limiter: &Subject, held: &[AtomicU64], worker: usize, done: &AtomicBool) {
    for turn in 0.. {
        let nth = (turn * 97 + worker * 31) % held.len();
        let decision = limiter.check(Scattered(nth as u64));
        if decision.is_allowed() {
            let holding = held[nth].fetch_add(1, SeqCst) + 1;
            assert!(holding <= LIMIT, "key {nth}: {holding}");
            held[nth].fetch_sub(1, SeqCst);
            assert_eq!(limiter.refund(decision), 1, "what was taken comes back");
        }
        if done.load(SeqCst) {
            break;
        }
    }
}

/// Returns a counter for each key.
pub(crate) fn counters(keys: usize) -> Vec<AtomicU64> {
    (0..keys).map(|_| AtomicU64::new(0)).collect()
}
