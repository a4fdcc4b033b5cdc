//! What may be true of every key after all that the engine has said.
//!
//! A [`World`] knows of each key and limit between which bounds its debt is. `lo` is the least that
//! the answers allow: nothing may be admitted that would not be at that debt, so no answer is ever
//! more than the limit promises. `hi` is the most: nothing may be refused that would be admitted at
//! that debt. What a verb says narrows the bounds; what it does not say (how much a lease has given
//! back) widens them. When no debt is left between them, the engine has contradicted itself or its
//! promises.

mod back;
mod debt;
mod joint;
mod over;

use std::collections::BTreeMap;

use tollgate::Inherit;
use tollgate_testing::limits::Kind;

use debt::{Found, latest, unseen};

use super::engine::KEYS;
use super::judge::{Event, Rules};
use super::limits::Limit;

/// The units of a request that may come back.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    key: usize,
    tier: usize,
    /// The only limit that was charged; `None`: all of the tier.
    only: Option<usize>,
    left: u64,
    /// When a turn departs that had to wait: then nothing comes back any more.
    departs: Option<u64>,
    version: usize,
    resets: u64,
    ended: u64,
    restores: usize,
    /// Whether a reset came between its charges to several limits.
    is_in_parts: bool,
}

/// The debt of a key to a limit.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// When it is paid, at the earliest and at the latest. `version` is that of the last charge.
    Bucket { version: usize, lo: u64, hi: u64 },
    /// How much counts until `end`.
    Fixed { version: usize, end: u64, lo: u64, hi: u64 },
    /// Admissions with their times and receipts: no upper bound is known.
    Acts(Vec<(usize, u64, u64)>),
}

/// The quotas since `at`.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    at: u64,
    limits: Vec<Limit>,
    inherits: Vec<Inherit>,
}

/// One of the ways in which it may have been.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct World {
    rules: Rules,
    versions: Vec<Version>,
    states: Vec<Vec<State>>,
    taken: BTreeMap<usize, Taken>,
    /// Resets of each key, by its limiter and by the one beside it.
    resets: [[u64; KEYS]; 2],
    /// Resets of each key's limiter, and changes that forgave.
    ended: [[u64; KEYS]; 2],
    restores: usize,
    /// The latest time that any verb has seen.
    reached: u64,
    /// When each key was last charged since its reset.
    charged: [[Option<u64>; KEYS]; 2],
    /// Which keys were given a credit.
    credited: [bool; KEYS],
    /// Of a lease that asks for more: whether its permits were good when it looked, and its
    /// limiter's `ended` then.
    looked: Option<(bool, u64)>,
}

impl World {
    pub(crate) fn new(rules: Rules, limits: &[Limit]) -> Self {
        let first = Version { at: 0, limits: limits.to_vec(), inherits: Vec::new() };
        let slots = if rules.is_multi { limits.len() } else { 1 };
        let key: Vec<State> = (0..slots).map(|slot| unseen(limits[slot].kind)).collect();
        Self {
            rules,
            versions: vec![first],
            states: vec![key; KEYS],
            taken: BTreeMap::new(),
            resets: [[0; KEYS]; 2],
            ended: [[0; KEYS]; 2],
            restores: 0,
            reached: 0,
            charged: [[None; KEYS]; 2],
            credited: [false; KEYS],
            looked: None,
        }
    }

    fn current(&self) -> &Version {
        self.versions.last().expect("there is a first version")
    }

    /// The limits that a key meets under a tier: of each the state's number and the rule's.
    fn met(&self, tier: usize) -> Vec<(usize, usize)> {
        let last = self.current().limits.len() - 1;
        let slots = match self.rules {
            Rules { is_multi: false, .. } => return vec![(0, tier)],
            Rules { has_beside: false, .. } => 0..=last,
            _ if tier == 0 => 0..=last - 1,
            _ => last..=last,
        };
        slots.map(|slot| (slot, slot)).collect()
    }

    /// Those that a request was charged to.
    fn charged_by(&self, taken: &Taken) -> Vec<(usize, usize)> {
        let is_charged = |(slot, _): &(usize, usize)| taken.only.is_none_or(|only| only == *slot);
        self.met(taken.tier).into_iter().filter(is_charged).collect()
    }

    /// The number of the limiter that decides requests of this tier.
    fn limiter(&self, tier: usize) -> usize {
        usize::from(self.rules.has_beside && tier == 1)
    }

    fn limit(&self, rule: usize) -> Limit {
        self.current().limits[rule]
    }

