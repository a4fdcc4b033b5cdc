//! The limits of the histories: small ones, so that threads contend for them.

use tollgate_testing::limits::{Kind, Limit};

/// The period of each limit, in nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;

/// Algorithms, all but the meter: its words are a bucket's.
pub(crate) const LIMITS: &[Limit] = &[
    Kind::Bucket.limit(3, SECOND),
    Kind::Fixed.limit(4, SECOND),
    Kind::Log.limit(3, SECOND),
    Kind::Intervals.limit(3, SECOND),
    Kind::FirstHitWindow.limit(4, SECOND),
    Kind::Queue.limit(3, SECOND),
    Kind::Sliding.limit(4, SECOND),
    Limit { subwindows: 3, ..Kind::SubWindows.limit(4, SECOND) },
];

/// Returns whether the times are in a ring: the other fields of a decision are then read later.
pub(crate) fn is_log(limit: &Limit) -> bool {
    limit.kind == Kind::Log
}

/// Returns whether a refund may be less than the whole units in its answer.
pub(crate) fn gives_back_parts(limit: &Limit) -> bool {
    limit.kind.is_bucket()
}
