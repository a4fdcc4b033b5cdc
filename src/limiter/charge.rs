//! How a request is decided and charged, all or nothing: by any limits, at any cost, for a key that
//! is anywhere, and by one version of the quotas.
//!
//! A check reads the clock once and goes through the tables twice:
//!
//! ```text
//!   look at every limit ---- some refuse ----> refused; only `CountPolicy::All` writes anything
//!        |
//!        | all admit
//!        v
//!   charge them in order --- one refuses ----> undo the charges: refused
//!        |                   (another thread came in between)
//!        v
//!     admitted
//! ```
//!
//! What must stay true:
//!
//! * An admitted request has been charged to each limit by one compare-exchange from a word on
//!   which the limit's rule admits it. So no limit ever admits more than it would alone, even when
//!   charges are undone: a refund takes no more off a word than the charge certainly still adds to
//!   it.
//! * All requests charge in one order. The last limit holds nothing but admitted requests, so of
//!   requests that race for the last unit there one is admitted.
//! * What can be undone only in part is charged last (`tables`). A limit keeps its place over a
//!   change of its quota, or requests would charge in two orders.
//! * Every limit admits by a word of its own version or an earlier one, since a later one reads as
//!   a refusal. And a refusal is no answer before the version has been looked at again, after the
//!   words: edge V1 of `version`. So the quotas of one version decide: of the current one, or of
//!   one before it if they charged the request.

use crate::algorithm::{Algorithm, Numbers, Payload, Rule};
use crate::clock::Clock;
use crate::limiter::core::Core;
use crate::limiter::decision::Decision;
use crate::limiter::version::{State, Tier};
use crate::outcome::Outcome;
use crate::table::Fingerprint;
use crate::table::look::Look;
use crate::table::ruling::{Ask, Ruling};
use crate::table::versioned::VersionedRef;
use crate::time::Timestamp;

/// How a verb charges a request, where that is not a plain check.
#[derive(Clone, Copy)]
pub(super) enum Charging {
    /// A request of this cost that may wait for its turn, so many nanoseconds from this time.
    Waiting { cost: u64, max_wait: u64, now: Timestamp },
    /// A request at this time that departs so many nanoseconds later: the longest wait of several
    /// limits.
    Departing(Timestamp, u64),
    /// Permits that are charged ahead of their requests.
    Ahead,
    /// An attempt that no limit counts when it is refused.
    Uncounted,
}

impl Charging {
    /// What becomes of a rule. `None`: the algorithm cannot charge so.
    pub(super) fn rule<R: Numbers>(self, rule: &R) -> Option<R> {
        match self {
            // Whether there are turns does not depend on the cost; a cost above the limit may be
            // too much to compute with.
            Self::Waiting { cost, max_wait, now } => rule.patient(now, max_wait, cost.min(rule.limit())),
            Self::Departing(now, wait) => rule.departing(now, wait),
            Self::Ahead => rule.ahead(),
            Self::Uncounted => Some(rule.ahead().unwrap_or(*rule)),
        }
    }

    /// When a request departs at the latest that may be booked ahead. `None`: it is not.
    fn departs_until(self) -> Option<Timestamp> {
        let (now, wait) = match self {
            Self::Waiting { now, max_wait, .. } => (now, max_wait),
            Self::Departing(now, wait) => (now, wait),
            Self::Ahead | Self::Uncounted => return None,
        };
        (wait > 0).then(|| Timestamp::from_nanos(now.as_nanos().saturating_add(wait)))
    }
}

/// The rules by which a verb decides: the tier's own, or what it makes of them.
enum Rules<R, const N: usize> {
    Own,
    Made(Charging, [R; N]),
}

impl<R, const N: usize> Rules<R, N> {
    #[inline]
    fn of<'r>(&'r self, tier: &'r Tier<R, N>, place: usize) -> VersionedRef<'r, R> {
        let own = VersionedRef { pure: &tier.rules[place].pure, validity: &tier.rules[place].validity };
        match self {
            Self::Own => own,
            Self::Made(_, rules) => VersionedRef { pure: &rules[place], ..own },
        }
    }
}

/// A request on its way: the tier that decides it, and the answer so far.
pub(super) struct Pending<'l, R, const N: usize> {
    pub(super) tier: &'l Tier<R, N>,
    pub(super) answer: Decision<'l, N>,
}

