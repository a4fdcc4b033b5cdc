//! One or several limits in a row: a request passes when all of them admit it, and a refused one is charged to
//! none of them.
//!
//! Records come one by one from one thread, so it is exact to ask all limits first (`peek`) and to charge them
//! afterwards. A limit with `count=all` counts every request that it sees, whichever limit refuses it.

use std::time::Duration;

use tollgate::{Decision, Error, Limiter, ManualClock, Quota, Timestamp};

use super::limit::Limit;

/// All limits of a replay, in force.
pub(crate) struct Gate {
    /// Unix time of the clock's zero: the first record's.
    zero: u64,
    clock: ManualClock,
    limits: Vec<Enforced>,
}

/// A limit in force.
struct Enforced {
    limit: Limit,
    limiter: Limiter<[u8], Quota, ManualClock>,
}

impl Gate {
    /// Puts the limits in force from `zero` on, so that windows align to the Unix epoch.
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub(crate) fn open(limits: &[Limit], zero: u64) -> Result<Self, Error> {
        let clock = ManualClock::starting_at(Duration::from_nanos(zero));
        let limits = limits.iter().map(|limit| {
            let limiter = limit.builder().clock(clock.clone()).build()?;
            Ok(Enforced { limit: limit.clone(), limiter })
        });
        let limits = limits.collect::<Result<_, _>>()?;
        Ok(Self { zero, clock, limits })
    }

    /// Decides a request and charges it if it is admitted.
    #[inline]
    pub(crate) fn admit(&self, key: &[u8], cost: u64, t_ns: u64) -> bool {
        let now = self.time(t_ns);
        if let [only] = &self.limits[..] {
            return only.limiter.check_n_at(key, cost, now).is_allowed();
        }
        let allowed = self.admits(key, cost, now);
        for one in self.limits.iter().filter(|one| allowed || one.limit.counts_all()) {
            // The answer was foreseen.
            let _ = one.limiter.check_n_at(key, cost, now);
        }
        allowed
    }

    /// What [`admit`](Self::admit) does; `each` gets every limit's decision, in their order.
    pub(crate) fn check(
        &self,
        key: &[u8],
        cost: u64,
        t_ns: u64,
        mut each: impl FnMut(usize, &Decision<'_>),
    ) -> bool {
        let now = self.time(t_ns);
        if let [only] = &self.limits[..] {
            let decision = only.limiter.check_n_at(key, cost, now);
            each(0, &decision);
            return decision.is_allowed();
        }
        let allowed = self.admits(key, cost, now);
        for (index, one) in self.limits.iter().enumerate() {
            if allowed || one.limit.counts_all() {
                each(index, &one.limiter.check_n_at(key, cost, now));
            } else {
                each(index, &one.uncharged(key, cost, now));
            }
        }
        allowed
    }

    /// What [`check`](Self::check) would answer. Changes nothing.
    pub(crate) fn peek(
        &self,
        key: &[u8],
        cost: u64,
        t_ns: u64,
        mut each: impl FnMut(usize, &Decision<'_>),
    ) -> bool {
        let now = self.time(t_ns);
        let allowed = self.admits(key, cost, now);
        for (index, one) in self.limits.iter().enumerate() {
            if allowed || one.limit.counts_all() {
                each(index, &one.limiter.peek_n_at(key, cost, now));
            } else {
                each(index, &one.uncharged(key, cost, now));
            }
        }
        allowed
    }

    /// Forgives the key what it owes.
    pub(crate) fn reset(&self, key: &[u8], t_ns: u64) {
        self.clock.set(self.time(t_ns));
        for one in &self.limits {
            one.limiter.reset(key);
        }
    }

    /// Whatever happened because a limit had no room for one more key, for people; empty when nothing did.
    pub(crate) fn overflows(&self) -> Vec<Overflow> {
        let overflow = |Enforced { limit, limiter }: &Enforced| {
            let stats = limiter.stats();
            Overflow {
                limit: limit.to_string(),
                max_keys: limiter.capacity(),
                handed_over: stats.handed_over,
                shared: stats.shared,
                turned_away: stats.turned_away,
            }
        };
        self.limits.iter().map(overflow).filter(Overflow::happened).collect()
    }

    fn admits(&self, key: &[u8], cost: u64, now: Timestamp) -> bool {
        self.limits.iter().all(|one| one.limiter.peek_n_at(key, cost, now).is_allowed())
    }

    fn time(&self, t_ns: u64) -> Timestamp {
        Timestamp::from_nanos(t_ns - self.zero)
    }
}

impl Enforced {
    /// The decision on a request that some limit refuses: this one's own refusal, or how it stands.
    fn uncharged(&self, key: &[u8], cost: u64, now: Timestamp) -> Decision<'_> {
        let decision = self.limiter.peek_n_at(key, cost, now);
        if decision.is_allowed() { self.limiter.peek_n_at(key, 0, now) } else { decision }
    }
}

/// What happened because a limit had no room for one more key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overflow {
    pub(crate) limit: String,
    pub(crate) max_keys: usize,
    /// Keys that took over another's slot together with its debt.
    pub(crate) handed_over: u64,
    /// Requests that shared an allowance.
    pub(crate) shared: u64,
    /// Requests that were refused.
    pub(crate) turned_away: u64,
}

