//! The limits in force: one is a [`Limiter`], several are a [`MultiLimiter`], all or nothing.

use std::io;
use std::time::Duration;

use tollgate::{
    BuildError, Decision, Limiter, ManualClock, MultiBuilder, MultiDecision, MultiLimiter, Quota,
    Reservation, ReserveError, Timestamp, TscClock,
};

use super::answer::{Answer, nanos};
use super::limit::Limit;
use super::overflow::Overflow;
use super::state::Saved;
use crate::failure::Failure;

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
    One(One),
    Several(MultiLimiter<[u8], ManualClock>),
}

/// One limit in force.
type One = Limiter<[u8], Quota, ManualClock>;

/// A reservation of it.
pub(crate) type Place<'g> = Reservation<'g, One>;

/// Why the limits cannot do at all what a trace asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// A reservation, of a limit that counts in windows.
    Windows,
    /// A reservation, of several limits.
    Several,
    /// A refund of a part, of several limits.
    LimitDecision,
}

/// The answer to one request.
pub(crate) enum Verdict<'g> {
    One(Decision<'g>),
    Several(MultiDecision<'g>),
}

impl Verdict<'_> {
    /// Whether the request is admitted.
    pub(crate) fn is_allowed(&self) -> bool {
        match self {
            Self::One(decision) => decision.is_allowed(),
            Self::Several(decision) => decision.is_allowed(),
        }
    }

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
    /// When there is not enough memory; when `saved` is not to be restored under these limits.
    pub(crate) fn open(limits: &[Limit], zero: u64, saved: Option<&Saved>) -> Result<Self, Failure> {
        let unbuilt = |error: BuildError| Failure::Usage(error.to_string());
        let clock = ManualClock::starting_at(Duration::from_nanos(zero));
        let force = match limits {
            [only] => {
                let builder = only.builder().clock(clock.clone());
                Force::One(match saved {
                    None => builder.build().map_err(unbuilt)?,
                    Some(saved) => builder.restore(saved.file()).map_err(|error| saved.refused(&error))?,
                })
            }
            _ => {
                let builder = several(limits).clock(clock.clone());
                Force::Several(match saved {
                    None => builder.build().map_err(unbuilt)?,
                    Some(saved) => builder.restore(saved.file()).map_err(|error| saved.refused(&error))?,
                })
            }
        };
        Ok(Self { zero, clock, limits: limits.to_vec(), force })
    }

    /// Decides a request and charges it if it is admitted.
    #[inline]
    pub(crate) fn admit(&self, key: &[u8], cost: u64, t_ns: u64) -> bool {
        let now = self.time(t_ns);
        match &self.force {
            Force::One(limiter) => limiter.at(now).check_n(key, cost).is_allowed(),
            Force::Several(limiter) => limiter.at(now).check_n(key, cost).is_allowed(),
        }
    }

    /// What [`admit`](Self::admit) does, with the whole answer.
    pub(crate) fn check(&self, key: &[u8], cost: u64, t_ns: u64) -> Verdict<'_> {
        let now = self.time(t_ns);
        match &self.force {
            Force::One(limiter) => Verdict::One(limiter.at(now).check_n(key, cost)),
            Force::Several(limiter) => Verdict::Several(limiter.at(now).check_n(key, cost)),
        }
    }

    /// What [`check`](Self::check) would answer. Changes nothing.
    pub(crate) fn peek(&self, key: &[u8], cost: u64, t_ns: u64) -> Verdict<'_> {
        let now = self.time(t_ns);
        match &self.force {
            Force::One(limiter) => Verdict::One(limiter.at(now).peek_n(key, cost)),
            Force::Several(limiter) => Verdict::Several(limiter.at(now).peek_n(key, cost)),
        }
    }

    /// Takes a place in the key's line; the refusal is an answer, whose wait is that of the request's turn.
    ///
    /// # Errors
    ///
    /// When these limits have no such places.
    pub(crate) fn reserve(
        &self,
        key: &[u8],
        cost: u64,
        max_wait_ns: u64,
        t_ns: u64,
    ) -> Result<Result<Place<'_>, Answer>, NoPlace> {
        let Force::One(limiter) = &self.force else { return Err(NoPlace::Several) };
        let refusal =
            match limiter.at(self.time(t_ns)).prepare(key).reserve(cost, Duration::from_nanos(max_wait_ns)) {
                Ok(place) => return Ok(Ok(place)),
                Err(ReserveError::NoTurns) => return Err(NoPlace::Windows),
                Err(refusal) => refusal,
            };
        let wait = match refusal {
            ReserveError::TooLong { wait } => Some(nanos(wait)),
            _ => None,
        };
        // Nothing was charged: the numbers are those of a key as it stands.
        let stands = self.peek(key, 0, t_ns).answer();
        let never = wait.is_none();
        Ok(Err(Answer {
            allowed: false,
            retry_after_ns: wait,
            never,
            delay_ns: 0,
            refused_by: vec![0],
            ..stands
        }))
    }

    /// Gives back what a request took, `units` of it at the most: how many came back.
    ///
    /// # Errors
    ///
    /// When these limits give back all or nothing, and it is less than all.
    pub(crate) fn refund(&self, verdict: Verdict<'_>, units: u64, t_ns: u64) -> Result<u64, NoPlace> {
        let now = self.time(t_ns);
        match (&self.force, verdict) {
            (Force::One(limiter), Verdict::One(decision)) => Ok(limiter.at(now).refund_part(&mut decision.receipt(), units)),
            (Force::Several(_), Verdict::Several(decision)) if units < decision.cost() => {
                Err(NoPlace::LimitDecision)
            }
            (Force::Several(limiter), Verdict::Several(decision)) => {
                self.clock.set(now);
                Ok(limiter.refund(decision))
            }
            (Force::One(_), Verdict::Several(_)) | (Force::Several(_), Verdict::One(_)) => Ok(0),
        }
    }

    /// Gives back what a reservation took, unless it has departed: how many units came back.
    pub(crate) fn cancel(&self, place: Place<'_>, t_ns: u64) -> u64 {
        place.cancel_at(self.time(t_ns))
    }

    /// Forgives the key what it owes.
    pub(crate) fn reset(&self, key: &[u8], t_ns: u64) {
        self.clock.set(self.time(t_ns));
        match &self.force {
            Force::One(limiter) => limiter.prepare(key).reset(),
            Force::Several(limiter) => limiter.prepare(key).reset(),
        };
    }

    /// Writes what every key owes at this time: how many keys that is.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub(crate) fn save(&self, out: impl io::Write, t_ns: u64) -> io::Result<usize> {
        self.clock.set(self.time(t_ns));
        match &self.force {
            Force::One(limiter) => limiter.save(out),
            // A key may owe to more than one of them.
            Force::Several(limiter) => limiter.save(out).map(|_| limiter.len()),
        }
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
        Gate::open(&limits, 1_000 * SECOND, None).expect("it is small")
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