impl<R: Numbers, const N: usize> Pending<'_, R, N> {
    fn ask<'r>(&self, rule: VersionedRef<'r, R>) -> Ask<'r, R> {
        Ask { rule, fingerprint: self.answer.fingerprint, cost: self.answer.cost }
    }

    /// Sets what the limit at this place said.
    pub(super) fn set(&mut self, place: usize, ruling: Ruling<'_>) {
        let shown = self.answer.tables[place].payload_and_basis(ruling);
        (self.answer.payloads[place], self.answer.decided_on[place]) = shown;
    }

    /// Shows the limit at this place without the request.
    pub(super) fn show_without_request(&mut self, place: usize) {
        let Decision { tables, fingerprint, now, .. } = &self.answer;
        let ask = Ask { rule: self.tier.by_ref(place), fingerprint: *fingerprint, cost: 1 };
        let standing = tables[place].look(ask, *now).standing();
        (self.answer.payloads[place], self.answer.decided_on[place]) = standing;
    }

    /// The limits that do not refuse show what they hold without the request.
    fn show_admitting_without_request(&mut self) {
        for place in 0..self.answer.tables.limits() {
            if !self.answer.refused.has(place) {
                self.show_without_request(place);
            }
        }
    }

    /// Whether the request has been charged to the limit at this place, where it was admitted.
    fn keeps(&self, place: usize) -> bool {
        self.answer.is_charged(place)
    }
}

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Decides a request of any cost by the current quota of an only limit, and tells the observer.
    #[inline(never)]
    pub(super) fn check_closely<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l, N> {
        let state = self.versions.state();
        let tier = self.versions.renewed(tier);
        // A later version is decided here: as fast as the first, nearly.
        if tier.has_room_for(cost) {
            let (ruling, now) = self.tables.first.check(&tier.rules[0], fingerprint, cost, time);
            if ruling.allowed || self.versions.after(tier, now).is_none() {
                let decision = self.decided(tier, ruling, now, cost, fingerprint, state.resets());
                return if self.observer.is_some() { self.observer.tell(decision) } else { decision };
            }
        }
        self.check_anywhere(state, tier, fingerprint, cost, time(), time)
    }

    /// Decides a request of any cost for a key that is anywhere, first by the version of this tier.
    #[inline(never)]
    pub(super) fn check_anywhere<'l>(
        &'l self,
        state: State,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l, N> {
        // Before anything is read: each limit's line is in another table.
        self.tables.iter().for_each(|table| table.view(fingerprint).prefetch_all());
        let mut pending = self.begin(state, tier, fingerprint, cost, now);
        if !self.charge_by(&mut pending, &Rules::Own, &time) {
            self.charge_by_later(&mut pending, None, &time);
        }
        if self.observer.is_some() { self.observer.tell(pending.answer) } else { pending.answer }
    }

    /// Decides by the rules that a verb makes of the current ones. The observer is not told.
    /// `None`: a limit has no such rule.
    #[cold]
    #[inline(never)]
    pub(super) fn charge<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        charging: Option<Charging>,
        time: &impl Fn() -> Timestamp,
    ) -> Option<Decision<'l, N>> {
        let state = self.versions.state();
        let mut pending = self.begin(state, self.versions.renewed(tier), fingerprint, cost, time());
        let rules = self.rules_of(charging, &pending)?;
        if !self.charge_by(&mut pending, &rules, time) {
            self.charge_by_later(&mut pending, charging, time)?;
        }
        Some(pending.answer)
    }

    /// A request that is admitted, so far.
    #[inline]
    pub(super) fn begin<'l>(
        &'l self,
        state: State,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Pending<'l, A::Rule, N> {
        let payloads = [Payload::UNSEEN; N];
        Pending { tier, answer: self.answer(tier, fingerprint, cost, now, state.resets(), payloads) }
    }

    /// Decides and writes nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn peek<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Decision<'l, N> {
        let mut tier = self.versions.renewed(tier);
        loop {
            let mut pending = self.begin(self.versions.state(), tier, fingerprint, cost, now);
            self.foresee(&mut pending);
            match self.versions.after(tier, now) {
                Some(later) => tier = later,
                None => return pending.answer,
            }
        }
    }

    /// Decides a request that was not charged anew, by each version that followed meanwhile, until
    /// the version that decided is still current. `None`, and nothing was charged: a limit of that
    /// version cannot be charged so, such as one that has become a queue.
    #[inline(never)]
    fn charge_by_later<'l>(
        &'l self,
        pending: &mut Pending<'l, A::Rule, N>,
        charging: Option<Charging>,
        time: &impl Fn() -> Timestamp,
    ) -> Option<()> {
        loop {
            let later = match charging {
                None => self.versions.after(pending.tier, pending.answer.now),
                // A booking is also refused because the version ends before it.
                Some(_) => self.versions.after_all(pending.tier),
            };
            let Some(later) = later else { return Some(()) };
            let Decision { fingerprint, cost, .. } = pending.answer;
            *pending = self.begin(self.versions.state(), later, fingerprint, cost, time());
            let rules = self.rules_of(charging, pending)?;
            if self.charge_by(pending, &rules, time) {
                return Some(());
            }
        }
    }

    /// The rules by which a request is charged so. Where they book ahead, each limit notes that
    /// first, for its refunds. `None`: a limit has no such rule.
    fn rules_of(
        &self,
        charging: Option<Charging>,
        pending: &Pending<'_, A::Rule, N>,
    ) -> Option<Rules<A::Rule, N>> {
        let Some(charging) = charging else { return Some(Rules::Own) };
        let mut rules = std::array::from_fn(|place| *pending.tier.rule(place));
        for rule in &mut rules[..self.tables.limits()] {
            *rule = charging.rule(rule)?;
        }
        if let Some(until) =
            charging.departs_until().filter(|_| pending.tier.has_room_for(pending.answer.cost))
        {
            self.tables.iter().for_each(|table| table.marks.book(pending.answer.fingerprint, until));
        }
        Some(Rules::Made(charging, rules))
    }

    /// Decides by the request's own version, and charges. `false`: it was not charged.
    #[inline(always)]
    fn charge_by<'l>(
        &'l self,
        pending: &mut Pending<'l, A::Rule, N>,
        rules: &Rules<A::Rule, N>,
        time: &impl Fn() -> Timestamp,
    ) -> bool {
        let (tier, then) = (pending.tier, pending.answer.now);
        if !tier.has_room_for(pending.answer.cost) {
            self.foresee(pending);
            return false;
        }
        let limits = self.tables.limits();
        let mut looks = [Look::default(); N];
        for (place, look) in looks.iter_mut().enumerate().take(limits) {
            let ask = pending.ask(rules.of(tier, place));
            let view = self.tables[place].view(ask.fingerprint);
            // A booking has to raise the horizon, which the quick decision does not.
            let is_plain = matches!(rules, Rules::Own);
            *look = match is_plain.then(|| Look::at_home(view, ask, then)).flatten() {
                Some(look) => look,
                // No other limit could be charged for nothing.
                None if limits == 1 => return self.charge_anew(pending, rules, 0, then, time),
                None => Look::anywhere(view, ask, then),
            };
            pending.answer.refused.add_if(!look.allowed, place);
            (pending.answer.payloads[place], pending.answer.decided_on[place]) =
                (look.payload, look.decided_on);
        }
        if !pending.answer.refused.is_empty() {
            self.count_refusals(pending, rules, &looks, time);
            return false;
        }
        for (place, look) in looks.iter().enumerate().take(limits) {
            if !self.stage(pending, place, look) || !look.charge(pending.answer.fingerprint) {
                let tries = u64::from(look.slot.is_some());
                self.tables[place].events(pending.answer.fingerprint).retried(tries);
                return self.charge_anew(pending, rules, place, then, time);
            }
        }
        pending.answer.now = tier.within(then);
        true
    }

    /// Writes the time of a request that a log admits into its ring. `false`: decide again.
    #[inline(always)]
    fn stage(&self, pending: &Pending<'_, A::Rule, N>, place: usize, look: &Look<'_>) -> bool {
        let Some(slot) = look.slot.filter(|_| !look.decided_on.is_none()) else { return true };
        let (rule, word) = (pending.tier.by_ref(place), look.word);
        let ring = self.tables[place].ring_at(pending.answer.fingerprint, look.decided_on);
        let at = rule.moment(pending.answer.now);
        rule.stage(word.payload(), ring, at, pending.answer.cost, || slot.is_still(word))
    }

    /// Goes on with a request that was charged to the limits before `place`, whose word is another
    /// by now.
    #[cold]
    #[inline(never)]
    pub(super) fn go_on<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        answer: Decision<'l, N>,
        place: usize,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l, N> {
        self.tables[place].events(answer.fingerprint).retried(1);
        let then = answer.now;
        let mut pending = Pending { tier, answer };
        if !self.charge_anew(&mut pending, &Rules::Own, place, then, &time) {
            self.charge_by_later(&mut pending, None, &time);
        }
        pending.answer
    }

    /// Decides and charges the limits from `first` on by their current words. When one refuses, the
    /// charges are undone.
    #[cold]
    #[inline(never)]
    fn charge_anew(
        &self,
        pending: &mut Pending<'_, A::Rule, N>,
        rules: &Rules<A::Rule, N>,
        first: usize,
        then: Timestamp,
        time: &impl Fn() -> Timestamp,
    ) -> bool {
        let (tier, limits) = (pending.tier, self.tables.limits());
        for place in first..limits {
            let ask = pending.ask(rules.of(tier, place));
            let (table, now) = (&self.tables[place], pending.answer.now);
            let (ruling, now) = match rules {
                Rules::Own => table.check_displaced(&tier.rules[place], ask, now, time),
                // The fast paths book nothing ahead.
                Rules::Made(..) => table.check_anywhere(ask, now, time),
            };
            pending.answer.now = if limits == 1 { now } else { pending.answer.now.max(now) };
            pending.set(place, ruling);
            if !ruling.allowed {
                self.undo(pending, place, then);
                pending.answer.outcome = Outcome::Denied;
                pending.answer.refused.add(place);
                pending.show_admitting_without_request();
                return false;
            }
        }
        if limits == 1 {
            pending.answer.since = pending.answer.now;
        } else {
            pending.answer.now = tier.within(pending.answer.now);
        }
        true
    }

    /// Undoes what the limits before `place` were charged.
    ///
    /// `then` is no later than any of the charges: what may have dripped since is not given back.
    fn undo(&self, pending: &mut Pending<'_, A::Rule, N>, place: usize, then: Timestamp) {
        if place > 0 {
            pending.answer.since = then;
            let mut charged = pending.answer.receipt_of(|before| before < place && pending.keeps(before));
            self.give_back(&mut charged, u64::MAX, || self.clock.now());
        }
    }

    /// Completes a decision that some limits refuse: those that count refused requests count it,
    /// the others show what they hold without it.
    fn count_refusals(
        &self,
        pending: &mut Pending<'_, A::Rule, N>,
        rules: &Rules<A::Rule, N>,
        looks: &[Look<'_>; N],
        time: &impl Fn() -> Timestamp,
    ) {
        pending.answer.outcome = Outcome::Denied;
        // If the quotas have changed, the refusal of a full table is no answer, and is not counted.
        let is_answer = self.versions.after(pending.tier, pending.answer.now).is_none();
        for (place, table) in self.tables.iter().enumerate() {
            let look = &looks[place];
            if look.counts {
                // The word that was looked at refuses the request. If the word admits it by now,
                // the charge stays: it counts the request, too.
                let (ask, now) = (pending.ask(rules.of(pending.tier, place)), pending.answer.now);
                let (ruling, _) = table.check_anywhere(ask, now, time);
                pending.set(place, ruling);
            } else if look.slot.is_some() {
                pending.answer.payloads[place] = look.before;
            } else if look.allowed {
                pending.show_without_request(place);
            } else if !matches!(rules, Rules::Made(Charging::Uncounted, _)) && is_answer {
                table.events(pending.answer.fingerprint).refused(pending.answer.decided_on[place].basis());
            }
        }
    }

    /// Counts the refusals of limits that were only looked at, and whose tables are full: as a
    /// check of each alone would.
    #[cold]
    #[inline(never)]
    pub(super) fn count_full(&self, decision: &Decision<'_, N>) {
        for place in (0..self.tables.limits()).filter(|&place| decision.refuses(place)) {
            let events = self.tables[place].events(decision.fingerprint);
            events.refused(decision.decided_on[place].basis());
        }
    }

    /// The answer to a request that is not to be charged.
    #[cold]
    #[inline(never)]
    fn foresee(&self, pending: &mut Pending<'_, A::Rule, N>) {
        let (tier, cost, now) = (pending.tier, pending.answer.cost, pending.answer.now);
        for place in 0..self.tables.limits() {
            pending.answer.refused.add_if(cost > tier.rule(place).limit(), place);
        }
        let is_never = !pending.answer.refused.is_empty();
        if is_never {
            pending.answer.outcome = Outcome::Never;
        }
        for (place, table) in self.tables.iter().enumerate() {
            if is_never || cost == 0 {
                pending.show_without_request(place);
                continue;
            }
            let look = table.look(pending.ask(tier.by_ref(place)), now);
            (pending.answer.payloads[place], pending.answer.decided_on[place]) = look.foreseen();
            if !look.allowed {
                pending.answer.refused.add(place);
                pending.answer.outcome = Outcome::Denied;
            }
        }
        if pending.answer.outcome == Outcome::Denied {
            pending.show_admitting_without_request();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
