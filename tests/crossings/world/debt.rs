//! A key's debt, and what a request finds.

use tollgate::Inherit;
use tollgate_testing::limits::Kind;

use super::{State, World};
use crate::limits::{Limit, TEN_YEARS};

/// Where the longest words end: no debt is paid later than so many nanoseconds after a change.
const LONGEST: u64 = 1 << 62;

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

/// The debt after a change, in `unit`-ths of a unit, as `debt` is.
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
        other => unreachable!("{other:?}"),
    }
}

/// When the latest of these was admitted that was not given back.
pub(super) fn latest(acts: &[(usize, u64, u64)]) -> u64 {
    acts.iter().filter(|act| act.2 > 0).map(|act| act.1).max().unwrap_or(0)
}

pub(super) fn unseen(kind: Kind) -> State {
    match kind {
        Kind::Bucket | Kind::Meter | Kind::Queue => State::Bucket { version: 0, lo: 0, hi: 0 },
        Kind::Fixed => State::Fixed { version: 0, end: 0, lo: 0, hi: 0 },
        _ => State::Acts(Vec::new()),
    }
}

/// What a request finds at a limit.
pub(super) struct Found {
    /// Whether it can be admitted, and whether it must be.
    pub(super) fits: bool,
    pub(super) must_fit: bool,
    /// How long it waits for its turn: at least and at most.
    pub(super) wait: (u64, u64),
    pub(super) next: State,
}

impl Found {
    /// At this time, or at any until this later one.
    pub(super) fn or_later(mut self, later: Self) -> Self {
        match (&mut self.next, later.next) {
            (State::Bucket { hi, .. }, State::Bucket { hi: most, .. }) => *hi = most,
            (next, later) if !self.fits => *next = later,
            _ => {}
        }
        let wait = (self.wait.0.min(later.wait.0), self.wait.1.max(later.wait.1));
        let (fits, must_fit) = (self.fits || later.fits, self.must_fit && later.must_fit);
        Self { fits, must_fit, wait, ..self }
    }
}

impl World {
    /// The state as the current version of the rule reads it.
    pub(super) fn read(&self, key: usize, slot: usize, rule: usize) -> State {
        let mut state = self.converted(self.states[key][slot].clone(), rule);
        // A key is never better than one that was never seen, under no tier.
        let unseen = self.converted(unseen(self.limit(rule).kind), rule);
        if let (State::Bucket { hi, .. }, State::Bucket { hi: unseen, .. }) = (&mut state, unseen) {
            *hi = (*hi).max(unseen);
        }
        // A key whose debt was paid once may have been forgotten, also by a clock that has stepped
        // back since.
        match &mut state {
            State::Bucket { lo, .. } if *lo <= self.reached => *lo = 0,
            State::Fixed { end, lo, .. } if *end <= self.reached => *lo = 0,
            _ => {}
        }
        state
    }

    /// The state as it was, converted by every change since.
    pub(super) fn converted(&self, mut state: State, rule: usize) -> State {
        let first = match &state {
            State::Bucket { version, .. } | State::Fixed { version, .. } => *version,
            State::Acts(_) => return state,
        };
        for (old, new) in self.versions.iter().zip(&self.versions[1..]).skip(first) {
            let (at, inherit) = (new.at, new.inherits[rule]);
            let (was, is) = (old.limits[rule], new.limits[rule]);
            state = match state {
                State::Bucket { version, lo, hi } => {
                    // A word has room for a debt of at least the rest of the ten years.
                    let room = |round| {
                        if round == Round::Down { TEN_YEARS.saturating_sub(at) } else { LONGEST }
                    };
                    let convert = |tat: u64, round: Round| {
                        let unit = u128::from(was.nanos);
                        let debt =
                            inherited(tat.saturating_sub(at).into(), unit, inherit, was.most, is.most, round);
                        let debt = round.div(debt * u128::from(is.nanos), unit);
                        at + debt.min(room(round).into()) as u64
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
    pub(super) fn counted(acts: &[(usize, u64, u64)], limit: Limit, at: u64, reached: u64) -> u64 {
        let latest = latest(acts).max(at);
        if limit.kind.refills_by_steps() {
            // By every start: admissions since, less units that may have come back.
            let back = |start: u64| (latest.max(reached) - start) / limit.nanos + 1;
            let since = |start: u64| acts.iter().filter(|act| act.1 >= start).map(|act| act.2).sum::<u64>();
            let debts = acts.iter().map(|act| since(act.1).saturating_sub(back(act.1)));
            return debts.max().unwrap_or(0);
        }
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
            // Twice the limit can pass around the end of a window.
            Kind::FirstHitWindow => sum(&|time| time + limit.nanos > latest).saturating_sub(limit.most),
            _ => sum(&|time| time + limit.nanos > latest),
        }
    }

    /// What a request finds. `max_wait` of a turn.
    pub(super) fn find(
        &self,
        key: usize,
        slot: usize,
        rule: usize,
        at: u64,
        cost: u64,
        max_wait: Option<u64>,
    ) -> Found {
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
                // How long a turn waits is not known.
                Found { fits, must_fit: false, wait: (0, max_wait.unwrap_or(0)), next: State::Acts(acts) }
            }
        }
    }
}
