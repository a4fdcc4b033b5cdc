//! How several limits decide a request together: by one version of their quotas.

use crate::algorithm::{AnyRule, Payload, Rule};
use crate::clock::Clock;
use crate::core::several::asks::Asks;
use crate::core::several::decision::MultiDecision;
use crate::core::several::{By, Several};
use crate::core::version::State;
use crate::core::{Core, Manner};
use crate::decision::Outcome;
use crate::receipt::{MOST, Set};
use crate::table::Word;
use crate::table::dated::Dated;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::time::Timestamp;

/// The first pass over the limits: the word of each.
struct Seen<'l> {
    /// The slots in which the key was at rest.
    slots: [Option<&'l Slot>; MOST],
    /// Their words.
    words: [Word; MOST],
    /// The key's payloads before the request.
    before: [Payload; MOST],
    /// The limits that refuse the request and count it.
    counts: Set,
}

impl<C: Clock> Core<Several, C> {
    /// Decides a request, charges it and calls the observer. Every check comes here.
    ///
    /// Every limit admits by a word of its own version or an earlier one, since a later one reads
    /// as a refusal. And a refusal is no answer before the version has been looked at again,
    /// after the words: edge V1 of `version`. So the quotas of one version decide: of the
    /// current one, or of one before it if they charged the request.
    #[inline]
    pub(super) fn charge<A: Asks>(&self, asks: A, time: impl Fn() -> Timestamp) -> MultiDecision<'_, A> {
        let state = self.versions.state();
        let now = time();
        // Where the short way returns `None`, it has written nothing.
        let decision = match self.places.brief {
            1 => self.charge_briefly::<1, A>(state, asks, now, &time),
            2 => self.charge_briefly::<2, A>(state, asks, now, &time),
            3 => self.charge_briefly::<3, A>(state, asks, now, &time),
            _ => None,
        };
        match decision {
            Some(decision) => decision,
            None => self.charge_anywhere(state, asks, now, &time),
        }
    }

    /// The long way: any limits, any cost, and a key that is anywhere.
    // One loop of each kind and one decision, filled in place: a closure called from two places, or
    // a decision that is moved, is a call.
    #[inline(never)]
    fn charge_anywhere<'l, A: Asks>(
        &'l self,
        state: State,
        asks: A,
        now: Timestamp,
        time: &impl Fn() -> Timestamp,
    ) -> MultiDecision<'l, A> {
        // Before anything is read: each limit's line is in another table.
        for (index, table) in self.each().iter().enumerate() {
            table.view(asks.fingerprint(index)).prefetch_all();
        }
        // Asked before the decision is made: to look at it afterwards, it is written to memory.
        if self.observer.is_some() {
            return self.charge_and_tell(state, asks, now, time);
        }
        let mut decision = self.decision(state, asks, now);
        if !self.charge_by(&mut decision, &By::Current, time) {
            self.charge_by_later(&mut decision, None, time);
        }
        decision
    }

    /// The same for an observer.
    #[inline(never)]
    fn charge_and_tell<'l, A: Asks>(
        &'l self,
        state: State,
        asks: A,
        now: Timestamp,
        time: &impl Fn() -> Timestamp,
    ) -> MultiDecision<'l, A> {
        let mut decision = self.decision(state, asks, now);
        if !self.charge_by(&mut decision, &By::Current, time) {
            self.charge_by_later(&mut decision, None, time);
        }
        A::tell(&self.observer, decision)
    }

    /// Decides by the rules that a verb's `manner` makes of the current ones. The observer is not
    /// told. `None`: a limit has no such rule.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_in_manner<'l, A: Asks>(
        &'l self,
        asks: A,
        manner: Option<Manner>,
        time: &impl Fn() -> Timestamp,
    ) -> Option<MultiDecision<'l, A>> {
        let state = self.versions.state();
        let mut decision = self.decision(state, asks, time());
        let by = self.by(manner, &decision)?;
        if !self.charge_by(&mut decision, &by, time) {
            self.charge_by_later(&mut decision, manner, time)?;
        }
        Some(decision)
    }

    /// The same at a time that is given.
    pub(super) fn charge_untold<A: Asks>(
        &self,
        asks: A,
        manner: Option<Manner>,
        now: Timestamp,
    ) -> Option<MultiDecision<'_, A>> {
        self.charge_in_manner(asks, manner, &|| now)
    }

    /// A decision that starts as admitted.
    #[inline]
    pub(super) fn decision<A: Asks>(&self, state: State, asks: A, now: Timestamp) -> MultiDecision<'_, A> {
        MultiDecision::new(&self.places, self.versions.of(state), asks, now, state.resets())
    }

    /// Decides and writes nothing.
    pub(super) fn look<A: Asks>(&self, asks: A, now: Timestamp) -> MultiDecision<'_, A> {
        loop {
            let mut decision = self.decision(self.versions.state(), asks, now);
            self.foresee(&mut decision);
            if self.versions.following(decision.version, now).is_none() {
                return decision;
            }
        }
    }

    /// Decides a request that was not charged anew, by each version that followed meanwhile, until
    /// the version that decided is still current. `None`, and nothing was charged: a limit of that
    /// version has no rule in this `manner`, such as one that has become a queue.
    #[inline(never)]
    pub(super) fn charge_by_later<'l, A: Asks>(
        &'l self,
        decision: &mut MultiDecision<'l, A>,
        manner: Option<Manner>,
        time: &impl Fn() -> Timestamp,
    ) -> Option<()> {
        while self.versions.following(decision.version, decision.now).is_some() {
            *decision = self.decision(self.versions.state(), decision.asks, time());
            let by = self.by(manner, decision)?;
            if self.charge_by(decision, &by, time) {
                break;
            }
        }
        Some(())
    }

    /// The rules by which a request is decided in this manner. Where they book ahead, each limit
    /// notes that first, for its refunds. `None`: a limit has no such rule.
    fn by<A: Asks>(&self, manner: Option<Manner>, decision: &MultiDecision<'_, A>) -> Option<By> {
        let by = By::in_manner(manner, decision.version)?;
        let until = manner.and_then(Manner::departs_until);
        if let Some(until) = until.filter(|_| decision.asks.fit(decision.version)) {
            for (index, table) in self.each().iter().enumerate() {
                table.refunds.book(decision.asks.fingerprint(index), until);
            }
        }
        Some(by)
    }

    /// Decides by the decision's own version, and charges. `false`: it was not charged.
    #[inline(always)]
    fn charge_by<A: Asks>(
        &self,
        decision: &mut MultiDecision<'_, A>,
        by: &By,
        time: &impl Fn() -> Timestamp,
    ) -> bool {
        let MultiDecision { version, asks, .. } = *decision;
        if !asks.fit(version) {
            self.foresee(decision);
            return false;
        }
        let then = decision.now;
        let mut seen = Seen {
            slots: [None; MOST],
            words: [Word::ZERO; MOST],
            before: [Payload::UNSEEN; MOST],
            counts: Set::default(),
        };
        for index in 0..self.places.len() {
            let rule = by.rule(version, index);
            // A booking has to raise the horizon, which the quick decision does not.
            let is_plain = matches!(by, By::Current);
            let (fingerprint, cost) = (asks.fingerprint(index), asks.cost(index));
            let glance = is_plain.then(|| self.places.glance(index, rule, fingerprint, cost, then)).flatten();
            if let Some(glance) = glance {
                (seen.slots[index], seen.words[index]) = (Some(glance.seen.0), glance.seen.1);
                seen.before[index] = glance.before;
                (decision.payloads[index], decision.places[index]) = (glance.payload, glance.place);
                if !glance.allowed {
                    decision.refused.add(index);
                }
            } else if self.places.len() == 1 {
                // No other limit could be charged for nothing.
                return self.charge_anew(decision, by, 0, then, time);
            } else {
                self.look_closer(decision, by, &mut seen, index);
            }
        }
        if !decision.refused.is_empty() {
            self.count_refusals(decision, by, &seen, time);
            return false;
        }
        for index in 0..self.places.len() {
            let is_charged = seen.slots[index].is_some_and(|slot| {
                let (word, payload) = (seen.words[index], decision.payloads[index]);
                let is_staged = decision.places[index].is_none() || self.stage(decision, index, slot, word);
                is_staged && slot.charge_seen(word, payload, asks.fingerprint(index).kept())
            });
            if !is_charged {
                let tries = u64::from(seen.slots[index].is_some());
                self.places[index].events(asks.fingerprint(index)).retried(tries);
                return self.charge_anew(decision, by, index, then, time);
            }
        }
        decision.taken = Set::first(self.places.len());
        decision.now = version.within(decision.now);
        true
    }

    /// Looks at a limit that does not decide the request by the key's home slot.
    #[inline(never)]
    fn look_closer<'l, A: Asks>(
        &'l self,
        decision: &mut MultiDecision<'_, A>,
        by: &By,
        seen: &mut Seen<'l>,
        index: usize,
    ) {
        let MultiDecision { version, asks, now, .. } = *decision;
        let (fingerprint, cost) = (asks.fingerprint(index), asks.cost(index));
        let look = self.places.look(index, by.rule(version, index), fingerprint, cost, now);
        if let Some((slot, word)) = look.seen {
            (seen.slots[index], seen.words[index]) = (Some(slot), word);
            seen.before[index] = look.before;
        }
        (decision.payloads[index], decision.places[index]) = (look.payload, look.place);
        seen.counts.add_if(look.counts, index);
        decision.refused.add_if(!look.allowed, index);
    }

    /// Writes the time of a request that a log admits into its ring. `false`: decide again.
    #[inline(never)]
    fn stage<A: Asks>(&self, decision: &MultiDecision<'_, A>, index: usize, slot: &Slot, word: Word) -> bool {
        let MultiDecision { asks, now, .. } = *decision;
        let rule = decision.version.dated(index);
        let ring = self.places[index].ring_at(asks.fingerprint(index), decision.places[index]);
        rule.stage(word.payload(), ring, rule.moment(now), asks.cost(index), || slot.is_still(word))
    }

    /// Decides and charges the limits from `first` on by their current words. When one refuses, the
    /// charges are undone.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_anew<A: Asks>(
        &self,
        decision: &mut MultiDecision<'_, A>,
        by: &By,
        first: usize,
        then: Timestamp,
        time: &impl Fn() -> Timestamp,
    ) -> bool {
        decision.taken = Set::first(first);
        for index in first..self.places.len() {
            let ask = ask(by.rule(decision.version, index), decision, index);
            let (ruling, now) = match by {
                By::Current => {
                    let current = &decision.version.compiled(index).current;
                    let (view, key) = (self.places[index].view(ask.fingerprint), ask.fingerprint.kept());
                    view.check_displaced::<_, false>(current, key, ask.cost, decision.now, time)
                }
                By::InManner(..) => self.places[index].check_anywhere(ask, time),
            };
            decision.now = decision.now.max(now);
            decision.set(index, ruling);
            if !ruling.allowed {
                self.undo(decision, then);
                decision.outcome = Outcome::Denied;
                decision.refused.add(index);
                decision.admitting().for_each(|other| decision.show_without_request(other));
                return false;
            }
        }
        decision.now = decision.version.within(decision.now);
        true
    }

    /// Undoes what the request was charged before a limit refused it.
    ///
    /// `then` is no later than any of the charges: what may have dripped since is not given back.
    fn undo<A: Asks>(&self, decision: &mut MultiDecision<'_, A>, then: Timestamp) {
        if decision.taken.is_empty() {
            return;
        }
        decision.since = then;
        self.give_back(&mut decision.receipt_of_taken(), u64::MAX, || self.clock.now());
        decision.taken = Set::default();
    }

    /// Completes a decision that some limits refuse: those that count refused requests count it,
    /// the others show what they hold without it.
    fn count_refusals<A: Asks>(
        &self,
        decision: &mut MultiDecision<'_, A>,
        by: &By,
        seen: &Seen<'_>,
        time: &impl Fn() -> Timestamp,
    ) {
        decision.outcome = Outcome::Denied;
        for (index, table) in self.each().iter().enumerate() {
            if seen.counts.has(index) {
                // The word that was peeked at refuses the request. If the word admits it by now,
                // the charge stays: it counts the request, too.
                let ask = ask(by.rule(decision.version, index), decision, index);
                let (ruling, _) = table.check_anywhere(ask, time);
                decision.set(index, ruling);
            } else if seen.slots[index].is_some() {
                decision.payloads[index] = seen.before[index];
            } else if !decision.refused.has(index) {
                decision.show_without_request(index);
            } else if !matches!(by, By::InManner(Manner::Uncounted, _)) {
                self.count_full(decision, index);
            }
        }
        decision.taken = Set::default();
    }

    /// Counts the refusal of a limit that was only looked at, if its table is full: as a check of
    /// it alone would. Not if the quotas have changed: then it is no answer.
    #[cold]
    #[inline(never)]
    pub(super) fn count_full<A: Asks>(&self, decision: &MultiDecision<'_, A>, index: usize) {
        if self.versions.following(decision.version, decision.now).is_none() {
            let events = self.places[index].events(decision.asks.fingerprint(index));
            events.refused(decision.places[index].basis());
        }
    }

    /// The answer to a request that is not to be charged.
    #[cold]
    #[inline(never)]
    fn foresee<A: Asks>(&self, decision: &mut MultiDecision<'_, A>) {
        let MultiDecision { version, asks, now, .. } = *decision;
        for (index, limit) in version.all().enumerate() {
            decision.refused.add_if(asks.cost(index) > limit.rule().limit(), index);
        }
        let is_never = !decision.refused.is_empty();
        if is_never {
            decision.outcome = Outcome::Never;
        }
        for (index, table) in self.each().iter().enumerate() {
            if is_never || asks.cost(index) == 0 {
                decision.show_without_request(index);
                continue;
            }
            let ruling = table.peek(ask(version.dated(index), decision, index), now);
            decision.set(index, ruling);
            if !ruling.allowed {
                decision.refused.add(index);
                decision.outcome = Outcome::Denied;
            }
        }
        if decision.outcome == Outcome::Denied {
            decision.admitting().for_each(|index| decision.show_without_request(index));
        }
        decision.taken = Set::default();
    }
}

fn ask<'r, A: Asks>(
    rule: Dated<'r, AnyRule>,
    decision: &MultiDecision<'_, A>,
    index: usize,
) -> Ask<'r, AnyRule> {
    Ask { rule, fingerprint: decision.asks.fingerprint(index), cost: decision.asks.cost(index) }
}
