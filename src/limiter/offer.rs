//! A request that is decided in two steps: what a limit would admit, and then the charge. So any
//! limiters decide a request together, all or nothing.
//!
//! ```text
//!   offer: a look at the key's word ---- take, or together ----> one compare-exchange from it
//!                                              |
//!                                              | the word is another by now
//!                                              v
//!                                     decided anew, by the word that there is
//! ```
//!
//! What must stay true:
//!
//! * An offer writes nothing. A charge is what a check's is: time may pass before it, as it may for
//!   a check whose thread is stopped there.
//! * The number of resets is loaded before the word is read, so a charge that a reset has forgiven
//!   is not given back.
//! * A refusal is an offer only when the version has been looked at after the word (edge V1 of
//!   `version`).

mod of_account;

use std::fmt;

use crate::algorithm::{Algorithm, AnyRule, Carry, Rule};
use crate::clock::Clock;
use crate::limiter::core::Core;
use crate::limiter::decision::DecidedBy;
use crate::limiter::kept::Kept;
use crate::limiter::part::{Part, read_at};
use crate::limiter::version::Tier;
use crate::outcome::Outcome;
use crate::receipt::{Charged, ChargedBy, Receipt};
use crate::table::look::Look;
use crate::table::ruling::Ask;
use crate::table::{Fingerprint, Table};
use crate::time::Timestamp;

/// What one limit would admit of a request, not yet charged: for a request that several limiters
/// decide [`together`].
///
/// Of an [`Account::offer`](crate::Account::offer). It says what the limit says now, and holds
/// nothing: another request may take the same units first. Charge it soon, as the time of the
/// decision is that of the offer, or that of the charge where another request of the key came in
/// between. One that is dropped has changed nothing. No
/// [observer](crate::Builder::on_decision) is told of an offer, taken or not: it decides nothing
/// alone.
///
/// **Cost.** As of a check, of which it is the first half.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Outcome, Rate, TokenBucket, together};
///
/// let per_user = Limiter::builder(TokenBucket::new(Rate::per_second(2))).per::<str>().build()?;
/// let for_all = Limiter::builder(TokenBucket::new(Rate::per_second(3))).build()?;
///
/// let ask = |user, cost| {
///     let mut offers = [per_user.account(user).offer(cost), for_all.account(()).offer(1)];
///     together(&mut offers)
/// };
/// assert_eq!(ask("alice", 2), Outcome::Allowed);
/// assert_eq!(ask("alice", 1), Outcome::Denied, "of alice none is left");
/// assert_eq!(ask("bob", 1), Outcome::Allowed);
/// assert_eq!(ask("carol", 1), Outcome::Allowed, "what alice was refused was not charged to all");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "an offer charges nothing"]
pub struct Offer<'l> {
    look: Look<'l>,
    from: &'l dyn OfferingLimiter,
    by: &'l DecidedBy,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
    /// Whether that was read from the limiter's clock, and not given by the caller.
    is_read: bool,
    resets: u32,
    /// What becomes of the request, by this limit or all together.
    outcome: Outcome,
    /// Whether this limit refuses it.
    refuses: bool,
    stage: Stage,
    /// Where the limit is in the order in which its limiter charges.
    place: u8,
}

/// How far an offer has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing yet.
    Open,
    /// It is charged.
    Charged,
    /// The same, by a request that is not decided by all limits yet.
    ChargedSoFar,
    /// It was refused, by this limit or another: nothing is charged.
    Closed,
}

