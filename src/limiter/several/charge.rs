//! How several limits decide a request together: by one version of their quotas.

use crate::algorithm::{AnyRule, Rule, Taken};
use crate::clock::Clock;
use crate::decision::Outcome;
use crate::key::Key;
use crate::limiter::kept;
use crate::limiter::several::decision::{MultiDecision, Set};
use crate::limiter::several::{MOST, MultiLimiter};
use crate::limiter::versions::Version;
use crate::table::Word;
use crate::table::slot::Slot;
use crate::time::Timestamp;

/// What was seen of every limit.
struct Seen<'l> {
    /// The slots in which the key was at rest.
    slots: [Option<&'l Slot>; MOST],
    /// Their words.
    words: [Word; MOST],
    /// The limits that refuse the request and count it.
    counts: Set,
}

impl<K: Key + ?Sized, C: Clock> MultiLimiter<K, C> {
    /// Decides, charges and tells: the way of every check.
    ///
    /// Every limit admits by a word of its own version or an earlier one, since a later one reads as a refusal. And a
    /// refusal is no answer before the version has been looked at again, after the words: edge V1 of `versions`. So the
    /// quotas of one version decide: of the one in force, or of one before it if they charged the request.
    #[inline]
    pub(super) fn charge(&self, key: &K, cost: u64, time: impl Fn() -> Timestamp) -> MultiDecision<'_> {
        let name = key.fingerprint(&self.identity);
        let (version, now) = (self.versions.current(), time());
        // The short way first: where it says nothing, nothing was written.
        let at_home = match self.limits.brief {
            1 => self.charge_at_home::<1>(version, name, cost, now, &time),
            2 => self.charge_at_home::<2>(version, name, cost, now, &time),
            3 => self.charge_at_home::<3>(version, name, cost, now, &time),
            _ => None,
        };
        match at_home {
            Some(decision) => decision,
            None => self.charge_anywhere(version, name, cost, now, &time),
        }
    }

    /// The long way: any limits, any cost, and a key that is anywhere.
    // One loop of each kind and one decision, filled in place: a closure called from two places, or a decision that is moved,
    // is a call.
    #[inline(never)]
    fn charge_anywhere<'l>(
        &'l self,
        version: &'l Version<AnyRule>,
        name: u64,
        cost: u64,
        now: Timestamp,
        time: &impl Fn() -> Timestamp,
    ) -> MultiDecision<'l> {
        // Before anything is read: each limit's line is in another table.
        self.limits.iter().for_each(|limit| limit.table.view(name).prefetch_all());
        // Asked ahead: what looks at the decision once it is made has it written to memory first.
        if self.observer.is_somebody() {
            return self.charge_and_tell(version, name, cost, now, time);
        }
        let mut decision = MultiDecision::new(&self.limits, version, name, cost, now);
        if !self.charge_by(&mut decision, time) {
            self.charge_by_later(&mut decision, time);
        }
        decision
    }

    /// The same for an observer.
    #[inline(never)]
    fn charge_and_tell<'l>(
        &'l self,
        version: &'l Version<AnyRule>,
        name: u64,
        cost: u64,
        now: Timestamp,
        time: &impl Fn() -> Timestamp,
    ) -> MultiDecision<'l> {
        let mut decision = MultiDecision::new(&self.limits, version, name, cost, now);
        if !self.charge_by(&mut decision, time) {
            self.charge_by_later(&mut decision, time);
        }
        self.observer.tell(decision)
    }

    /// Decides and writes nothing.
    pub(super) fn look(&self, name: u64, cost: u64, now: Timestamp) -> MultiDecision<'_> {
        let mut decision = MultiDecision::new(&self.limits, self.versions.current(), name, cost, now);
        self.foresee(&mut decision);
        while let Some(later) = self.versions.following(decision.version, now) {
            decision = MultiDecision::new(&self.limits, later, name, cost, now);
            self.foresee(&mut decision);
        }
        decision
    }

    /// Decides a request that was not charged by each version that followed meanwhile, until one is still in force.
    #[inline(never)]
    pub(super) fn charge_by_later<'l>(
        &'l self,
        decision: &mut MultiDecision<'l>,
        time: &impl Fn() -> Timestamp,
    ) {
        while let Some(later) = self.versions.following(decision.version, decision.now) {
            let MultiDecision { name, cost, .. } = *decision;
            *decision = MultiDecision::new(&self.limits, later, name, cost, time());
            if self.charge_by(decision, time) {
                return;
            }
        }
    }

    /// Decides by the decision's own version, and charges. `false`: it was not charged.
    #[inline(always)]
    fn charge_by(&self, decision: &mut MultiDecision<'_>, time: &impl Fn() -> Timestamp) -> bool {
        let MultiDecision { version, name, cost, .. } = *decision;
        if !version.has_room_for(cost) {
            self.foresee(decision);
            return false;
        }
        let then = decision.now;
        let mut seen = Seen { slots: [None; MOST], words: [Word::ZERO; MOST], counts: Set::default() };
        for (index, limit) in self.limits.iter().enumerate() {
            if let Some(glance) = limit.glance(version.rule(index), name, cost, then) {
                (seen.slots[index], seen.words[index]) = (Some(glance.seen.0), glance.seen.1);
                (decision.payloads[index], decision.places[index]) = (glance.payload, glance.place);
                if !glance.allowed {
                    decision.refused.add(index);
                }
            } else {
                self.look_closer(decision, &mut seen, index);
            }
        }
        if !decision.refused.is_empty() {
            self.stand(decision, &seen, time);
            return false;
        }
        for index in 0..self.limits.len() {
            let is_charged = seen.slots[index].is_some_and(|slot| {
                let (word, payload) = (seen.words[index], decision.payloads[index]);
                let is_staged = decision.places[index] == 0 || self.stage(decision, index, slot, word);
                is_staged && slot.charge_seen(word, payload, kept(name))
            });
            if !is_charged {
                let tries = u64::from(seen.slots[index].is_some());
                self.limits[index].table.events(name).retried(tries);
                return self.charge_anew(decision, index, then, time);
            }
        }
        decision.taken = Set::first(self.limits.len());
        true
    }

    /// Looks at a limit that does not decide the request at a glance.
    #[inline(never)]
    fn look_closer<'l>(&'l self, decision: &mut MultiDecision<'_>, seen: &mut Seen<'l>, index: usize) {
        let MultiDecision { version, name, cost, now, .. } = *decision;
        let look = self.limits[index].look(version.rule(index), name, cost, now);
        if let Some((slot, word)) = look.seen {
            (seen.slots[index], seen.words[index]) = (Some(slot), word);
        }
        (decision.payloads[index], decision.places[index]) = (look.payload, look.place);
        seen.counts.add_if(look.counts, index);
        decision.refused.add_if(!look.allowed, index);
    }

    /// Writes the time of a request that a log admits into its ring. `false`: decide again.
    #[inline(never)]
    fn stage(&self, decision: &MultiDecision<'_>, index: usize, slot: &Slot, word: Word) -> bool {
        let MultiDecision { name, cost, now, .. } = *decision;
        let rule = decision.version.rule(index);
        let ring = self.limits[index].table.ring_at(name, decision.places[index].into());
        rule.stage(word.payload(), ring, rule.moment(now), cost, || slot.is_still(word))
    }

    /// Decides and charges the limits from `first` on by what they owe now. When one refuses, what was charged is undone.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_anew(
        &self,
        decision: &mut MultiDecision<'_>,
        first: usize,
        then: Timestamp,
        time: &impl Fn() -> Timestamp,
    ) -> bool {
        decision.taken = Set::first(first);
        for index in first..self.limits.len() {
            let rule = decision.version.rule(index);
            let (view, ask) = self.limits[index].ask(rule, decision.name, decision.cost);
            let (ruling, now) = view.check(ask, time);
            decision.now = decision.now.max(now);
            decision.set(index, ruling);
            if !ruling.allowed {
                self.undo(decision, then);
                decision.outcome = Outcome::Denied;
                decision.refused.add(index);
                decision.admitting().for_each(|other| decision.stand(other));
                return false;
            }
        }
        true
    }

    /// Gives one limit back what the request took of it.
    pub(super) fn give_back(
        &self,
        decision: &MultiDecision<'_>,
        index: usize,
        clock: impl Fn() -> Timestamp,
    ) -> u64 {
        let (rule, name) = (decision.version.rule(index), decision.name);
        let since = rule.moment(decision.since);
        let taken = Taken { charged: decision.payloads[index], since, cost: decision.cost };
        self.limits[index].table.view(name).refund(rule, kept(name), taken, clock)
    }

    /// Undoes what the request was charged before a limit refused it.
    ///
    /// `then` is no later than any of the charges: what may have dripped since is not given back.
    fn undo(&self, decision: &mut MultiDecision<'_>, then: Timestamp) {
        decision.since = then;
        for index in decision.taken.iter() {
            self.give_back(decision, index, || self.clock.now());
        }
        decision.taken = Set::default();
    }

    /// Completes a decision that some limits refuse: those that count it count it, the others stand as they were.
    fn stand(&self, decision: &mut MultiDecision<'_>, seen: &Seen<'_>, time: &impl Fn() -> Timestamp) {
        decision.outcome = Outcome::Denied;
        for (index, limit) in self.limits.iter().enumerate() {
            if seen.counts.has(index) {
                // It was refused on the word that was looked at. If it is admitted now it counts as much.
                let rule = decision.version.rule(index);
                let (view, ask) = limit.ask(rule, decision.name, decision.cost);
                let (ruling, _) = view.check(ask, time);
                decision.set(index, ruling);
            } else if seen.slots[index].is_some() {
                decision.payloads[index] = seen.words[index].payload();
            } else if !decision.refused.has(index) {
                decision.stand(index);
            }
        }
        decision.taken = Set::default();
    }

    /// The answer to a request that is not to be charged.
    #[cold]
    #[inline(never)]
    fn foresee(&self, decision: &mut MultiDecision<'_>) {
        let MultiDecision { version, name, cost, now, .. } = *decision;
        for (index, limit) in version.all().enumerate() {
            decision.refused.add_if(cost > limit.rule.limit(), index);
        }
        let is_never = !decision.refused.is_empty();
        if is_never {
            decision.outcome = Outcome::Never;
        }
        for (index, limit) in self.limits.iter().enumerate() {
            if is_never || cost == 0 {
                decision.stand(index);
                continue;
            }
            let (view, ask) = limit.ask(version.rule(index), name, cost);
            let ruling = view.peek(ask, now);
            decision.set(index, ruling);
            if !ruling.allowed {
                decision.refused.add(index);
                decision.outcome = Outcome::Denied;
            }
        }
        if decision.outcome == Outcome::Denied {
            decision.admitting().for_each(|index| decision.stand(index));
        }
        decision.taken = Set::default();
    }
}
