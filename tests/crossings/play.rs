//! A program played by one thread: the engine answers, the judge and the model look for a
//! contradiction.

mod joint;
mod over;
mod verbs;

use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use tollgate::{Inherit, WhenFull};
use tollgate_testing::clocks::{Hooked, at_reading};
use tollgate_testing::limits::refuses_when_full;

use super::engine::{self, Engine, KEYS, Kept, Lent, Room, Sort, Told, Turn, Way};
use super::judge::{Event, Judge, Rules};
use super::limits::{Limit, SHORTEST};
use super::program::{Change, Cost, Go, Inner, Joint, Line, Program, Verb};
use super::specification::Specification;
use super::table::{Met, Table, Word};

/// A clock must run for ten years; the programs stay far below.
const LATEST: u64 = 31_557_600_000_000_000;

/// A check that began before a change goes on by the old quota for so many nanoseconds at the most.
const HORIZON: u64 = 1 << 30;

/// Each interruption doubles the worlds that are followed.
const INTERRUPTIONS: usize = 4;

/// What an admitted request took.
struct Receipt {
    id: usize,
    key: usize,
    kept: Kept,
}

/// A reservation that is kept.
struct Booked<'l> {
    id: usize,
    key: usize,
    turn: Box<dyn Turn<'l> + 'l>,
}

/// A turn that is waited for.
struct Waiting<'l> {
    id: usize,
    key: usize,
    departs: u64,
    future: Pin<Box<dyn Future<Output = ()> + 'l>>,
}

struct Leased<'l> {
    key: usize,
    tier: usize,
    ttl: u64,
    /// What it acquired last, and when.
    acquired: Option<usize>,
    at: u64,
    lease: Box<dyn Lent + 'l>,
}

/// One of the verbs that run in the middle of another.
type Step = Box<dyn FnOnce() -> (Event, Option<Receipt>)>;

/// The limiters of a program: each is restored from the one before.
type Arena = Vec<OnceCell<Arc<Engine>>>;

struct Player<'l> {
    program: &'l Program,
    arena: &'l Arena,
    /// Which engine of the arena is in use.
    number: usize,
    limits: Vec<Limit>,
    clock: Hooked,
    now: u64,
    /// The clock does not go back behind this.
    floor: u64,
    reached: u64,
    retry: u64,
    judge: Judge,
    model: Specification,
    receipts: Vec<Receipt>,
    booked: Vec<Booked<'l>>,
    waiting: Vec<Waiting<'l>>,
    leases: Vec<Leased<'l>>,
    next: usize,
    strangers: u64,
    /// What a check of any quota so far takes at most, in nanoseconds, until its key has a slot no
    /// more.
    longest: u64,
    interruptions: usize,
    met: Met,
}

/// Plays the program: which verbs met, or where it is contradicted.
pub(crate) fn play(program: &Program) -> Result<Table, String> {
    let restores = program.lines.iter().filter(|line| matches!(line.verb, Verb::Restore)).count();
    let arena: Arena = (0..=restores).map(|_| OnceCell::new()).collect();
    let clock = engine::clock();
    let (sort, limits) = (program.sort, program.limits.clone());
    let first = Engine::new(sort, program.room, &limits, &clock);
    let _ = arena[0].set(Arc::new(first));
    let rules = Rules {
        is_multi: sort.is_list(),
        has_beside: sort == Sort::Beside,
        is_apart: sort == Sort::Global,
        is_roomy: program.is_roomy(),
    };
    let mut player = Player {
        program,
        arena: &arena,
        number: 0,
        judge: Judge::new(rules, &limits),
        model: Specification::new(program),
        limits,
        clock,
        now: 0,
        floor: 0,
        reached: 0,
        retry: 0,
        receipts: Vec::new(),
        booked: Vec::new(),
        waiting: Vec::new(),
        leases: Vec::new(),
        next: 0,
        strangers: 0,
        longest: 0,
        interruptions: 0,
        met: Met::new(),
    };
    for (number, line) in program.lines.iter().enumerate() {
        player.line(line).map_err(|why| format!("line {}, at {}: {why}", number + 1, player.now))?;
    }
    Ok(player.met.table.clone())
}