/// Charges a request to several limits, all or nothing: each is an offer of any limiter, for any
/// key, at any cost. Admitted by all, or charged to none.
///
/// When some refuse, those of [`CountPolicy::All`](crate::CountPolicy::All) count the request, and
/// the others show what they hold without it. The outcome is `Never` if one of them can never admit
/// it.
///
/// **Guarantee.** No limit admits more than it would alone. The limits are charged in the order
/// given: where all callers keep to one order, of requests that race for the last unit one is
/// admitted; in opposite orders both may be refused. Give a
/// [queue](crate::LeakyBucket::queue) and a [`SlidingLog`](crate::SlidingLog) last: of a request
/// that another limit refuses after all, they give back the newest only.
///
/// A limit that offers to refuse refuses for all before one is charged, so other threads see
/// nothing of such a request. They may see a charge for a short time that is given back: where the
/// limit was charged between its offer and its turn, also by an earlier one of these offers. Beside
/// another refund of the same instant, units of it may stay charged: `Stats::refunds_short`. An
/// offer that was taken before stays charged, also when another limit refuses.
///
/// **Cost.** One compare-exchange for each limit. No lock, no allocation.
///
/// # Examples
///
/// ```
/// use tollgate::{FixedWindow, Limiter, Outcome, Rate, TokenBucket, together};
///
/// let requests = Limiter::builder(TokenBucket::new(Rate::per_second(10))).per::<str>().build()?;
/// let bytes = Limiter::builder(FixedWindow::new(Rate::per_day(1_000_000))).per::<str>().build()?;
///
/// let mut offers = [requests.account("alice").offer(1), bytes.account("alice").offer(64_000)];
/// if together(&mut offers) == Outcome::Allowed {
///     let [_, mut sent] = offers.map(|offer| offer.receipt());
///     // ... of 64,000 bytes only 4,000 were sent ...
///     assert_eq!(bytes.refund_part(&mut sent, 60_000), 60_000);
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub fn together(offers: &mut [Offer<'_>]) -> Outcome {
    together_if(offers, |_| true)
}

/// [`together`], and the caller may refuse, too: `admits` is asked before the first charge, and
/// after each with the offers charged so far. Where it says no, the request is denied, and nothing
/// is charged.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Outcome, Rate, TokenBucket, together_if};
///
/// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(9))).build()?;
/// let keep_five = || {
///     together_if(&mut [limiter.account(()).offer(2)], |charged| {
///         charged.iter().all(|offer| offer.part().remaining() >= 5)
///     })
/// };
/// let outcomes = [keep_five(), keep_five(), keep_five()];
/// assert_eq!(outcomes, [Outcome::Allowed, Outcome::Allowed, Outcome::Denied]);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[inline]
pub fn together_if<'l>(offers: &mut [Offer<'l>], mut admits: impl FnMut(&[Offer<'l>]) -> bool) -> Outcome {
    let mut outcome = offers.iter().fold(Outcome::Allowed, |all, offer| worse(all, offer.outcome));
    for charged in 0..=offers.len() {
        if outcome != Outcome::Allowed {
            break;
        }
        if !admits(&offers[..charged]) {
            outcome = Outcome::Denied;
        } else if let Some(next) = offers.get_mut(charged) {
            // Refused where another request took the units first.
            outcome = next.charge(Stage::ChargedSoFar);
        }
    }
    match outcome {
        Outcome::Allowed => offers.iter_mut().for_each(Offer::confirm),
        refused => offers.iter_mut().rev().for_each(|offer| offer.close(refused)),
    }
    outcome
}

/// The outcome of a request by two limits.
fn worse(one: Outcome, other: Outcome) -> Outcome {
    match (one, other) {
        (Outcome::Never, _) | (_, Outcome::Never) => Outcome::Never,
        (Outcome::Denied, _) | (_, Outcome::Denied) => Outcome::Denied,
        (Outcome::Allowed, Outcome::Allowed) => Outcome::Allowed,
    }
}

impl<'l> Offer<'l> {
    /// Whether the limit would admit the request; once it was taken, whether it was admitted: by
    /// this limit, or by all that decided it together.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Charges the request to this limit alone, as a check does that begins now. A refusal that
    /// [counts](crate::CountPolicy::All) is counted. The second time it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Outcome, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(1))).per::<str>().build()?;
    /// let mut offer = limiter.account("alice").offer(1);
    /// assert_eq!(offer.outcome(), Outcome::Allowed);
    /// assert!(limiter.check("alice").is_allowed(), "an offer holds nothing");
    /// assert_eq!(offer.take(), Outcome::Denied);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn take(&mut self) -> Outcome {
        if self.outcome == Outcome::Allowed {
            self.charge(Stage::Charged);
        }
        if self.outcome != Outcome::Allowed {
            self.close(self.outcome);
        }
        self.outcome
    }

    /// What the limit says: after the request if it admits it, without it if not.
    #[must_use]
    pub fn part(&self) -> Part<'l> {
        let is_foreseen = self.stage == Stage::Open && self.outcome != Outcome::Never && self.cost > 0;
        let looked = (self.look.payload, self.look.decided_on);
        let (payload, place) = if is_foreseen { self.look.foreseen() } else { looked };
        let (table, number) = self.from.limit(self.place.into());
        let (ring, basis) = read_at(table, self.fingerprint, place, self.cost);
        let (rule, cost, now) = (&self.by.any, self.cost, self.now);
        let (refuses, outcome) = (self.refuses, self.outcome);
        Part { number, rule, payload, ring, basis, cost, now, refuses, outcome }
    }

    /// What gives back what the request took: nothing is [left](Receipt::left) on it unless the
    /// offer was taken.
    pub fn receipt(self) -> Receipt {
        self.receipt_of_charge()
    }

    /// The decided request, as a value that borrows nothing.
    pub fn keep(self) -> Kept {
        let receipt = self.receipt_of_charge();
        let Self { look: Look { decided_on: ring, .. }, cost, now, outcome, refuses, .. } = self;
        Kept { receipt, cost, now, ring, outcome, refuses }
    }

    fn receipt_of_charge(&self) -> Receipt {
        let has_taken = self.stage == Stage::Charged && self.look.decided_on.basis().is_charged();
        let charged = [Charged { payload: self.look.payload, left: if has_taken { self.cost } else { 0 } }];
        let Self { now, resets, fingerprint, place, .. } = *self;
        let (limiter, by) = (self.from.limiter(), self.by.charged_by());
        Receipt { limiter, since: now, by, place, resets, fingerprint, charged }
    }

    /// Charges an offer that admits, unless that was done before.
    #[inline(always)]
    fn charge(&mut self, stage: Stage) -> Outcome {
        if self.stage == Stage::Open {
            // A log writes the time of the request into its ring first; a new key needs a slot.
            let is_charged = self.look.slot.is_some()
                && self.look.decided_on.is_none()
                && self.look.charge(self.fingerprint);
            if self.cost == 0 {
                // It shows what the requests before it have left.
                self.from.show_without_request(self);
            } else if !is_charged {
                // Lost to another request of the key, or not done in one step.
                self.from.decide_anew(self);
            }
            self.stage = if self.outcome == Outcome::Allowed { stage } else { Stage::Closed };
        }
        self.outcome
    }

    /// All limits have admitted.
    #[inline]
    fn confirm(&mut self) {
        if self.stage == Stage::ChargedSoFar {
            self.stage = Stage::Charged;
        }
    }

    /// The request is refused, by this limit or another.
    #[cold]
    fn close(&mut self, outcome: Outcome) {
        match self.stage {
            // The request that charged it was decided before.
            Stage::Charged => return,
            Stage::Closed => {}
            // A refusal counts where its own outcome is that of all: `Never` is counted nowhere.
            Stage::Open if self.refuses && self.outcome == outcome => self.from.count_refusal(self),
            Stage::Open => {
                self.refuses = false;
                self.from.show_without_request(self);
            }
            Stage::ChargedSoFar => {
                self.stage = Stage::Charged;
                self.from.give_back(self.receipt_of_charge());
                self.from.show_without_request(self);
            }
        }
        (self.outcome, self.stage) = (outcome, Stage::Closed);
    }
}