    /// The time as the engine takes it: none before the last change.
    fn clamped(&mut self, at: u64) -> u64 {
        self.reached = self.reached.max(at);
        at.max(self.current().at)
    }

    fn commit(&mut self, id: usize, key: usize, tier: usize, at: u64, cost: u64, next: Vec<State>) {
        for ((slot, rule), next) in self.met(tier).into_iter().zip(next) {
            self.count(id, key, (slot, rule), at, cost, next);
        }
        self.took(id, key, tier, None, at, cost);
    }

    /// One limit counts a request.
    fn count(
        &mut self,
        id: usize,
        key: usize,
        (slot, rule): (usize, usize),
        at: u64,
        cost: u64,
        mut next: State,
    ) {
        if let State::Acts(acts) = &mut next {
            self.forget_paid(acts, self.limit(rule), at);
            acts.push((id, at.max(latest(acts)), cost));
        }
        self.states[key][slot] = next;
    }

    /// A request was charged to all limits, or to this one.
    fn took(&mut self, id: usize, key: usize, tier: usize, only: Option<usize>, at: u64, left: u64) {
        let limiter = self.limiter(tier);
        self.charged[limiter][key] = self.charged[limiter][key].max(Some(at));
        let (version, resets) = (self.versions.len() - 1, self.resets[limiter][key]);
        let (ended, restores) = (self.ended[limiter][key], self.restores);
        let (departs, is_in_parts) = (None, false);
        let taken = Taken { key, tier, only, left, departs, version, resets, ended, restores, is_in_parts };
        self.taken.insert(id, taken);
    }

    /// A bucket that was paid once may have been forgotten, also by a clock that has stepped back
    /// since. Then no later time pays for it again.
    fn forget_paid(&self, acts: &mut Vec<(usize, u64, u64)>, limit: Limit, at: u64) {
        let is_back = limit.kind.refills_by_steps() && at < self.reached;
        if is_back && Self::counted(acts, limit, at, self.reached) == 0 {
            acts.clear();
        }
    }

