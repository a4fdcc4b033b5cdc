//! How an account makes an offer: a look at the key's home slot, or wherever the key is.

use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::limiter::account::Account;
use crate::limiter::core::Core;
use crate::limiter::offer::{Joint, Offer, Stage};
use crate::limiter::time_of::Time;
use crate::limiter::version::Tier;
use crate::outcome::Outcome;
use crate::receipt::MOST_LIMITS;
use crate::table::Fingerprint;
use crate::table::look::Look;
use crate::table::ruling::Ask;
use crate::time::Timestamp;

impl<'l> Offer<'l> {
    /// That of the only limit.
    #[inline(always)]
    fn new<A: Algorithm, const N: usize, C: Clock>(
        core: &'l Core<A, N, C>,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Self {
        let state = core.versions.state();
        let tier = if state.is_plain() { tier } else { core.versions.renewed(tier) };
        let view = core.tables.first.view(fingerprint);
        view.prefetch_all();
        if tier.has_room_for(cost)
            && let Some(look) = Look::quickly(view, Ask { rule: tier.dated(0), fingerprint, cost }, now)
            && (look.allowed || core.versions.after(tier, now).is_none())
        {
            let outcome = if look.allowed { Outcome::Allowed } else { Outcome::Denied };
            let (by, resets, refuses) = (&tier.shown[0], state.resets(), !look.allowed);
            let stage = Stage::Open;
            return Self { look, from: core, by, fingerprint, cost, now, resets, outcome, refuses, stage };
        }
        Self::closely(core, tier, fingerprint, cost, now)
    }

    /// The same at any cost, and for a key that is anywhere.
    #[cold]
    #[inline(never)]
    fn closely<A: Algorithm, const N: usize, C: Clock>(
        core: &'l Core<A, N, C>,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Self {
        let mut tier = core.versions.renewed(tier);
        loop {
            let resets = core.versions.state().resets();
            let (rule, view) = (tier.dated(0), core.tables.first.view(fingerprint));
            let (look, outcome) = match cost {
                0 => (Look::default(), Outcome::Allowed),
                _ if !tier.has_room_for(cost) => (Look::default(), Outcome::Never),
                _ => {
                    let look = Look::anywhere(view, Ask { rule, fingerprint, cost }, now);
                    (look, if look.allowed { Outcome::Allowed } else { Outcome::Denied })
                }
            };
            match core.versions.after(tier, now).filter(|_| outcome != Outcome::Allowed) {
                Some(later) => tier = later,
                None => {
                    let (by, refuses) = (&tier.shown[0], outcome != Outcome::Allowed);
                    let (from, stage) = (core, Stage::Open);
                    let mut offer =
                        Self { look, from, by, fingerprint, cost, now, resets, outcome, refuses, stage };
                    if cost == 0 || outcome == Outcome::Never {
                        core.show_without_request(&mut offer);
                    }
                    return offer;
                }
            }
        }
    }
}

impl<'l, A: Algorithm, C: Clock, T: Time> Account<'l, A, 1, C, T> {
    /// What the limit would admit of a request of this cost, not yet charged: for a request that
    /// several limiters decide [`together`](crate::together), or that is charged only if something
    /// else succeeds.
    ///
    /// **Guarantee.** It changes nothing and holds nothing. What it says is what
    /// [`peek_n`](Self::peek_n) says; [`take`](Offer::take) then charges as
    /// [`check_n`](Self::check_n) does, and decides anew if the key was charged meanwhile.
    ///
    /// **Cost.** The first half of a check's; nothing is written or allocated.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Outcome, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(5))).per::<str>().build()?;
    /// let mut offer = limiter.account("alice").offer(2);
    /// assert_eq!((offer.outcome(), offer.part().remaining()), (Outcome::Allowed, 3));
    /// assert_eq!(limiter.account("alice").peek_n(0).remaining(), 5, "nothing is charged yet");
    /// assert_eq!(offer.take(), Outcome::Allowed);
    /// assert_eq!(limiter.account("alice").peek_n(0).remaining(), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn offer(&self, cost: u64) -> Offer<'l> {
        let Self { core, tier, fingerprint, time } = *self;
        Offer::new(core, tier, fingerprint, cost, time.now(&core.clock))
    }
}

impl<'l, A: Algorithm, C: Clock, T: Time> Account<'l, A, MOST_LIMITS, C, T> {
    /// The offer of a limiter by a list that has one limit. `None`: it has several, which decide as
    /// one by a check.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Outcome, Quota};
    ///
    /// let from_file: Vec<Quota> = vec!["100/min".parse()?];
    /// let limiter = Limiter::builder(from_file).per::<str>().build()?;
    /// let offer = limiter.account("alice").offer(101).expect("it has one limit");
    /// assert_eq!(offer.outcome(), Outcome::Never);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn offer(&self, cost: u64) -> Option<Offer<'l>> {
        let Self { core, tier, fingerprint, time } = *self;
        (core.tables.limits() == 1).then(|| Offer::new(core, tier, fingerprint, cost, time.now(&core.clock)))
    }
}
