//! What may be true of every key after all that the engine has said: the judge of the programs.
//!
//! A [`World`] knows of each key and limit between which bounds its debt is. `lo` is the least that the answers allow:
//! nothing may be admitted that would not be at that debt, so no answer is ever more than the limit promises. `hi` is
//! the most: nothing may be refused that would be admitted at that debt. What a verb says narrows the bounds; what it
//! does not say (how much a lease has given back) widens them. When no debt is left between them, the engine has
//! contradicted itself or its promises.
//!
//! A verb that was interrupted by others may have come before or after them, so a [`Judge`] follows several worlds and
//! gives up those that are contradicted. With the last of them goes the program.

use std::collections::BTreeMap;

use tollgate::Inherit;

use super::engine::KEYS;
use super::limits::{Kind, Limit};

/// Something that happened, with what was said to it.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A request was decided. `id` names what it took.
    Decided {
        id: usize,
        key: usize,
        tier: usize,
        cost: u64,
        at: u64,
        allowed: bool,
        delay: u64,
    },
    /// A turn was asked for: when it departs; `None` if it was refused.
    Turn {
        id: usize,
        key: usize,
        tier: usize,
        cost: u64,
        at: u64,
        max_wait: u64,
        departs: Option<u64>,
    },
    /// A peek said what each limit has left.
    Seen {
        key: usize,
        tier: usize,
        at: u64,
        remaining: Vec<u64>,
    },
    /// Of `units` asked back, `back` came back.
    Back {
        id: usize,
        units: u64,
        back: u64,
        at: u64,
    },
    /// A turn was left: as `Back`, and it is not said how much.
    Left {
        id: usize,
        at: u64,
    },
    /// A lease that is asked for `cost` gives back what it holds, unless it can spend it.
    LeaseReturns {
        lease: Lease,
        cost: u64,
        permit: bool,
    },
    /// Then it decides the request, and holds `after`.
    LeaseDecides {
        lease: Lease,
        id: usize,
        cost: u64,
        after: u64,
        permit: bool,
        allowed: bool,
    },
    Reset {
        key: usize,
        known: bool,
    },
    Changed {
        limits: Vec<Limit>,
        inherits: Vec<Inherit>,
        at: u64,
    },
    /// The limiter was saved and restored: another one from here on.
    Restored,
}

/// A lease before a verb.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) key: usize,
    pub(crate) tier: usize,
    /// What it acquired last.
    pub(crate) acquired: Option<usize>,
    pub(crate) held: u64,
    /// Whether that is not older than its time to live.
    pub(crate) is_fresh: bool,
    pub(crate) at: u64,
}

/// What is fixed for a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rules {
    /// Whether each key has a state for each limit. Otherwise the limits are tiers of one state.
    pub(crate) is_multi: bool,
    /// Whether each key has a limiter of its own.
    pub(crate) is_apart: bool,
    /// Whether there is always room, so that a refusal needs a debt that the key has taken.
    pub(crate) is_roomy: bool,
}

/// What was taken by one request and may come back.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    key: usize,
    tier: usize,
    left: u64,
    /// When a turn departs: then nothing comes back any more.
    departs: Option<u64>,
    version: usize,
    resets: u64,
    ended: u64,
    restores: usize,
}

/// The debt of a key to a limit.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// When it is paid, at the earliest and at the latest. `version` is that of the last charge.
    Bucket { version: usize, lo: u64, hi: u64 },
    /// How much counts until `end`.
    Fixed { version: usize, end: u64, lo: u64, hi: u64 },
    /// What was admitted when, under which receipt: no bound above it is known.
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
    /// Resets of each key.
    resets: [u64; KEYS],
    /// Resets of each key's limiter, and changes that forgave.
    ended: [u64; KEYS],
    restores: usize,
    /// The version that was current when the limiter was restored last.
    restored: usize,
    /// The latest time that any verb has seen.
    reached: u64,
    /// When each key was last charged since its reset.
    charged: [Option<u64>; KEYS],
}

