//! The token bucket in small numbers: `src/algorithm/gcra.rs`, with a clock of few moments.

/// Grains a unit: more than the words of given-up slots are bumped by.
pub(crate) const UNIT: u8 = 8;

/// A bucket of so many grains; one grain drips at each tick of the model's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) full: u8,
}

impl Rule {
    /// The payload afterwards, if it is admitted.
    pub(crate) fn decide(self, payload: u8, now: u8, cost: u8) -> Option<u8> {
        let tat = payload.max(now) + cost * UNIT;
        (tat - now <= self.full).then_some(tat)
    }

    pub(crate) fn expired(self, payload: u8, now: u8) -> bool {
        payload <= now
    }

    /// The most that a slot may owe to be handed over.
    pub(crate) fn half(self, now: u8) -> u8 {
        now + self.full / 2
    }

    /// What a refund takes from the payload.
    pub(crate) fn back(self, payload: u8, charged: u8, (since, now): (u8, u8), cost: u8, kept: bool) -> u8 {
        let (now, cost) = (now.max(since), cost * UNIT);
        let owed = charged.saturating_sub(now).min(cost);
        let back = match kept {
            true if payload == charged => owed,
            true if payload < charged => 0,
            true if payload > now + self.full => owed.saturating_sub(payload - charged),
            true => owed,
            false => (since + cost).saturating_sub(now),
        };
        back.min(payload.saturating_sub(now))
    }
}
