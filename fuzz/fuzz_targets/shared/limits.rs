//! Limits made from bytes: every algorithm, with small numbers as likely as large ones.

use arbitrary::Arbitrary;
use tollgate::CountPolicy;

use crate::limit::{Kind, Limit};

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

#[derive(Arbitrary, Debug)]
enum AnyKind {
    TokenBucket { burst: Number, initial: Option<u8> },
    Meter { capacity: Number },
    Queue { capacity: Number },
    Fixed { all: bool },
    Intervals { burst: Number, initial: Option<u8> },
    FirstHitBucket { burst: Number, initial: Option<u8> },
    FirstHitWindow { all: bool },
    Sliding { all: bool },
    SubWindows { k: u8, all: bool },
    Log { all: bool },
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
        let count = |all| if all { CountPolicy::All } else { CountPolicy::Allowed };
        let kind = match self.kind {
            AnyKind::TokenBucket { ref burst, initial } => {
                Kind::TokenBucket { burst: burst.value(), initial: burst.part(initial) }
            }
            AnyKind::Intervals { ref burst, initial } => {
                Kind::Intervals { burst: burst.value(), initial: burst.part(initial) }
            }
            AnyKind::FirstHitBucket { ref burst, initial } => {
                Kind::FirstHitBucket { burst: burst.value(), initial: burst.part(initial) }
            }
            AnyKind::FirstHitWindow { all } => Kind::FirstHitWindow { count: count(all) },
            AnyKind::Meter { ref capacity } => Kind::Meter { capacity: capacity.value() },
            AnyKind::Queue { ref capacity } => Kind::Queue { capacity: capacity.value() },
            AnyKind::Fixed { all } => Kind::Fixed { count: count(all) },
            AnyKind::Sliding { all } => Kind::Sliding { count: count(all) },
            AnyKind::SubWindows { k, all } => Kind::SubWindows { k: u32::from(k % 26), count: count(all) },
            AnyKind::Log { all } => Kind::Log { count: count(all) },
        };
        let mut limit = Limit { kind, count: self.count.value(), period: self.period.value() };
        if let Kind::Log { .. } = limit.kind {
            limit.count %= MAX_LOG;
        }
        limit
    }
}
