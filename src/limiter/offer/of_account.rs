//! How an account makes an offer: a look at the key's home slot, or wherever the key is.

use crate::algorithm::{Algorithm, Numbers};
use crate::clock::Clock;
use crate::limiter::account::Account;
use crate::limiter::core::Core;
use crate::limiter::offer::{Offer, OfferingLimiter, Stage};
use crate::limiter::time_of::Time;
use crate::limiter::version::Tier;
use crate::outcome::Outcome;
use crate::receipt::MOST_LIMITS;
use crate::table::Fingerprint;
use crate::table::look::Look;
use crate::table::ruling::Ask;
use crate::time::Timestamp;

impl<'l> Offer<'l> {
    /// That of the limit that is charged at this place.
    #[inline(always)]
    fn new<A: Algorithm, const N: usize, C: Clock>(
        core: &'l Core<A, N, C>,
        place: usize,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Self {
        let state = core.versions.state();
        let tier = if state.is_plain() { tier } else { core.versions.renewed(tier) };
        let view = core.tables[place].view(fingerprint);
        view.prefetch_all();
        if has_room_for(cost, tier.rule(place))
            && let Some(look) = Look::quickly(view, Ask { rule: tier.by_ref(place), fingerprint, cost }, now)
            && (look.allowed || core.versions.after(tier, now).is_none())
        {
            let outcome = if look.allowed { Outcome::Allowed } else { Outcome::Denied };
            return Self::of(core, place, tier, (fingerprint, cost, now), state.resets(), (look, outcome));
        }
        Self::closely(core, place, tier, fingerprint, cost, now)
    }

    /// The same at any cost, and for a key that is anywhere.
    #[cold]
    #[inline(never)]
    fn closely<A: Algorithm, const N: usize, C: Clock>(
        core: &'l Core<A, N, C>,
        place: usize,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Self {
        let mut tier = core.versions.renewed(tier);
        loop {
            let resets = core.versions.state().resets();
            let (rule, view) = (tier.by_ref(place), core.tables[place].view(fingerprint));
            let (look, outcome) = match cost {
                0 => (Look::default(), Outcome::Allowed),
                _ if !has_room_for(cost, tier.rule(place)) => (Look::default(), Outcome::Never),
                _ => {
                    let look = Look::anywhere(view, Ask { rule, fingerprint, cost }, now);
                    (look, if look.allowed { Outcome::Allowed } else { Outcome::Denied })
                }
            };
            match core.versions.after(tier, now).filter(|_| outcome != Outcome::Allowed) {
                Some(later) => tier = later,
                None => {
                    let request = (fingerprint, cost, now);
                    let mut offer = Self::of(core, place, tier, request, resets, (look, outcome));
                    if cost == 0 || outcome == Outcome::Never {
                        core.show_without_request(&mut offer);
                    }
                    return offer;
                }
            }
        }
    }

    /// That of a limit with this outcome, by a look.
    #[inline(always)]
    fn of<A: Algorithm, const N: usize, C: Clock>(
        core: &'l Core<A, N, C>,
        place: usize,
        tier: &'l Tier<A::Rule, N>,
        (fingerprint, cost, now): (Fingerprint, u64, Timestamp),
        resets: u32,
        (look, outcome): (Look<'l>, Outcome),
    ) -> Self {
        let (from, by, refuses) = (core, &tier.decided_by[place], outcome != Outcome::Allowed);
        let (is_read, stage, place) = (false, Stage::Open, place as u8);
        Self { look, from, by, fingerprint, cost, now, is_read, resets, outcome, refuses, stage, place }
    }
}

/// Whether a request of this cost can be charged to a limit.
#[inline(always)]
fn has_room_for(cost: u64, rule: &impl Numbers) -> bool {
    // Every limit is at least 1: an offer of cost 1 compares nothing here.
    cost == 1 || cost > 0 && cost <= rule.limit()
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
        let offer = Offer::new(core, 0, tier, fingerprint, cost, time.now(&core.clock));
        Offer { is_read: T::IS_READ, ..offer }
    }
}

impl<'l, A: Algorithm, C: Clock, T: Time> Account<'l, A, MOST_LIMITS, C, T> {
    /// The offers of a limiter by a list: one of each of its limits, in the order in which a check
    /// charges them.
    ///
    /// Each is decided by the quotas of its own time. Where these
    /// [change](crate::Limiter::change) between two offers of a request, one limit may be charged
    /// by its old quota and the other by its new one, as limits of two limiters are that change one
    /// after the other: each keeps its own promise, and the request is charged to all or to none.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Outcome, Quota, together};
    ///
    /// let from_file: Vec<Quota> = vec!["3/min".parse()?, "9/h".parse()?];
    /// let limiter = Limiter::builder(from_file).per::<str>().build()?;
    /// let mut offers: Vec<_> = limiter.account("alice").offers(2).collect();
    /// assert_eq!((offers.len(), together(&mut offers)), (2, Outcome::Allowed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn offers(&self, cost: u64) -> impl ExactSizeIterator<Item = Offer<'l>> + use<'l, A, C, T> {
        let Self { core, tier, fingerprint, time } = *self;
        let now = time.now(&core.clock);
        (0..core.tables.limits()).map(move |place| {
            let offer = Offer::new(core, place, tier, fingerprint, cost, now);
            Offer { is_read: T::IS_READ, ..offer }
        })
    }
}
