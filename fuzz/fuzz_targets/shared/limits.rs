//! Limits made from bytes: every algorithm, with small numbers as likely as large ones.

use arbitrary::Arbitrary;
use tollgate::CountPolicy;
use tollgate_testing::limits::{Kind, Limit};

/// Any limit, valid or not.
#[derive(Arbitrary, Debug)]
pub(crate) struct AnyLimit {
    kind: u8,
    count: Number,
    period: Number,
    burst: Number,
    /// So many 255ths of the burst.
    initial: Option<u8>,
    counts_all: bool,
    subwindows: u8,
}

/// A number; small numbers are as likely as large ones.
#[derive(Arbitrary, Debug)]
pub(crate) struct Number {
    digits: u64,
    bits: u8,
}

/// A longer log takes long to fill and tests nothing new.
const MAX_LOG: u64 = 1 << 10;

impl Number {
    pub(crate) fn value(&self) -> u64 {
        self.digits >> (self.bits % 64)
    }
}

impl AnyLimit {
    pub(crate) fn limit(&self) -> Limit {
        let kind = Kind::ALL[usize::from(self.kind) % Kind::ALL.len()];
        let count = self.count.value() % if kind == Kind::Log { MAX_LOG } else { u64::MAX };
        let burst = self.burst.value();
        let has_initial = kind == Kind::Bucket || kind.refills_by_steps();
        let part = |share| (u128::from(burst) * u128::from(share) / 255) as u64;
        Limit {
            burst,
            initial: self.initial.filter(|_| has_initial).map(part),
            policy: if self.counts_all { CountPolicy::All } else { CountPolicy::Allowed },
            subwindows: u32::from(self.subwindows % 26),
            ..kind.limit(count, self.period.value())
        }
    }
}
