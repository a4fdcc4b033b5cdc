//! The store: a bucket in whole grains, with the script's rule for refunds.

use tollgate_testing::marked::{Charged, MARKS, MarkedBucket};

/// What finds a charge again.
pub(super) type Charge = Charged;

/// A bucket that gains `p` grains a microsecond; a permit is `q` grains.
pub(super) struct Store {
    p: u64,
    q: u64,
    full: u64,
    bucket: MarkedBucket,
}

impl Store {
    pub(super) fn new(p: u64, q: u64, burst: u64) -> Self {
        Self { p, q, full: burst * q, bucket: MarkedBucket::new(p, MARKS) }
    }

    fn debt(&self, now: u64) -> u64 {
        u64::try_from(self.bucket.debt(now)).expect("a debt of the simulation")
    }

    /// Takes up to `most` permits, or none if fewer than `least` are there.
    pub(super) fn take(&mut self, now: u64, least: u64, most: u64) -> (u64, Charge) {
        let room = self.full.saturating_sub(self.debt(now)) / self.q;
        let permits = if room < least { 0 } else { room.min(most) };
        let none = Charge { at: now, ends: self.bucket.ends() };
        let charge = if permits > 0 { self.bucket.charge(now, (permits * self.q).into()) } else { none };
        (permits, charge)
    }

    /// Charges what another centre has, whether there is room or not, up to a debt of `most`
    /// grains.
    pub(super) fn charge(&mut self, now: u64, permits: u64, most: u64) {
        let grains = (permits * self.q).min(most.saturating_sub(self.debt(now)));
        if grains > 0 {
            let _ = self.bucket.charge(now, grains.into());
        }
    }

    /// When the debt ends, in grains since the start.
    pub(super) fn ends(&self) -> u64 {
        u64::try_from(self.bucket.ends()).expect("a time of the simulation")
    }

    /// How long until `cost` permits are there.
    pub(super) fn wait(&self, now: u64, cost: u64) -> u64 {
        (self.debt(now) + cost * self.q).saturating_sub(self.full).div_ceil(self.p)
    }

    /// Gives back permits of a charge.
    pub(super) fn refund(&mut self, now: u64, mut charge: Charge, permits: u64) {
        self.bucket.refund(&mut charge, now, (permits * self.q).into(), self.full.into());
    }
}
