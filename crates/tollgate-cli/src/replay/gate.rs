//! The limits in force: one is a [`Limiter`], several are a [`MultiLimiter`], all or nothing.

use std::time::Duration;

use tollgate::{
    Decision, Error, Limiter, ManualClock, MultiBuilder, MultiDecision, MultiLimiter, Quota, Timestamp,
    TscClock,
};

use super::answer::Answer;
use super::limit::Limit;
use super::overflow::Overflow;

/// All limits of a replay, in force.
pub(crate) struct Gate {
    /// Unix time of the clock's zero: the first record's.
    zero: u64,
    clock: ManualClock,
    limits: Vec<Limit>,
    force: Force,
}

/// What decides.
#[expect(clippy::large_enum_variant, reason = "there is one, and no check follows a pointer to it")]
enum Force {
    One(Limiter<[u8], Quota, ManualClock>),
    Several(MultiLimiter<[u8], ManualClock>),
}

/// The answer to one request.
pub(crate) enum Verdict<'g> {
    One(Decision<'g>),
    Several(MultiDecision<'g>),
}

impl Verdict<'_> {
    /// In numbers.
    pub(crate) fn answer(&self) -> Answer {
        match self {
            Self::One(decision) => decision.into(),
            Self::Several(decision) => decision.into(),
        }
    }
}

impl Gate {
    /// Puts the limits in force from `zero` on, so that windows align to the Unix epoch.
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub(crate) fn open(limits: &[Limit], zero: u64) -> Result<Self, Error> {
        let clock = ManualClock::starting_at(Duration::from_nanos(zero));
        let force = match limits {
            [only] => Force::One(only.builder().clock(clock.clone()).build()?),
            _ => Force::Several(several(limits).clock(clock.clone()).build()?),
        };
        Ok(Self { zero, clock, limits: limits.to_vec(), force })
    }

    /// Decides a request and charges it if it is admitted.
    #[inline]
    pub(crate) fn admit(&self, key: &[u8], cost: u64, t_ns: u64) -> bool {
        let now = self.time(t_ns);
        match &self.force {
            Force::One(limiter) => limiter.check_n_at(key, cost, now).is_allowed(),
            Force::Several(limiter) => limiter.check_n_at(key, cost, now).is_allowed(),
        }
    }

    /// What [`admit`](Self::admit) does, with the whole answer.
    pub(crate) fn check(&self, key: &[u8], cost: u64, t_ns: u64) -> Verdict<'_> {
        let now = self.time(t_ns);
        match &self.force {
            Force::One(limiter) => Verdict::One(limiter.check_n_at(key, cost, now)),
            Force::Several(limiter) => Verdict::Several(limiter.check_n_at(key, cost, now)),
        }
    }

    /// What [`check`](Self::check) would answer. Changes nothing.
    pub(crate) fn peek(&self, key: &[u8], cost: u64, t_ns: u64) -> Verdict<'_> {
        let now = self.time(t_ns);
        match &self.force {
            Force::One(limiter) => Verdict::One(limiter.peek_n_at(key, cost, now)),
            Force::Several(limiter) => Verdict::Several(limiter.peek_n_at(key, cost, now)),
        }
    }

    /// Forgives the key what it owes.
    pub(crate) fn reset(&self, key: &[u8], t_ns: u64) {
        self.clock.set(self.time(t_ns));
        match &self.force {
            Force::One(limiter) => limiter.reset(key),
            Force::Several(limiter) => limiter.reset(key),
        };
    }

    /// Whatever happened because a limit had no room for one more key, for people; empty when nothing did.
    pub(crate) fn overflows(&self) -> Vec<Overflow> {
        let overflow = |(number, limit): (usize, &Limit)| match &self.force {
            Force::One(limiter) => Overflow::of(limit, limiter.capacity(), limiter.stats()),
            Force::Several(limiter) => Overflow::of(limit, limiter.capacity(), limiter.stats_of(number)?),
        };
        self.limits.iter().enumerate().filter_map(overflow).collect()
    }

    fn time(&self, t_ns: u64) -> Timestamp {
        Timestamp::from_nanos(t_ns - self.zero)
    }
}

/// Their tables are of one size: of the one that has least room.
fn several(limits: &[Limit]) -> MultiBuilder<[u8], TscClock> {
    let max_keys = limits.iter().map(Limit::max_keys).min().unwrap_or(0);
    // The memory was judged limit by limit, or asked for.
    MultiLimiter::builder(limits.iter().map(Limit::quota)).max_keys(max_keys).memory_budget(usize::MAX)
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
        let each = |verdict: &Verdict<'_>| match verdict {
            Verdict::One(decision) => vec![(decision.is_allowed(), decision.remaining())],
            Verdict::Several(decision) => {
                decision.parts().map(|part| (!part.refuses(), part.remaining())).collect::<Vec<_>>()
            }
        };
        let foreseen = each(&gate.peek(b"k", cost, 1_000 * SECOND + t));
        let seen = each(&gate.check(b"k", cost, 1_000 * SECOND + t));
        assert_eq!(foreseen, seen, "a peek foresees the check");
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
    fn a_limit_that_counts_all_does_not_count_what_only_another_refuses() {
        let gate = gate(&["fixed-window:2/s", "sliding-log:3/h,count=all"]);
        assert_eq!(check(&gate, 1, 0), [(true, 1), (true, 2)]);
        assert_eq!(check(&gate, 2, 1), [(false, 1), (true, 2)]);
        assert_eq!(check(&gate, 2, SECOND), [(true, 0), (true, 0)]);
    }

    #[test]
    fn a_request_is_charged_alike_whether_or_not_somebody_looks() {
        for limits in [&["sliding-log:2/s"][..], &["fixed-window:3/s", "sliding-window:5/2s,count=all"]] {
            let (looked_at, unseen) = (gate(limits), gate(limits));
            for step in 0..200 {
                let (cost, t) = (step % 3 + 1, (1_000 + step / 5) * SECOND + step);
                let allowed = looked_at.check(b"k", cost, t).answer().allowed;
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
