//! Limits made from bytes: every algorithm, with small numbers as likely as large ones.

use arbitrary::Arbitrary;
use tollgate::CountPolicy;
use tollgate_testing::limits::{Kind, Limit};

/// Any limit, valid or not.
#[derive(Arbitrary, Debug)]
pub(crate) struct AnyLimit {
    kind: AnyKind,
    count: Number,
    period: Number,
}

/// A number; small numbers are as likely as large ones.
#[derive(Arbitrary, Debug)]
pub(crate) struct Number {
    digits: u64,
    bits: u8,
}

/// In the order and with the fields that the seeds of `corpus/operations` have.
#[derive(Arbitrary, Debug)]
enum AnyKind {
    TokenBucket {
        burst: Number,
        initial: Option<u8>,
    },
    Meter {
        capacity: Number,
    },
    Queue {
        capacity: Number,
    },
    Fixed {
        all: bool,
    },
    Intervals {
        burst: Number,
        initial: Option<u8>,
    },
    /// Again, so that the seeds keep their kinds.
    Other {
        burst: Number,
        initial: Option<u8>,
    },
    FirstHitWindow {
        all: bool,
    },
    Sliding {
        all: bool,
    },
    SubWindows {
        k: u8,
        all: bool,
    },
    Log {
        all: bool,
    },
}

/// A longer log takes long to fill and tests nothing new.
const MAX_LOG: u64 = 1 << 10;

impl Number {
    pub(crate) fn value(&self) -> u64 {
        self.digits >> (self.bits % 64)
    }

    /// So many 255ths of it.
    fn part(&self, share: Option<u8>) -> Option<u64> {
        share.map(|share| (u128::from(self.value()) * u128::from(share) / 255) as u64)
    }
}

impl AnyLimit {
    pub(crate) fn limit(&self) -> Limit {
        let (count, period) = (self.count.value(), self.period.value());
        let windows = |kind: Kind, all| {
            let policy = if all { CountPolicy::All } else { CountPolicy::Allowed };
            Limit { policy, ..kind.limit(count, period) }
        };
        let bucket = |kind: Kind, burst: &Number, initial| Limit {
            initial: burst.part(initial),
            ..kind.limit(count, period).burst(burst.value())
        };
        match self.kind {
            AnyKind::TokenBucket { ref burst, initial } => bucket(Kind::Bucket, burst, initial),
            AnyKind::Intervals { ref burst, initial } | AnyKind::Other { ref burst, initial } => {
                bucket(Kind::Intervals, burst, initial)
            }
            AnyKind::Meter { ref capacity } => bucket(Kind::Meter, capacity, None),
            AnyKind::Queue { ref capacity } => bucket(Kind::Queue, capacity, None),
            AnyKind::Fixed { all } => windows(Kind::Fixed, all),
            AnyKind::FirstHitWindow { all } => windows(Kind::FirstHitWindow, all),
            AnyKind::Sliding { all } => windows(Kind::Sliding, all),
            AnyKind::SubWindows { k, all } => {
                Limit { subwindows: u32::from(k % 26), ..windows(Kind::SubWindows, all) }
            }
            AnyKind::Log { all } => Limit { count: count % MAX_LOG, ..windows(Kind::Log, all) },
        }
    }
}