impl Overflow {
    fn happened(&self) -> bool {
        self.handed_over + self.shared + self.turned_away > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn gate(limits: &[&str]) -> Gate {
        let limit = |text: &&str| Limit::new(text.parse().expect(text), Some(64), 1).expect(text);
        let limits: Vec<Limit> = limits.iter().map(limit).collect();
        Gate::open(&limits, 1_000 * SECOND).expect("it is small")
    }

    /// Every limit's verdict and what remains of it.
    fn check(gate: &Gate, cost: u64, t: u64) -> Vec<(bool, u64)> {
        let mut seen = Vec::new();
        let mut peeked = Vec::new();
        let look = |seen: &mut Vec<_>, d: &Decision<'_>| seen.push((d.is_allowed(), d.remaining()));
        let foreseen = gate.peek(b"k", cost, 1_000 * SECOND + t, |_, d| look(&mut peeked, d));
        let allowed = gate.check(b"k", cost, 1_000 * SECOND + t, |_, d| look(&mut seen, d));
        assert_eq!((foreseen, &peeked), (allowed, &seen), "a peek foresees the check");
        seen
    }

    #[test]
    fn a_request_that_one_limit_refuses_is_charged_to_none() {
        let gate = gate(&["fixed-window:2/s", "fixed-window:10/h"]);
        assert_eq!(check(&gate, 1, 0), [(true, 1), (true, 9)]);
        assert_eq!(check(&gate, 2, 1), [(false, 1), (true, 9)]);
        assert_eq!(check(&gate, 1, 2), [(true, 0), (true, 8)]);
        assert_eq!(check(&gate, 1, SECOND), [(true, 1), (true, 7)]);
    }

    #[test]
    fn a_limit_that_counts_all_counts_what_another_refuses() {
        let gate = gate(&["fixed-window:1/h", "sliding-log:3/h,count=all"]);
        assert_eq!(check(&gate, 1, 0), [(true, 0), (true, 2)]);
        assert_eq!(check(&gate, 1, 1), [(false, 0), (true, 1)]);
        assert_eq!(check(&gate, 1, 2), [(false, 0), (true, 0)]);
        assert_eq!(check(&gate, 1, 3), [(false, 0), (false, 0)]);
    }

    #[test]
    fn a_request_is_charged_alike_whether_or_not_somebody_looks() {
        for limits in [&["sliding-log:2/s"][..], &["fixed-window:3/s", "sliding-window:5/2s,count=all"]] {
            let (looked_at, unseen) = (gate(limits), gate(limits));
            for step in 0..200 {
                let (cost, t) = (step % 3 + 1, (1_000 + step / 5) * SECOND + step);
                let allowed = looked_at.check(b"k", cost, t, |_, _| ());
                assert_eq!(unseen.admit(b"k", cost, t), allowed, "step {step} under {limits:?}");
            }
        }
    }

    #[test]
    fn a_reset_forgives_every_limit_at_its_own_time() {
        let gate = gate(&["fixed-window:1/h", "token-bucket:1/h", "sliding-log:1/h"]);
        assert!(gate.admit(b"k", 1, 1_000 * SECOND));
        assert!(!gate.admit(b"k", 1, 1_001 * SECOND));
        gate.reset(b"k", 1_001 * SECOND);
        assert!(gate.admit(b"k", 1, 1_001 * SECOND));
    }
}
