//! What a bucket should give back, exactly.

/// The debt of a bucket that refills one unit a tick, and of which any charge may come back later,
/// or a part of it.
///
/// After any charges and refunds the debt is that of the charges that remain, each at its arrival:
/// as if what came back had never been charged.
///
/// The least debt since each charge is a staircase that never falls. Time takes from its newest
/// steps first, and a charge adds a step. What comes back of a charge is at most the least debt
/// since it: wherever the debt was less, the bucket would have been full without the charge, and
/// would have lost refill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exact {
    now: u64,
    /// For each charge, in the order of arrival, the least debt since.
    least: Vec<u64>,
}

impl Exact {
    /// The debt at `now`, which is not before any time before.
    ///
    /// # Panics
    ///
    /// When the time steps back.
    pub fn debt(&mut self, now: u64) -> u64 {
        let debt = self.least.last().copied().unwrap_or(0);
        let debt = debt.saturating_sub(now.checked_sub(self.now).expect("time does not step back"));
        self.now = now;
        self.least.iter_mut().for_each(|least| *least = debt.min(*least));
        debt
    }

    /// Charges `cost`, and returns the charge's number.
    ///
    /// # Panics
    ///
    /// As [`debt`](Self::debt).
    pub fn charge(&mut self, now: u64, cost: u64) -> usize {
        let debt = self.debt(now);
        self.least.push(debt + cost);
        self.least.len() - 1
    }

    /// Gives back up to `units` of the charge of this number, and returns how many come back. No
    /// more must be asked back than was charged.
    ///
    /// # Panics
    ///
    /// As [`debt`](Self::debt), and when there is no such charge.
    pub fn refund(&mut self, now: u64, charge: usize, units: u64) -> u64 {
        self.debt(now);
        let least = self.least[charge];
        let back = units.min(least);
        let (before, since) = self.least.split_at_mut(charge);
        since.iter_mut().for_each(|debt| *debt -= back);
        before.iter_mut().for_each(|debt| *debt = (*debt).min(least - back));
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_charge_comes_back_whole() {
        let mut bucket = Exact::default();
        let charges: Vec<_> = (0..40).map(|_| bucket.charge(0, 1)).collect();
        let back: u64 = charges.into_iter().map(|charge| bucket.refund(2, charge, 1)).sum();
        assert_eq!((back, bucket.debt(2)), (38, 0));
    }

    #[test]
    fn what_time_would_have_given_does_not_come_back() {
        let mut bucket = Exact::default();
        let first = bucket.charge(0, 2);
        assert_eq!(bucket.debt(2), 0);
        bucket.charge(2, 5);
        assert_eq!(bucket.refund(3, first, 2), 0);
        assert_eq!(bucket.debt(3), 4);
    }
}