    /// A request for now.
    #[allow(clippy::too_many_arguments, reason = "they are an event's")]
    fn decided(
        &mut self,
        id: usize,
        key: usize,
        tier: usize,
        cost: u64,
        at: u64,
        late: u64,
        allowed: bool,
        delay: Option<u64>,
        judges_refusals: bool,
    ) -> Result<(), String> {
        let at = self.clamped(at);
        let met = self.met(tier);
        if met.iter().any(|(_, rule)| cost > self.limit(*rule).most) {
            return if allowed { Err("more than the limit was admitted".into()) } else { Ok(()) };
        }
        if cost == 0 {
            return if allowed { Ok(()) } else { Err("a cost of nothing was refused".into()) };
        }
        let find = |slot: usize, rule: usize| {
            let by = |at: u64| self.find(key, slot, rule, at, cost, None);
            by(at).or_later(by(at + late))
        };
        let found: Vec<Found> = met.iter().map(|(slot, rule)| find(*slot, *rule)).collect();
        if !allowed {
            let must_fit = found.iter().all(|found| found.must_fit);
            return if judges_refusals && self.rules.is_roomy && must_fit {
                Err(format!(
                    "key {key} was refused {cost} at {at}, where there was room: {}",
                    self.shown(key)
                ))
            } else {
                Ok(())
            };
        }
        if let Some(over) = found.iter().position(|found| !found.fits) {
            return Err(format!(
                "key {key} was admitted {cost} at {at}, beyond limit {over}: {}",
                self.shown(key)
            ));
        }
        if let Some(delay) = delay {
            let (least, most) = found
                .iter()
                .fold((0, 0), |(least, most), found| (found.wait.0.max(least), found.wait.1.max(most)));
            if delay < least || self.rules.is_roomy && delay > most {
                return Err(format!("a delay of {delay} is not between {least} and {most}"));
            }
        }
        self.commit(id, key, tier, at, cost, found.into_iter().map(|found| found.next).collect());
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "they are an event's")]
    fn turn(
        &mut self,
        id: usize,
        key: usize,
        tier: usize,
        cost: u64,
        at: u64,
        max_wait: u64,
        departs: Option<u64>,
        judges_refusals: bool,
    ) -> Result<(), String> {
        let (asked_at, at) = (at, self.clamped(at));
        let met = self.met(tier);
        let limits: Vec<Limit> = met.iter().map(|(_, rule)| self.limit(*rule)).collect();
        // Several limits have no turns when one of them is a queue.
        let has_turns =
            |limit: &Limit| limit.kind.has_turns() && (limits.len() == 1 || limit.kind != Kind::Queue);
        if cost == 0 || limits.iter().any(|limit| cost > limit.most || !has_turns(limit)) {
            return if cost > 0 && departs.is_some() {
                Err("such a turn is never had".into())
            } else {
                Ok(())
            };
        }
        let found: Vec<Found> =
            met.iter().map(|(slot, rule)| self.find(key, *slot, *rule, at, cost, Some(max_wait))).collect();
        let Some(departs) = departs else {
            let must_fit = found.iter().all(|found| found.must_fit);
            return if judges_refusals && self.rules.is_roomy && must_fit {
                Err(format!("a turn of {cost} for key {key} at {at} was refused: {}", self.shown(key)))
            } else {
                Ok(())
            };
        };
        let (least, most) = found
            .iter()
            .fold((0, 0), |(least, most), found| (found.wait.0.max(least), found.wait.1.max(most)));
        let wait = departs.saturating_sub(at);
        if wait < least || self.rules.is_roomy && wait > most || wait > max_wait {
            return Err(format!(
                "a turn of {cost} for key {key} at {at} departs after {wait}, not {least} to {most}: {}",
                self.shown(key)
            ));
        }
        // Several limits are charged as at the departure.
        let next = if met.len() > 1 {
            met.iter().map(|(slot, rule)| self.find(key, *slot, *rule, at + wait, cost, None).next).collect()
        } else {
            found.into_iter().map(|found| found.next).collect()
        };
        self.commit(id, key, tier, at, cost, next);
        if met.len() > 1 {
            let limiter = self.limiter(tier);
            self.charged[limiter][key] = self.charged[limiter][key].max(Some(at + wait));
        }
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.departs = Some(departs).filter(|&departs| departs > asked_at);
        }
        Ok(())
    }

    fn seen(&mut self, key: usize, tier: usize, at: u64, remaining: &[u64]) -> Result<(), String> {
        let at = self.clamped(at);
        for ((slot, rule), remaining) in self.met(tier).into_iter().zip(remaining.iter().copied()) {
            let limit = self.limit(rule);
            let state = self.read(key, slot, rule);
            let (most, least) = match &state {
                State::Bucket { lo, hi, .. } => {
                    let left = |tat: u64| {
                        (limit.most * limit.nanos).saturating_sub(tat.saturating_sub(at)) / limit.nanos
                    };
                    (left(*lo), left(*hi))
                }
                State::Fixed { end, lo, hi, .. } if at < *end => {
                    (limit.most.saturating_sub(*lo), limit.most.saturating_sub(*hi))
                }
                State::Fixed { .. } => (limit.most, limit.most),
                State::Acts(acts) => {
                    (limit.most.saturating_sub(Self::counted(acts, limit, at, self.reached)), 0)
                }
            };
            if remaining > most || self.rules.is_roomy && remaining < least {
                return Err(format!(
                    "key {key} has {remaining} left at {at}, not {least} to {most}, of limit {rule}: {}",
                    self.shown(key)
                ));
            }
            self.narrow(key, slot, rule, at, remaining);
        }
        Ok(())
    }

    /// Narrows the bounds by the remaining units that a peek told.
    fn narrow(&mut self, key: usize, slot: usize, rule: usize, at: u64, remaining: u64) {
        let (limit, current, roomy) = (self.limit(rule), self.versions.len() - 1, self.rules.is_roomy);
        let unseen = match self.converted(unseen(limit.kind), rule) {
            State::Bucket { hi, .. } => hi,
            _ => 0,
        };
        match &mut self.states[key][slot] {
            State::Bucket { version, lo, hi } if roomy && *version == current => {
                let full = at + limit.most * limit.nanos;
                let least = (full + 1).saturating_sub((remaining + 1) * limit.nanos);
                // Less is what a key has that was never seen.
                if remaining < limit.most && least > unseen {
                    *lo = (*lo).max(least);
                }
                // A debt beyond the burst is not told.
                if remaining > 0 {
                    *hi = (*hi).min(full - remaining * limit.nanos);
                }
                *lo = (*lo).min(*hi);
            }
            State::Fixed { version, end, lo, hi } if roomy && *version == current && at < *end => {
                if remaining > 0 {
                    (*lo, *hi) = (limit.most - remaining, limit.most - remaining);
                } else {
                    *lo = (*lo).max(limit.most).min(*hi);
                }
            }
            _ => {}
        }
    }

    fn reset(&mut self, key: usize, tier: usize, known: bool) -> Result<(), String> {
        let limiter = self.limiter(tier);
        // Of a limiter without others beside it, all tiers are of one state.
        for (slot, rule) in self.met(limiter) {
            let owes = match self.read(key, slot, rule) {
                State::Bucket { lo, .. } => lo > self.reached,
                State::Fixed { lo, end, .. } => lo > 0 && end > self.reached,
                State::Acts(_) => false,
            };
            let is_charged = self.charged[limiter][key].is_some();
            let is_judged = self.rules.is_roomy && is_charged && self.versions.len() == 1;
            if owes && !known && is_judged {
                return Err(format!("nothing was known of key {key}: {}", self.shown(key)));
            }
            if known {
                self.states[key][slot] = unseen(self.limit(rule).kind);
            }
        }
        if known {
            self.charged[limiter][key] = None;
            self.forgave(limiter, key);
        }
        Ok(())
    }

    /// Nothing comes back any more of what the key has taken, and no permit of its limiter is
    /// spent.
    fn forgave(&mut self, limiter: usize, key: usize) {
        self.resets[limiter][key] += 1;
        if self.rules.is_apart {
            self.ended[limiter][key] += 1;
        } else {
            self.ended[limiter].iter_mut().for_each(|ended| *ended += 1);
        }
    }

    /// Of admissions before a change, no lower bound is known under the next quota.
    fn forget_intervals(&mut self) {
        let limits = self.current().limits.clone();
        let has_intervals =
            |limit: &Limit| limit.kind.refills_by_steps() || limit.kind == Kind::FirstHitWindow;
        for states in &mut self.states {
            for (state, _) in states.iter_mut().zip(&limits).filter(|(_, limit)| has_intervals(limit)) {
                *state = State::Acts(Vec::new());
            }
        }
    }

    fn restored(&mut self) {
        self.restores += 1;
        // A key that was not charged since a change has the largest debt of all tiers in the file,
        // also a key that was never seen.
        if !self.rules.is_multi && self.current().limits.len() > 1 && self.versions.len() > 1 {
            self.rules.is_roomy = false;
        }
    }

    fn shown(&self, key: usize) -> String {
        format!("{:?} under {:?}", self.states[key], self.current().limits)
    }

    /// Takes notice of the event. An error says why it cannot have been.
    pub(crate) fn apply(&mut self, event: &Event, judges_refusals: bool) -> Result<(), String> {
        match *event {
            Event::Decided { id, key, tier, cost, at, late, allowed, delay } => {
                self.decided(id, key, tier, cost, at, late, allowed, delay, judges_refusals)
            }
            Event::Offered { id, asked, at, delay } => self.offered(id, asked, at, delay),
            Event::JointlyRefused { ref asked, at } => self.jointly_refused(asked, at, judges_refusals),
            Event::Turn { id, key, tier, cost, at, max_wait, departs } => {
                self.turn(id, key, tier, cost, at, max_wait, departs, judges_refusals)
            }
            Event::Seen { key, tier, at, ref remaining } => self.seen(key, tier, at, remaining),
            Event::Back { id, units, back, at } => self.back(id, units, back, at),
            Event::InParts { id, at } => {
                self.is_in_parts(id, at);
                Ok(())
            }
            Event::Left { id, at } => {
                self.may_return(id, u64::MAX, at);
                Ok(())
            }
            Event::LeaseReturns { ref lease, cost, permit } => {
                self.lease_returns(lease, cost, permit);
                Ok(())
            }
            Event::LeaseDecides { ref lease, id, cost, after, permit, allowed } => {
                self.lease_decides(lease, id, cost, after, permit, allowed, judges_refusals)
            }
            Event::Debited { id, key, tier, units, cost, at } => {
                self.debited((id, key, tier), units, cost, at);
                Ok(())
            }
            Event::Credited { key, tier, only, units, given, at } => {
                self.credited((key, tier, only), units, given, at)
            }
            Event::Reset { key, tier, known } => self.reset(key, tier, known),
            Event::Changed { ref limits, ref inherits, at } => {
                let at = self.clamped(at);
                let (limits, inherits) = (limits.clone(), inherits.clone());
                let forgives = inherits.contains(&Inherit::Reset);
                self.forget_intervals();
                self.versions.push(Version { at, limits, inherits });
                if forgives {
                    self.ended.iter_mut().flatten().for_each(|ended| *ended += 1);
                }
                Ok(())
            }
            Event::MayStay { key, tier, cost, at } => {
                self.may_stay(key, tier, cost, at);
                Ok(())
            }
            Event::Passed { at } => {
                self.clamped(at);
                Ok(())
            }
            Event::Restored => {
                self.restored();
                Ok(())
            }
        }
    }
}