/// A debt is converted to the least or to the most that it can be.
#[derive(Clone, Copy, PartialEq)]
enum Round {
    Down,
    Up,
}

impl Round {
    fn div(self, amount: u128, by: u128) -> u128 {
        if self == Self::Down { amount / by } else { amount.div_ceil(by) }
    }
}

/// `debt` is in `unit`-ths of a unit of the old limit; so is what is returned.
fn inherited(debt: u128, unit: u128, inherit: Inherit, old: u64, new: u64, round: Round) -> u128 {
    let (old, new) = (u128::from(old), u128::from(new));
    match inherit {
        Inherit::AsIs => (debt + new * unit).saturating_sub(old * unit),
        Inherit::Proportional => round.div(debt * new, old),
        Inherit::Additive => {
            let booked = debt.saturating_sub(old * unit);
            (debt - booked).min(new * unit) + booked
        }
        Inherit::Reset => 0,
    }
}

/// When the latest of these was admitted that was not given back.
fn latest(acts: &[(usize, u64, u64)]) -> u64 {
    acts.iter().filter(|act| act.2 > 0).map(|act| act.1).max().unwrap_or(0)
}

fn unseen(kind: Kind) -> State {
    match kind {
        Kind::Bucket | Kind::Meter | Kind::Queue => State::Bucket { version: 0, lo: 0, hi: 0 },
        Kind::Fixed => State::Fixed { version: 0, end: 0, lo: 0, hi: 0 },
        Kind::Sliding | Kind::SubWindows | Kind::Log => State::Acts(Vec::new()),
    }
}

