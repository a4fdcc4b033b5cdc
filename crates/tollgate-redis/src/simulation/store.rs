//! The store: a bucket in whole grains, with the script's rule for refunds.

/// A bucket that gains `p` grains a microsecond; a permit is `q` grains.
pub(super) struct Store {
    p: u64,
    q: u64,
    full: u64,
    /// When the debt ends, in grains since the start.
    ends: u64,
    /// The time of the last refund out of order.
    marked: Option<u64>,
}

/// What finds a charge again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    at: u64,
    ends: u64,
}

impl Store {
    pub(super) fn new(p: u64, q: u64, burst: u64) -> Self {
        Self { p, q, full: burst * q, ends: 0, marked: None }
    }

    fn debt(&self, now: u64) -> u64 {
        self.ends.saturating_sub(now * self.p)
    }

    /// Takes up to `most` permits, or none if fewer than `least` are there.
    pub(super) fn take(&mut self, now: u64, least: u64, most: u64) -> (u64, Charge) {
        let room = self.full.saturating_sub(self.debt(now)) / self.q;
        let permits = if room < least { 0 } else { room.min(most) };
        if permits > 0 {
            self.ends = now * self.p + self.debt(now) + permits * self.q;
        }
        (permits, Charge { at: now, ends: self.ends })
    }

    /// Charges what another centre has, whether there is room or not, up to a debt of `most`
    /// grains.
    pub(super) fn charge(&mut self, now: u64, permits: u64, most: u64) {
        if permits == 0 {
            return;
        }
        let debt = self.debt(now);
        self.ends = now * self.p + (debt + permits * self.q).min(most.max(debt));
    }

    /// When the debt ends, in grains since the start.
    pub(super) fn ends(&self) -> u64 {
        self.ends
    }

    /// How long until `cost` permits are there.
    pub(super) fn wait(&self, now: u64, cost: u64) -> u64 {
        (self.debt(now) + cost * self.q).saturating_sub(self.full).div_ceil(self.p)
    }

    /// Gives back permits of a charge: of its own debt the oldest first, so that nothing is minted.
    pub(super) fn refund(&mut self, now: u64, charge: Charge, permits: u64) {
        let (need, debt) = (permits * self.q, self.debt(now));
        let left = need.min(charge.ends.saturating_sub(now * self.p));
        let is_marked = self.marked.is_some_and(|marked| marked >= charge.at);
        let back = match is_marked {
            true => need.saturating_sub((now - charge.at) * self.p),
            false => left,
        };
        if is_marked || self.ends != charge.ends {
            self.marked = Some(now);
        }
        self.ends -= back.min(debt);
    }
}
