//! The rules in small numbers, with a clock of few moments: the token bucket
//! (`src/algorithm/gcra.rs`), and the log.

use crate::ring::Log;

/// Grains a unit of a bucket: more than the words of given-up slots are bumped by.
const UNIT: u8 = 8;

/// What limits keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// A bucket of so many grains; one grain drips at each tick of the model's time.
    Bucket {
        full: u8,
    },
    Log(Log),
}

impl Rule {
    /// What a unit counts.
    pub(crate) fn unit(self) -> u8 {
        match self {
            Self::Bucket { .. } => UNIT,
            Self::Log(_) => 1,
        }
    }

    /// The most units that are admitted at one tick.
    pub(crate) fn limit(self) -> u8 {
        match self {
            Self::Bucket { full } => full / UNIT,
            Self::Log(log) => log.limit,
        }
    }

    /// A bucket's grains. A log is decided by its ring, step by step.
    fn full(self) -> u8 {
        match self {
            Self::Bucket { full } => full,
            Self::Log(_) => unreachable!("a log has no order of debts"),
        }
    }

    /// The payload afterwards, if it is admitted.
    pub(crate) fn decide(self, payload: u8, now: u8, cost: u8) -> Option<u8> {
        let tat = payload.max(now) + cost * UNIT;
        (tat - now <= self.full()).then_some(tat)
    }

    pub(crate) fn expired(self, payload: u8, now: u8) -> bool {
        match self {
            Self::Bucket { .. } => payload <= now,
            Self::Log(log) => log.expired(payload, now),
        }
    }

    /// The payload of a key without debt.
    pub(crate) fn forgiven(self, payload: u8, now: u8) -> u8 {
        match self {
            Self::Bucket { .. } => now,
            Self::Log(_) => Log::forgiven(payload),
        }
    }

    /// The payload of a slot that is given up.
    pub(crate) fn bumped(self, payload: u8) -> u8 {
        match self {
            Self::Bucket { .. } => payload + 1,
            Self::Log(_) => Log::bumped(payload),
        }
    }

    /// The most that a slot may owe to be handed over.
    pub(crate) fn half(self, now: u8) -> u8 {
        now + self.full() / 2
    }

    /// The payload after a refund, and what comes back.
    pub(crate) fn give_back(
        self,
        payload: u8,
        charged: u8,
        (since, now): (u8, u8),
        cost: u8,
        kept: bool,
    ) -> (u8, u8) {
        let full = match self {
            Self::Bucket { full } => full,
            Self::Log(log) => {
                let lowered = log.given_back(payload, charged, (since, now), cost);
                return lowered.map_or((payload, 0), |lowered| (lowered, cost));
            }
        };
        let (now, cost) = (now.max(since), cost * UNIT);
        let owed = charged.saturating_sub(now).min(cost);
        let back = match kept {
            true if payload == charged => owed,
            true if payload < charged => 0,
            true if payload > now + full => owed.saturating_sub(payload - charged),
            true => owed,
            false => (since + cost).saturating_sub(now),
        };
        let back = back.min(payload.saturating_sub(now));
        (payload - back, back)
    }
}
