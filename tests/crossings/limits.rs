//! The limits of the programs: their numbers are small and whole, so that nothing is rounded.

use proptest::prelude::*;
use tollgate::{Limiter, ManualClock, Quota};
use tollgate_model::Algorithm;
use tollgate_testing::limits::{self, Kind, Precision};

/// The Unix time of every clock's zero: no window begins there.
pub(crate) const ORIGIN: u64 = 1_700_000_000_123_456_789;

/// The shortest window that leaves room for the counts beside its number, also in parts.
pub(crate) const SHORTEST: u64 = 1_000_000_000;

/// For so long a clock must run, in nanoseconds: words have room for that at least.
pub(crate) const TEN_YEARS: u64 = 315_576_000_000_000_000;

/// A quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) kind: Kind,
    /// The most that is admitted at once.
    pub(crate) most: u64,
    /// Nanoseconds: in which a bucket refills one unit, or the length of the window.
    pub(crate) nanos: u64,
}

impl Limit {
    fn described(self) -> limits::Limit {
        let count = if self.kind.refills() { 1 } else { self.most };
        self.kind.limit(count, self.nanos).burst(self.most)
    }

    pub(crate) fn quota(self) -> Quota {
        self.described().quota()
    }

    /// The same for the model.
    pub(crate) fn algorithm(self) -> Algorithm {
        let limiter = Limiter::builder(self.quota()).clock(ManualClock::new()).build();
        let tick = limiter.expect("the limit is valid").resolution().tick;
        self.described().algorithm(Precision { tick, ..Precision::EXACT }, ORIGIN)
    }

    /// Nanoseconds after which no debt of this limit can be left.
    pub(crate) fn expires(self) -> u64 {
        match self.kind {
            kind if kind.refills_by_steps() => (self.most + 1) * self.nanos,
            kind if kind.is_bucket() => self.most * self.nanos,
            _ => 2 * self.nanos,
        }
    }

    /// The end of the window in which this time lies.
    pub(crate) fn end_of_window(self, at: u64) -> u64 {
        at + self.nanos - (ORIGIN + at) % self.nanos
    }
}

/// Numbers for a limit: the most, and nanoseconds.
fn numbers() -> impl Strategy<Value = (u64, u64)> {
    let nanos =
        prop_oneof![1 => 1_u64..4, 2 => Just(1_000_u64), 2 => Just(1_000_000_000_u64), 1 => 1_u64..5_000];
    (prop_oneof![3 => 1_u64..6, 2 => 1_u64..25], nanos)
}

/// A limit of this algorithm.
pub(crate) fn limit(kind: Kind) -> impl Strategy<Value = Limit> {
    numbers().prop_map(move |(most, nanos)| {
        let nanos = if kind.is_bucket() { nanos } else { SHORTEST.max(nanos * 4) };
        Limit { kind, most, nanos }
    })
}
