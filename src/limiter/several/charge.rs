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
use crate::time::Timestamp;

/// What was seen of every limit.
struct Seen {
    /// The words of those that are `mine`.
    words: [Word; MOST],
    /// Those in which the key has a slot at rest.
    mine: Set,
    /// Those that refuse the request and count it.
    counts: Set,
}

impl<K: Key + ?Sized, C: Clock> MultiLimiter<K, C> {
    /// Decides and charges: the way of every check.
    #[inline]
    pub(super) fn charge(&self, key: &K, cost: u64, time: impl Fn() -> Timestamp) -> MultiDecision<'_> {
        let name = key.name(&self.identity);
        self.by_one_version(|version| {
            // Every limit is at least 1: a check of cost 1 compares nothing here.
            if cost != 1 && (cost == 0 || version.all().any(|limit| cost > limit.rule.limit())) {
                return self.foresee(version, name, cost, time());
            }
            self.charge_by(version, name, cost, &time)
        })
    }

    /// Decides and writes nothing.
    pub(super) fn look(&self, name: u64, cost: u64, now: Timestamp) -> MultiDecision<'_> {
        self.by_one_version(|version| self.foresee(version, name, cost, now))
    }

    /// What the quotas of one version decide: of the version in force, or of one before it if they charged the request.
    ///
    /// Every limit admits by a word of its own version or an earlier one, since a later one reads as a refusal. And a
    /// refusal is no answer before the version has been looked at again, after the words: edge V1 of `versions`.
    #[inline(always)]
    fn by_one_version<'l>(
        &'l self,
        decide: impl Fn(&'l Version<AnyRule>) -> MultiDecision<'l>,
    ) -> MultiDecision<'l> {
        let mut version = self.versions.current();
        loop {
            let decision = decide(version);
            if !decision.taken.is_empty() {
                return decision;
            }
            match self.versions.following(version, decision.now) {
                Some(later) => version = later,
                None => return decision,
            }
        }
    }

    #[inline(always)]
    fn charge_by<'l>(
        &'l self,
        version: &'l Version<AnyRule>,
        name: u64,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> MultiDecision<'l> {
        let mut decision = MultiDecision::new(&self.limits, version, name, cost, time());
        let then = decision.now;
        let mut seen = Seen { words: [Word::ZERO; MOST], mine: Set::default(), counts: Set::default() };
        for (index, limit) in self.limits.iter().enumerate() {
            let look = limit.look(version.rule(index), name, cost, then);
            decision.payloads[index] = look.payload;
            decision.places[index] = look.place;
            seen.words[index] = look.word;
            seen.mine.add_if(look.is_mine, index);
            seen.counts.add_if(look.counts, index);
            decision.refused.add_if(!look.allowed, index);
        }
        if !decision.refused.is_empty() {
            self.stand(&mut decision, &seen, time);
            return decision;
        }
        let looked_at = seen.words.iter().zip(&decision.places).zip(&decision.payloads);
        let mut charges = self.limits.iter().zip(looked_at).enumerate();
        let moved = charges.position(|(index, (limit, ((&word, &place), &payload)))| {
            let is_mine = seen.mine.has(index);
            !(is_mine && limit.charge_seen(version.rule(index), name, cost, (place, word), payload, then))
        });
        decision.taken = Set::first(moved.unwrap_or(self.limits.len()));
        if let Some(moved) = moved {
            self.charge_anew(&mut decision, moved, then, time);
        }
        decision
    }

    /// Decides and charges the limits from `first` on by what they owe now. When one refuses, what was charged is undone.
    #[cold]
    #[inline(never)]
    fn charge_anew(
        &self,
        decision: &mut MultiDecision<'_>,
        first: usize,
        then: Timestamp,
        time: impl Fn() -> Timestamp,
    ) {
        for index in first..self.limits.len() {
            let rule = decision.version.rule(index);
            let (view, ask) = self.limits[index].ask(rule, decision.name, decision.cost);
            let (ruling, now) = view.check(ask, &time);
            decision.now = decision.now.max(now);
            decision.set(index, ruling);
            if !ruling.allowed {
                self.undo(decision, then);
                decision.outcome = Outcome::Denied;
                decision.refused.add(index);
                decision.admitting().for_each(|other| decision.stand(other));
                return;
            }
        }
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
    fn stand(&self, decision: &mut MultiDecision<'_>, seen: &Seen, time: impl Fn() -> Timestamp) {
        decision.outcome = Outcome::Denied;
        for (index, limit) in self.limits.iter().enumerate() {
            if seen.counts.has(index) {
                // It was refused on the word that was looked at. If it is admitted now it counts as much.
                let rule = decision.version.rule(index);
                let (view, ask) = limit.ask(rule, decision.name, decision.cost);
                let (ruling, _) = view.check(ask, &time);
                decision.set(index, ruling);
            } else if seen.mine.has(index) {
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
    fn foresee<'l>(
        &'l self,
        version: &'l Version<AnyRule>,
        name: u64,
        cost: u64,
        now: Timestamp,
    ) -> MultiDecision<'l> {
        let mut decision = MultiDecision::new(&self.limits, version, name, cost, now);
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
        decision
    }
}