impl<'l> Player<'l> {
    fn engine(&self) -> &'l Arc<Engine> {
        self.arena[self.number].get().expect("it was made before it was used")
    }

    fn id(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn tier(&self, line: &Line) -> usize {
        line.tier % self.tiers()
    }

    /// How many tiers there are, or one, and what is beside it.
    fn tiers(&self) -> usize {
        match self.program.sort {
            Sort::Keyed => self.limits.len(),
            Sort::Beside => 2,
            Sort::Global | Sort::Multi => 1,
        }
    }

    /// The limits that a request meets.
    fn met(&self, tier: usize) -> Range<usize> {
        let count = self.limits.len();
        match self.program.sort {
            Sort::Multi => 0..count,
            Sort::Beside if tier == 0 => 0..count - 1,
            Sort::Beside => count - 1..count,
            Sort::Keyed | Sort::Global => tier..tier + 1,
        }
    }

    /// The tightest of them.
    fn most(&self, tier: usize) -> u64 {
        self.limits[self.met(tier)].iter().map(|limit| limit.most).min().expect("there is one")
    }

    fn cost(&self, cost: Cost, key: usize, tier: usize) -> u64 {
        match cost {
            Cost::Units(units) => units,
            Cost::All(more) => self.most(tier) + more,
            Cost::Left => {
                let told = self.engine().peek(key, tier, 0, self.now);
                told.remaining.into_iter().min().map_or(1, |left| left.max(1))
            }
        }
    }

    fn go(&mut self, go: Go) {
        let eighths = |eighths: u64, nudge: i64| {
            (self.limits[0].nanos * eighths / 8).saturating_add_signed(nudge).min(LATEST)
        };
        let now = match go {
            Go::Stay => self.now,
            Go::Ahead(by, nudge) => self.now + eighths(by, nudge),
            Go::Retry(before) => self.now.max(self.retry.saturating_sub(before)),
            Go::Back(by, nudge) => self.now.saturating_sub(eighths(by, nudge)),
        };
        self.set(now.max(self.floor).min(LATEST));
    }

    fn set(&mut self, now: u64) {
        if now < self.now {
            self.met.all_meet(&[Word::Back]);
            self.model.clock_stepped_back();
        }
        self.now = now;
        self.reached = self.reached.max(now);
        engine::set(&self.clock, now);
    }

    fn hear(&mut self, event: Event) -> Result<(), String> {
        self.judge.hear(&event)
    }

    /// Whether a full table refuses new keys, and lends them nothing.
    fn refuses_when_full(&self) -> bool {
        match self.program.room {
            Room::Full(WhenFull::Deny) => true,
            Room::Full(WhenFull::Share) => self.limits.iter().all(|limit| refuses_when_full(&limit.quota())),
            _ => false,
        }
    }

    /// What every key has left, under every tier.
    fn sight(&self) -> Vec<Vec<Told>> {
        let of = |key| (0..self.tiers()).map(|tier| self.engine().peek(key, tier, 0, self.now)).collect();
        (0..KEYS).map(of).collect()
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        self.go(line.go);
        let resets = |inner: &Inner| matches!(inner, Inner::Reset(_) | Inner::Change(_));
        let is_reset = matches!(line.verb, Verb::Reset | Verb::Change(_) | Verb::Restore);
        // A word only ever grows: a reset forgives at the latest time that there was.
        if is_reset || line.within.as_ref().is_some_and(|(_, inner)| inner.iter().any(resets)) {
            self.set(self.reached);
        }
        let debts = |by: fn(&Limit) -> u64| self.limits.iter().map(by).max().unwrap_or(0);
        let (most, nanos) = (debts(|limit| limit.most), debts(|limit| limit.nanos));
        self.longest = self.longest.max(2 * (most + 1) * nanos);
        let before = self.sight();
        self.hear_sight(&before)?;
        let touches = self.verb(line, &before)?;
        let after = self.sight();
        for key in 0..KEYS {
            if !touches.contains(&key) && before[key] != after[key] && self.program.is_roomy() {
                return Err(format!(
                    "key {key} was changed by what is not its own: {:?}, then {:?}",
                    before[key], after[key]
                ));
            }
        }
        self.hear_sight(&after)
    }

    fn hear_sight(&mut self, sight: &[Vec<Told>]) -> Result<(), String> {
        for (key, tiers) in sight.iter().enumerate() {
            for (tier, told) in tiers.iter().enumerate() {
                let remaining = told.remaining.clone();
                self.hear(Event::Seen { key, tier, at: self.now, remaining })?;
            }
        }
        Ok(())
    }

    /// Does `work`, with others in the middle of it where the line says so. What they did is
    /// `events`.
    fn with_others<T>(&mut self, line: &Line, may_change: bool, work: impl FnOnce() -> T) -> (T, Vec<Event>) {
        let Some((reading, inner)) = &line.within else { return (work(), Vec::new()) };
        // Several limiters are changed one after the other: that is not one verb.
        let is_several = matches!(self.program.sort, Sort::Global | Sort::Beside);
        let is_apart = is_several && matches!(line.verb, Verb::Change(_));
        // Several limits are debited one after the other, too.
        let is_apart = is_apart || self.program.sort.is_list() && matches!(line.verb, Verb::Debit(_));
        // Of which verb a full bucket counted nothing would not be known.
        let is_apart = is_apart || self.program.room == Room::Full(WhenFull::Allow);
        if self.interruptions == INTERRUPTIONS || is_apart {
            return (work(), Vec::new());
        }
        let mut steps: Vec<Step> = Vec::new();
        let mut now = self.now;
        for (number, step) in inner.iter().enumerate() {
            let engine = self.engine().clone();
            match step {
                Inner::Check(key, cost) => {
                    let (id, key, cost) = (self.id(), *key, self.cost(*cost, *key, 0));
                    steps.push(Box::new(move || {
                        let (told, kept) = engine.check(key, 0, cost, Way::Plain);
                        let event = Event::Decided {
                            id,
                            key,
                            tier: 0,
                            cost,
                            at: now,
                            late: 0,
                            allowed: told.allowed,
                            delay: Some(told.delay),
                        };
                        (event, told.allowed.then_some(Receipt { id, key, kept }))
                    }));
                }
                Inner::Refund(pick) => {
                    let Some(Receipt { id, key, kept, .. }) = picked(&mut self.receipts, *pick) else {
                        continue;
                    };
                    steps.push(Box::new(move || {
                        let back = engine.refund(key, kept);
                        (Event::Back { id, units: u64::MAX, back, at: now }, None)
                    }));
                }
                Inner::UpTo(key, most) => {
                    let (id, key, most) = (self.id(), *key, self.cost(*most, *key, 0));
                    steps.push(Box::new(move || {
                        let (told, cost, kept) = engine.up_to(key, 0, most);
                        let (allowed, delay) = (told.allowed, Some(told.delay));
                        let at = now;
                        let event = Event::Decided { id, key, tier: 0, cost, at, late: 0, allowed, delay };
                        (event, told.allowed.then_some(Receipt { id, key, kept }))
                    }));
                }
                Inner::Debit(key, cost) => {
                    let (id, key, cost) = (self.id(), *key, self.cost(*cost, *key, 0));
                    steps.push(Box::new(move || {
                        let Some((_, units, kept)) = engine.debit(key, 0, cost) else {
                            return (Event::Passed { at: now }, None);
                        };
                        let event = Event::Debited { id, key, tier: 0, units, cost, at: now };
                        (event, Some(Receipt { id, key, kept }))
                    }));
                }
                Inner::Credit(key, units) => {
                    let (key, units) = (*key, self.cost(*units, *key, 0));
                    steps.push(Box::new(move || {
                        let given = engine.credit(key, 0, units);
                        (Event::Credited { key, tier: 0, only: None, units, given, at: now }, None)
                    }));
                }
                Inner::Reset(key) => {
                    let key = *key;
                    steps.push(Box::new(move || {
                        (Event::Reset { key, tier: 0, known: engine.reset(key, 0) }, None)
                    }));
                }
                Inner::Change(change) => {
                    // The engine makes one change after the other.
                    let is_ahead = |step: &Inner| matches!(step, Inner::Ahead(_));
                    let is_last = inner[number + 1..].iter().all(is_ahead);
                    let Some((limits, only, inherits)) =
                        self.changed(change).filter(|_| may_change && is_last)
                    else {
                        continue;
                    };
                    let inherit = change.inherit;
                    steps.push(Box::new(move || {
                        let event = match engine.change(&limits, only, inherit) {
                            Ok(()) => Event::Changed { limits, inherits, at: now },
                            Err(_) => Event::Passed { at: now },
                        };
                        (event, None)
                    }));
                }
                Inner::Ahead(eighths) => {
                    if self.program.sort.is_list() || !matches!(line.verb, Verb::Check(..)) {
                        continue;
                    }
                    now = (now + self.limits[0].nanos * eighths / 8).min(LATEST);
                    let (clock, at) = (self.clock.clone(), now);
                    steps.push(Box::new(move || {
                        engine::set(&clock, at);
                        (Event::Passed { at }, None)
                    }));
                }
            }
        }
        let results = Rc::new(RefCell::new(Vec::new()));
        let told = results.clone();
        // A joint charge has more readings than the other verbs.
        let later = if let Verb::Joint(Joint { pause, .. }) = &line.verb { *pause } else { 0 };
        let (done, has_run) = at_reading(
            reading + later,
            move || told.borrow_mut().extend(steps.into_iter().map(|step| step())),
            work,
        );
        let results = std::mem::take(&mut *results.borrow_mut());
        if has_run {
            self.interruptions += 1;
            self.set(now);
            self.model.lost();
            // No receipt is older than this.
            self.floor = self.floor.max(self.now);
        }
        let mut events = Vec::new();
        for (event, receipt) in results {
            if let Event::Changed { limits, .. } = &event {
                self.limits.clone_from(limits);
            }
            self.receipts.extend(receipt);
            events.push(event);
        }
        (done, events)
    }

    /// The judge hears of a verb, and of the verbs in the middle of it.
    fn heard(&mut self, outer: &[Event], inner: Vec<Event>) -> Result<(), String> {
        self.heard_in_one_way(&[outer.to_vec()], inner)
    }

    /// The same of a verb of which it is not known which of these it was.
    fn heard_in_one_way(&mut self, outers: &[Vec<Event>], inner: Vec<Event>) -> Result<(), String> {
        // A reset or a credit in the middle may come before the charge of one of several limits,
        // and after that of another. And beside a debit the charges of a refused request do not
        // come back.
        let is_overtaken = self.program.sort.is_list() && comes_between(&inner);
        let mut outers = outers.to_vec();
        let in_parts = |outer: &Vec<Event>| Some([&outer[..], &[outer.last()?.in_parts()?]].concat());
        if is_overtaken {
            let others: Vec<_> = outers.iter().filter_map(in_parts).collect();
            outers.extend(others);
        }
        match &outers[..] {
            [outer] if inner.is_empty() => outer.iter().try_for_each(|event| self.judge.hear(event)),
            outers => self.judge.hear_within(outers, &inner),
        }
    }

    /// A full bucket admitted a request and counted nothing. Of several limits some may have
    /// counted it, and how much comes back of that is not known.
    fn admitted_uncounted(&self, key: usize, kept: Kept) -> Result<(), String> {
        if self.program.sort == Sort::Keyed && self.engine().refund(key, kept) > 0 {
            return Err("what was not counted came back".into());
        }
        Ok(())
    }

    /// The limits after a change, which of them alone is changed, and what each inherits.
    fn changed(&self, change: &Change) -> Option<(Vec<Limit>, Option<usize>, Vec<Inherit>)> {
        let only = change.only.filter(|only| *only < self.limits.len() && self.program.sort != Sort::Global);
        // A keyed limiter changes its first tier alone, or all.
        let only = only.filter(|only| self.program.sort.is_list() || *only == 0);
        let (mut limits, mut inherits) = (self.limits.clone(), Vec::new());
        for (number, limit) in limits.iter_mut().enumerate() {
            if only.is_some_and(|only| only != number) {
                inherits.push(Inherit::Additive);
                continue;
            }
            inherits.push(change.inherit);
            let Some(&(most, nanos)) = change.numbers.get(number) else { continue };
            if limit.kind.converts() {
                limit.most = most;
                limit.nanos = if limit.kind.is_bucket() { nanos } else { SHORTEST.max(nanos * 4) };
            } else {
                limit.most = most.min(self.program.limits[number].most);
            }
        }
        Some((limits, only, inherits))
    }

    fn meets_check(&mut self, line: &Line, cost: u64, is_prepared: bool) {
        let mut words = vec![if cost > 1 { Word::Cost } else { Word::Check }];
        if is_prepared {
            words.push(Word::Prepare);
        }
        self.meets(line, &words);
    }

    fn meets(&mut self, line: &Line, words: &[Word]) {
        let mut words = words.to_vec();
        if self.program.sort == Sort::Keyed && self.tier(line) > 0 {
            words.push(Word::Tier);
        }
        self.meets_key(line.key, &words);
    }

    fn meets_key(&mut self, key: usize, words: &[Word]) {
        let mut words = words.to_vec();
        if self.program.sort.is_list() && self.met(0).len() > 1 {
            words.push(Word::Multi);
        }
        self.met.meets(key, &words);
    }
}

/// Whether one of these may come before the charge of one of several limits, and after that of
/// another, so that not all of a request that is refused in the end comes back.
fn comes_between(inner: &[Event]) -> bool {
    use Event::{Changed, Credited, Debited, Reset};
    let comes =
        |event: &Event| matches!(event, Reset { .. } | Changed { .. } | Credited { .. } | Debited { .. });
    inner.iter().any(comes)
}

/// Counted from the newest, which is what small numbers and so simple programs take.
fn picked<T>(of: &mut Vec<T>, pick: usize) -> Option<T> {
    let back = pick.checked_rem(of.len())?;
    Some(of.remove(of.len() - 1 - back))
}