impl fmt::Debug for Offer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("outcome", &self.outcome).field("part", &self.part()).finish()
    }
}

/// The limits of a limiter, of any algorithm, as their offers need them.
trait OfferingLimiter {
    fn limiter(&self) -> u64;

    /// The table of the limit that is charged at this place, and its number.
    fn limit(&self, place: usize) -> (&Table, usize);

    /// Decides by the word that there is, and charges.
    fn decide_anew<'l>(&'l self, offer: &mut Offer<'l>);

    /// Counts a refusal, if the limit counts refused requests.
    fn count_refusal(&self, offer: &mut Offer<'_>);

    /// Shows what the limit holds without the request.
    fn show_without_request(&self, offer: &mut Offer<'_>);

    fn give_back(&self, receipt: Receipt);
}

impl<A: Algorithm, const N: usize, C: Clock> OfferingLimiter for Core<A, N, C> {
    fn limiter(&self) -> u64 {
        self.tables.limiter
    }

    fn limit(&self, place: usize) -> (&Table, usize) {
        (&self.tables[place], self.tables.number(place))
    }

    #[cold]
    #[inline(never)]
    fn decide_anew<'l>(&'l self, offer: &mut Offer<'l>) {
        let Offer { fingerprint, cost, now, is_read, .. } = *offer;
        // A key that has no slot is charged at a time after the scan that says so.
        let clock = || if is_read { self.clock.now() } else { now };
        let was_looked_at = offer.look.slot.is_some() && offer.look.decided_on.is_none();
        let place = usize::from(offer.place);
        let table = &self.tables[place];
        table.events(fingerprint).retried(was_looked_at.into());
        let by = self.by_tier(offer.by, |tier| {
            let mut tier = self.versions.renewed(tier);
            loop {
                offer.resets = self.versions.state().resets();
                let ask = Ask { rule: tier.by_ref(place), fingerprint, cost };
                (offer.outcome, offer.look.payload, offer.look.decided_on) =
                    if cost > tier.rule(place).limit() {
                        let (payload, ring) = table.look(Ask { cost: 1, ..ask }, now).standing();
                        (Outcome::Never, payload, ring)
                    } else {
                        let (ruling, at) = table.check_anywhere(ask, clock(), clock);
                        offer.now = at;
                        let outcome = if ruling.allowed { Outcome::Allowed } else { Outcome::Denied };
                        let (payload, ring) = table.payload_and_basis(ruling);
                        (outcome, payload, ring)
                    };
                offer.refuses = offer.outcome != Outcome::Allowed;
                match self.versions.after(tier, offer.now).filter(|_| offer.refuses) {
                    Some(later) => tier = later,
                    None => return tier.decided_by[place].charged_by(),
                }
            }
        });
        offer.by = self.tier_of(by).map_or(offer.by, |tier| &tier.decided_by[place]);
    }

    #[inline(never)]
    fn count_refusal(&self, offer: &mut Offer<'_>) {
        let Offer { fingerprint, cost, now, .. } = *offer;
        let place = usize::from(offer.place);
        let table = &self.tables[place];
        if offer.look.counts {
            // If the word admits it by now, the charge stays: it counts the request, too.
            self.by_tier(offer.by, |tier| {
                let ask = Ask { rule: tier.by_ref(place), fingerprint, cost };
                let (ruling, _) = table.check_anywhere(ask, now, || now);
                (offer.look.payload, offer.look.decided_on) = table.payload_and_basis(ruling);
            });
        } else if offer.outcome == Outcome::Denied {
            table.events(fingerprint).refused(offer.look.decided_on.basis());
        }
    }

    #[inline(never)]
    fn show_without_request(&self, offer: &mut Offer<'_>) {
        let Offer { fingerprint, now, .. } = *offer;
        let place = usize::from(offer.place);
        (offer.look.payload, offer.look.decided_on) = self.by_tier(offer.by, |tier| {
            self.tables[place].look(Ask { rule: tier.by_ref(place), fingerprint, cost: 1 }, now).standing()
        });
    }

    fn give_back(&self, mut receipt: Receipt) {
        Core::give_back(self, &mut receipt, u64::MAX, || self.clock.now());
    }
}

impl<A: Algorithm, const N: usize, C> Core<A, N, C> {
    /// The tier that charged a request. `None`: its quota came with the call.
    pub(super) fn tier_of(&self, by: ChargedBy) -> Option<&Tier<A::Rule, N>> {
        match by {
            ChargedBy::Version { number, rule } => {
                Some(self.versions.numbered(number.into()).tier_of(rule.into()))
            }
            ChargedBy::Call { .. } => None,
        }
    }

    /// Hands over the tier that made such decisions.
    fn by_tier<T>(&self, by: &DecidedBy, act: impl FnOnce(&Tier<A::Rule, N>) -> T) -> T {
        let lent = match &by.any {
            AnyRule::Gcra(rule) if by.version == DecidedBy::LENT => A::Rule::of_call(rule.price, rule.full),
            _ => None,
        };
        match (lent, self.tier_of(by.charged_by())) {
            (Some(lent), _) => act(&Tier::lent(lent)),
            (None, Some(tier)) => act(tier),
            (None, None) => unreachable!("a quota that came with a call is lent to its own kind"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