/// What a request finds at a limit.
struct Found {
    /// Whether it can be admitted, and whether it must be.
    fits: bool,
    must_fit: bool,
    /// How long it waits for its turn: at least and at most.
    wait: (u64, u64),
    next: State,
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
            resets: [0; KEYS],
            ended: [0; KEYS],
            restores: 0,
            restored: 0,
            reached: 0,
            charged: [None; KEYS],
        }
    }

    fn current(&self) -> &Version {
        self.versions.last().expect("there is a first version")
    }

    /// The limits that a key meets under a tier: of each the state's number and the rule's.
    fn met(&self, tier: usize) -> Vec<(usize, usize)> {
        let slots = if self.rules.is_multi { self.current().limits.len() } else { 1 };
        (0..slots).map(|slot| (slot, if self.rules.is_multi { slot } else { tier })).collect()
    }

    fn limit(&self, rule: usize) -> Limit {
        self.current().limits[rule]
    }

    /// The state as the current version of the rule reads it.
    fn read(&self, key: usize, slot: usize, rule: usize) -> State {
        // A saved fixed window does not tell of keys that were in no debt at a change, from which they have less than
        // the new limit.
        let is_unseen =
            matches!(self.states[key][slot], State::Fixed { version, .. } if version < self.restored);
        let mut state = self.converted(self.states[key][slot].clone(), rule);
        match &mut state {
            // A key is never better than one that was never seen, under no tier.
            State::Bucket { hi, .. } => {
                if let State::Bucket { hi: unseen, .. } = self.converted(unseen(self.limit(rule).kind), rule)
                {
                    *hi = (*hi).max(unseen);
                }
            }
            _ => {}
        }
        // A key whose debt was paid once may have been forgotten, also by a clock that has stepped back since.
        match &mut state {
            State::Bucket { lo, .. } if *lo <= self.reached => *lo = 0,
            State::Fixed { end, lo, .. } if *end <= self.reached || is_unseen => *lo = 0,
            _ => {}
        }
        state
    }

    /// The state as it was, converted by every change since.
    fn converted(&self, mut state: State, rule: usize) -> State {
        let first = match &state {
            State::Bucket { version, .. } | State::Fixed { version, .. } => *version,
            State::Acts(_) => return state,
        };
        for (old, new) in self.versions.iter().zip(&self.versions[1..]).skip(first) {
            let (at, inherit) = (new.at, new.inherits[rule]);
            let (was, is) = (old.limits[rule], new.limits[rule]);
            state = match state {
                State::Bucket { version, lo, hi } => {
                    let convert = |tat: u64, round: Round| {
                        let unit = u128::from(was.nanos);
                        let debt =
                            inherited(tat.saturating_sub(at).into(), unit, inherit, was.most, is.most, round);
                        at + round.div(debt * u128::from(is.nanos), unit) as u64
                    };
                    State::Bucket {
                        version: version + 1,
                        lo: convert(lo, Round::Down),
                        hi: convert(hi, Round::Up),
                    }
                }
                State::Fixed { version, end, lo, hi } => {
                    let convert = |count: u64, round: Round| {
                        let count = if at < end { count } else { 0 };
                        inherited(count.into(), 1, inherit, was.most, is.most, round) as u64
                    };
                    State::Fixed {
                        version: version + 1,
                        end: is.end_of_window(at),
                        lo: convert(lo, Round::Down),
                        hi: convert(hi, Round::Up),
                    }
                }
                acts => acts,
            };
        }
        state
    }

    /// What counts of these at `at`, at the least.
    fn counted(acts: &[(usize, u64, u64)], limit: Limit, at: u64, reached: u64) -> u64 {
        let latest = latest(acts).max(at);
        let is_kept = |time: u64| match limit.kind {
            Kind::Sliding => limit.end_of_window(time) + limit.nanos > reached,
            _ => time + limit.nanos > reached,
        };
        let sum = |from: &dyn Fn(u64) -> bool| -> u64 {
            acts.iter().filter(|act| is_kept(act.1) && from(act.1)).map(|act| act.2).sum()
        };
        match limit.kind {
            Kind::Sliding => {
                let end = limit.end_of_window(latest);
                let now = sum(&|time| time + limit.nanos >= end);
                let last = sum(&|time| time + limit.nanos < end && time + 2 * limit.nanos >= end);
                now + (u128::from(last) * u128::from(end - latest)).div_ceil(limit.nanos.into()) as u64
            }
            _ => sum(&|time| time + limit.nanos > latest),
        }
    }

    /// What a request finds. `max_wait` of a turn.
    fn find(&self, key: usize, slot: usize, rule: usize, at: u64, cost: u64, max_wait: Option<u64>) -> Found {
        let limit = self.limit(rule);
        match self.read(key, slot, rule) {
            State::Bucket { version, lo, hi } => {
                let (price, most) = (cost * limit.nanos, limit.most * limit.nanos);
                let (base_lo, base_hi) = (lo.max(at), hi.max(at));
                let (lo, hi) = (base_lo + price, base_hi + price);
                let room = |tat: u64| tat <= at + most;
                let queue = limit.kind == Kind::Queue;
                let wait = match max_wait {
                    _ if queue => (base_lo - at, base_hi - at),
                    Some(_) => (lo.saturating_sub(most + at), hi.saturating_sub(most + at)),
                    None => (0, 0),
                };
                let patient = |tat: u64, wait: u64| match max_wait {
                    None => room(tat),
                    Some(max_wait) => wait <= max_wait && (!queue || room(tat)),
                };
                let (fits, must_fit) = (patient(lo, wait.0), patient(hi, wait.1));
                let hi = if max_wait.is_none() || queue { hi.min(at + most) } else { hi };
                Found { fits, must_fit, wait, next: State::Bucket { version, lo, hi } }
            }
            State::Fixed { version, end, lo, hi } => {
                let (end, lo, hi) = if at < end { (end, lo, hi) } else { (limit.end_of_window(at), 0, 0) };
                let (fits, must_fit) = (lo + cost <= limit.most, hi + cost <= limit.most);
                let next = State::Fixed { version, end, lo: lo + cost, hi: (hi + cost).min(limit.most) };
                Found { fits, must_fit, wait: (0, 0), next }
            }
            State::Acts(acts) => {
                let fits = Self::counted(&acts, limit, at, self.reached) + cost <= limit.most;
                Found { fits, must_fit: false, wait: (0, 0), next: State::Acts(acts) }
            }
        }
    }

    /// The time as the engine takes it: none before the last change.
    fn clamped(&mut self, at: u64) -> u64 {
        self.reached = self.reached.max(at);
        at.max(self.current().at)
    }

    fn commit(&mut self, id: usize, key: usize, tier: usize, at: u64, cost: u64, next: Vec<State>) {
        for ((slot, _), mut next) in self.met(tier).into_iter().zip(next) {
            if let State::Acts(acts) = &mut next {
                acts.push((id, at.max(latest(acts)), cost));
            }
            self.states[key][slot] = next;
        }
        self.charged[key] = self.charged[key].max(Some(at));
        let (version, resets) = (self.versions.len() - 1, self.resets[key]);
        let (ended, restores) = (self.ended[key], self.restores);
        self.taken
            .insert(id, Taken { key, tier, left: cost, departs: None, version, resets, ended, restores });
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
        let found: Vec<Found> =
            met.iter().map(|(slot, rule)| self.find(key, *slot, *rule, at, cost, None)).collect();
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
        let at = self.clamped(at);
        let met = self.met(tier);
        let limits: Vec<Limit> = met.iter().map(|(_, rule)| self.limit(*rule)).collect();
        // Several limits have no turns when one of them is a queue.
        let has_turns =
            |limit: &Limit| limit.kind.is_bucket() && (limits.len() == 1 || limit.kind != Kind::Queue);
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
            self.charged[key] = self.charged[key].max(Some(at + wait));
        }
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.departs = Some(departs);
        }
        Ok(())
    }

    /// Whether what was taken can still come back.
    fn is_good(&self, taken: &Taken) -> bool {
        let charged_since = |(slot, _): (usize, usize)| match self.states[taken.key][slot] {
            State::Bucket { version, .. } | State::Fixed { version, .. } => version > taken.version,
            State::Acts(_) => false,
        };
        taken.restores == self.restores
            && taken.resets == self.resets[taken.key]
            // One limit that is charged anew is enough for nothing to come back of it; others may.
            && !(self.met(taken.tier).into_iter().all(charged_since))
    }

    /// Lowers the debt by at most `most` units and by at least `least`.
    fn lower(&mut self, id: usize, taken: Taken, least: u64, most: u64, at: u64) {
        // At a time before the key's last charge a bucket may get back as much again.
        let most_of_time = if Some(at) < self.charged[taken.key] { most + taken.left } else { most };
        let versions = self.versions.clone();
        for (slot, rule) in self.met(taken.tier) {
            match &mut self.states[taken.key][slot] {
                State::Bucket { version, lo, hi } => {
                    let price = versions[*version].limits[rule].nanos;
                    *lo = lo.saturating_sub(most_of_time * price);
                    if least > 0 {
                        // More than one unit less, since a begun one counts as a whole.
                        *hi = hi.saturating_sub((least - 1) * price).max(*lo);
                    }
                }
                State::Fixed { lo, hi, .. } => {
                    *lo = lo.saturating_sub(most);
                    *hi = hi.saturating_sub(least);
                }
                State::Acts(acts) => {
                    if let Some(act) = acts.iter_mut().find(|act| act.0 == id) {
                        act.2 = act.2.saturating_sub(most);
                    }
                }
            }
        }
    }

    fn back(&mut self, id: usize, units: u64, back: u64, at: u64) -> Result<(), String> {
        let at = self.clamped(at);
        let Some(taken) = self.taken.get(&id).copied() else {
            return if back == 0 { Ok(()) } else { Err(format!("{back} units of nothing came back")) };
        };
        let units = units.min(taken.left);
        let too_late = taken.departs.is_some_and(|departs| at >= departs);
        if back > units || back > 0 && (too_late || !self.is_good(&taken)) {
            return Err(format!(
                "{back} of {units} units came back at {at} of {taken:?}: {}",
                self.shown(taken.key)
            ));
        }
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.left -= units;
        }
        if back > 0 {
            // Of several limits the one that gave the least is told.
            let most = if self.rules.is_multi { units } else { back };
            let least = if self.is_multi_version(taken) { 0 } else { back };
            self.lower(id, taken, least, most, at);
        } else if self.rules.is_multi && self.is_good(&taken) {
            self.lower(id, taken, 0, units, at);
        }
        Ok(())
    }

    /// Whether some limit may have given back nothing because it was charged since.
    fn is_multi_version(&self, taken: Taken) -> bool {
        self.rules.is_multi && taken.version + 1 < self.versions.len()
    }

    /// What `taken` holds may have come back, all or in part.
    fn may_return(&mut self, id: usize, units: u64, at: u64) {
        let at = self.clamped(at);
        let Some(taken) = self.taken.get(&id).copied() else { return };
        let too_late = taken.departs.is_some_and(|departs| at >= departs);
        if self.is_good(&taken) && !too_late {
            self.lower(id, taken, 0, units.min(taken.left), at);
        }
        self.taken.remove(&id);
    }

    /// Whether permits of the lease may be spent.
    fn may_spend(&self, lease: &Lease) -> bool {
        let taken = lease.acquired.and_then(|id| self.taken.get(&id));
        lease.is_fresh
            && taken
                .is_some_and(|taken| taken.restores == self.restores && taken.ended == self.ended[lease.key])
    }

    fn lease_returns(&mut self, lease: &Lease, cost: u64, permit: bool) {
        let spends = self.may_spend(lease) && (cost <= lease.held || permit);
        if let Some(id) = lease.acquired.filter(|_| !spends) {
            self.may_return(id, lease.held, lease.at);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "they are an event's")]
    fn lease_decides(
        &mut self,
        lease: &Lease,
        id: usize,
        cost: u64,
        after: u64,
        permit: bool,
        allowed: bool,
        judges_refusals: bool,
    ) -> Result<(), String> {
        let (key, tier, at) = (lease.key, lease.tier, lease.at);
        let good = self.may_spend(lease);
        if good && cost <= lease.held {
            if !permit || after + cost != lease.held {
                return Err(format!("a lease held {} and, asked for {cost}, then {after}", lease.held));
            }
            if let Some(taken) = lease.acquired.and_then(|id| self.taken.get_mut(&id)) {
                taken.left = after;
            }
            return Ok(());
        }
        let charged = match (permit, good) {
            // All that was held is spent on the request.
            (true, true) => after + cost - lease.held,
            (true, false) => after + cost,
            (false, _) => cost,
        };
        self.decided(id, key, tier, charged, at, allowed, None, judges_refusals)?;
        if permit && let Some(taken) = self.taken.get_mut(&id) {
            taken.left = after;
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

    /// Takes notice of what is left.
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

    fn reset(&mut self, key: usize, known: bool) -> Result<(), String> {
        for (slot, rule) in self.met(0) {
            let owes = match self.read(key, slot, rule) {
                State::Bucket { lo, .. } => lo > self.reached,
                State::Fixed { lo, end, .. } => lo > 0 && end > self.reached,
                State::Acts(_) => false,
            };
            let is_judged = self.rules.is_roomy && self.charged[key].is_some() && self.versions.len() == 1;
            if owes && !known && is_judged {
                return Err(format!("nothing was known of key {key}: {}", self.shown(key)));
            }
            if known {
                self.states[key][slot] = unseen(self.limit(rule).kind);
            }
        }
        if known {
            self.charged[key] = None;
            self.forgave(key);
        }
        Ok(())
    }

    /// Nothing comes back any more of what the key has taken, and no permit of its limiter is spent.
    fn forgave(&mut self, key: usize) {
        self.resets[key] += 1;
        if self.rules.is_apart {
            self.ended[key] += 1;
        } else {
            self.ended.iter_mut().for_each(|ended| *ended += 1);
        }
    }

    fn restored(&mut self) {
        self.restores += 1;
        self.restored = self.versions.len() - 1;
        // Of what was not charged since a change the file has the largest debt of all tiers, also of keys never seen.
        if !self.rules.is_multi && self.current().limits.len() > 1 && self.versions.len() > 1 {
            self.rules.is_roomy = false;
        }
    }

    fn shown(&self, key: usize) -> String {
        format!("{:?} under {:?}", self.states[key], self.current().limits)
    }

    fn apply(&mut self, event: &Event, judges_refusals: bool) -> Result<(), String> {
        match *event {
            Event::Decided { id, key, tier, cost, at, allowed, delay } => {
                self.decided(id, key, tier, cost, at, allowed, Some(delay), judges_refusals)
            }
            Event::Turn { id, key, tier, cost, at, max_wait, departs } => {
                self.turn(id, key, tier, cost, at, max_wait, departs, judges_refusals)
            }
            Event::Seen { key, tier, at, ref remaining } => self.seen(key, tier, at, remaining),
            Event::Back { id, units, back, at } => self.back(id, units, back, at),
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
            Event::Reset { key, known } => self.reset(key, known),
            Event::Changed { ref limits, ref inherits, at } => {
                let at = self.clamped(at);
                let (limits, inherits) = (limits.clone(), inherits.clone());
                let forgives = inherits.contains(&Inherit::Reset);
                self.versions.push(Version { at, limits, inherits });
                if forgives {
                    (0..KEYS).for_each(|key| self.ended[key] += 1);
                }
                Ok(())
            }
            Event::Restored => {
                self.restored();
                Ok(())
            }
        }
    }
}

/// The worlds that nothing has contradicted yet.
pub(crate) struct Judge {
    worlds: Vec<World>,
}

impl Judge {
    pub(crate) fn new(rules: Rules, limits: &[Limit]) -> Self {
        Self { worlds: vec![World::new(rules, limits)] }
    }

    /// This happened.
    pub(crate) fn hear(&mut self, event: &Event) -> Result<(), String> {
        self.keep(|mut world| vec![world.apply(event, true).map(|()| world)])
    }

    /// `inner` happened while `outer` did: the events of both in any order that keeps that of each.
    pub(crate) fn hear_within(&mut self, outer: &[Event], inner: &[Event]) -> Result<(), String> {
        let orders = orders(outer, inner);
        self.keep(|world| {
            let play = |events: &Vec<&Event>| {
                let mut world = world.clone();
                // Under a verb that is not done yet, room may be taken that it gives up in the end.
                events.iter().try_for_each(|event| world.apply(event, false)).map(|()| world)
            };
            orders.iter().map(play).collect()
        })
    }

    fn keep(&mut self, becomes: impl Fn(World) -> Vec<Result<World, String>>) -> Result<(), String> {
        let (mut kept, mut why): (Vec<World>, String) = (Vec::new(), String::new());
        for world in self.worlds.drain(..) {
            for next in becomes(world) {
                match next {
                    // Two ways to the same are one.
                    Ok(world) => {
                        if !kept.contains(&world) {
                            kept.push(world);
                        }
                    }
                    Err(contradiction) => why = contradiction,
                }
            }
        }
        self.worlds = kept;
        if self.worlds.is_empty() { Err(why) } else { Ok(()) }
    }
}

/// Every order of both that keeps that of each.
fn orders<'e>(outer: &'e [Event], inner: &'e [Event]) -> Vec<Vec<&'e Event>> {
    let with = |first: &'e Event, rest: Vec<Vec<&'e Event>>| -> Vec<Vec<&'e Event>> {
        rest.into_iter().map(|rest| [first].into_iter().chain(rest).collect()).collect()
    };
    match (outer, inner) {
        ([], all) | (all, []) => vec![all.iter().collect()],
        ([first, outers @ ..], [other, inners @ ..]) => {
            [with(first, orders(outers, inner)), with(other, orders(outer, inners))].concat()
        }
    }
}
