//! Programs of all verbs on threads that share a few keys, while time stands still.
//!
//! Nothing refills, so what a key was admitted and did not give back is never more than its burst.
//! A reset begins anew: then the bound holds for requests after the reset has returned that are
//! answered before the next begins. A change here leaves the burst as it is, so it must leave every
//! bound as it is.
//!
//! Every verb is stamped before and after, so that it is known which came first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use tollgate::{Inherit, Outcome, WhenFull};
use tollgate_testing::clocks::yield_at;
use tollgate_testing::limits::Kind;
use tollgate_testing::random::Random;

use super::engine::joint::{Offered, Part};
use super::engine::{self, Engine, KEYS, Kept, Room, Sort, Way};
use super::limits::Limit;
use super::table::Word;

/// Verbs of each thread in each round.
const VERBS: usize = 120;

/// Algorithms of the rounds.
const PLANNED: [Kind; 6] =
    [Kind::Bucket, Kind::Meter, Kind::Fixed, Kind::Log, Kind::Intervals, Kind::FirstHitWindow];

/// How much larger than the first limit is the one beside the list.
const BESIDE: u64 = 1;

/// Keys that the threads share: the fewer, the more they meet.
const SHARED: u64 = 2;

/// When a verb began and when it had returned.
#[derive(Clone, Copy, Debug)]
struct Span {
    begun: u64,
    ended: u64,
}

/// Units that were admitted, and may act now.
#[derive(Clone, Copy, Debug)]
struct Act {
    /// The name by which a later return refers to these units.
    id: u64,
    key: usize,
    units: u64,
    span: Span,
}

/// Units that came back.
#[derive(Clone, Copy, Debug)]
struct Back {
    id: u64,
    units: u64,
    span: Span,
}

/// What a thread has done.
#[derive(Default)]
struct Log {
    acts: Vec<Act>,
    backs: Vec<Back>,
    /// What keys were given, at the most.
    credits: Vec<(usize, u64, Span)>,
    /// Units that were charged over the limit.
    debited: [bool; KEYS],
    /// Units of turns that come later.
    booked: [bool; KEYS],
    leased: [bool; KEYS],
    /// Units that joint charges took, and that came back.
    undone: [bool; KEYS],
    /// Units that joint charges took of the limit beside the list.
    beside: [u64; KEYS],
    resets: Vec<(usize, Span)>,
    words: Vec<Word>,
}

/// A receipt on its way to whichever thread gives it back.
struct Given {
    id: u64,
    key: usize,
    kept: Kept,
}

/// What the threads of a round share.
struct Round<'r> {
    engine: &'r Engine,
    limits: &'r [Limit],
    plan: Plan,
    receipts: &'r Mutex<Vec<Given>>,
    stamps: &'r AtomicU64,
    most: u64,
}

/// What a round is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) sort: Sort,
    pub(crate) room: Room,
    pub(crate) kind: Kind,
    pub(crate) threads: u64,
    pub(crate) resets: bool,
    pub(crate) changes: bool,
    pub(crate) leases: bool,
    pub(crate) debits: bool,
    pub(crate) credits: bool,
    pub(crate) seed: u64,
}

impl Plan {
    pub(crate) fn number(number: u64) -> Self {
        let mut random = Random::with_seed(number);
        let sort = [Sort::Keyed, Sort::Global, Sort::Multi, Sort::Beside][random.usize(..4)];
        let rooms = [Room::Enough, Room::Growing, Room::Full(WhenFull::Share), Room::Full(WhenFull::Deny)];
        let room = if sort == Sort::Global { Room::Enough } else { rooms[random.usize(..4)] };
        let kind = PLANNED[random.usize(..PLANNED.len())];
        let mut one_of = |of: u64| random.u64(..of) == 0;
        let (resets, changes, leases) = (one_of(2), one_of(3), one_of(2));
        let (debits, credits, threads) = (one_of(3), one_of(2), 2 + number % 3);
        Self { sort, room, kind, threads, resets, changes, leases, debits, credits, seed: number }
    }
}

/// Plays a round: the verbs that it ran, or why it is wrong.
pub(crate) fn round(plan: Plan) -> Result<Vec<Word>, String> {
    let mut random = Random::with_seed(plan.seed ^ 0xABCD);
    let most = 3 + random.u64(..12);
    let limit = Limit { kind: plan.kind, most, nanos: 1_000_000_000 };
    let bucket = Limit { kind: Kind::Bucket, most: most + 2, nanos: 1_000 };
    let limits = match plan.sort {
        // Tiers of one quota, so that all of them have one bound.
        Sort::Keyed if plan.kind.is_bucket() => vec![limit; 2],
        Sort::Multi => vec![limit, bucket],
        // What is beside the list is asked for in joint charges only.
        Sort::Beside => vec![limit, bucket, Limit { most: most + BESIDE, ..limit }],
        _ => vec![limit],
    };
    let clock = engine::clock();
    let engine = Engine::new(plan.sort, plan.room, &limits, &clock);
    let (receipts, stamps) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let round = Round { engine: &engine, limits: &limits, plan, receipts: &receipts, stamps: &stamps, most };
    let logs: Vec<Log> = thread::scope(|scope| {
        let spawned: Vec<_> = (0..plan.threads)
            .map(|number| {
                scope.spawn({
                    let round = &round;
                    move || round.work(number)
                })
            })
            .collect();
        spawned.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    for key in 0..SHARED as usize {
        round.judge(key, &logs).map_err(|why| format!("{plan:?}, {limits:?}: key {key}: {why}"))?;
    }
    Ok(logs.into_iter().flat_map(|log| log.words).collect())
}

impl Round<'_> {
    fn span<T>(&self, verb: impl FnOnce() -> T) -> (T, Span) {
        let begun = self.stamps.fetch_add(1, SeqCst);
        let done = verb();
        (done, Span { begun, ended: self.stamps.fetch_add(1, SeqCst) })
    }

    fn work(&self, number: u64) -> Log {
        let mut random = Random::with_seed(self.plan.seed.wrapping_mul(31) + number);
        yield_at(random.u64(..) & random.u64(..));
        let (mut log, mut turns, mut leases) = (Log::default(), Vec::new(), Vec::new());
        let (engine, tiers) =
            (self.engine, if self.plan.sort == Sort::Keyed { self.limits.len() as u64 } else { 1 });
        for _ in 0..VERBS {
            let (key, tier) = (random.u64(..SHARED) as usize, random.u64(..tiers) as usize);
            let cost = random.u64(1..=self.most.min(4));
            match random.u64(..26) {
                0..=5 => {
                    let way = [Way::Plain, Way::At, Way::Prepared][random.usize(..3)];
                    let ((told, kept), span) = self.span(|| engine.check(key, tier, cost, way));
                    log.words.push(if cost == 1 { Word::Check } else { Word::Cost });
                    if way == Way::Prepared {
                        log.words.push(Word::Prepare);
                    }
                    if tier > 0 {
                        log.words.push(Word::Tier);
                    }
                    self.took(&mut log, key, cost, told.allowed, kept, span);
                }
                6 => {
                    let keys = [key, random.u64(..SHARED) as usize, key];
                    let (answers, span) = self.span(|| engine.batch(&keys));
                    for (key, (told, kept)) in keys.into_iter().zip(answers.into_iter().flatten()) {
                        log.words.push(Word::Batch);
                        self.took(&mut log, key, 1, told.allowed, kept, span);
                    }
                }
                7 => {
                    let told = engine.peek(key, tier, cost, 0);
                    assert!(told.remaining.iter().all(|left| *left <= self.most + 2), "{told:?}");
                    log.words.push(Word::Peek);
                }
                8..=11 => {
                    let given = self.receipts.lock().expect("no thread panics").pop();
                    let Some(Given { id, key, mut kept }) = given else { continue };
                    let is_part = random.bool();
                    let asked = if is_part { cost } else { u64::MAX };
                    log.words.push(if is_part { Word::Part } else { Word::Refund });
                    let (back, span) = self.span(|| engine.refund_part(key, &mut kept, asked));
                    // The answer of several limits is the least that any limit gave back. The units
                    // asked back did not act.
                    let units = if let Kept::Many(_) = kept { asked } else { back };
                    log.backs.push(Back { id, units, span });
                    if is_part {
                        self.receipts.lock().expect("no thread panics").insert(0, Given { id, key, kept });
                    }
                }
                12 if self.plan.kind.has_turns() => {
                    let max_wait = random.u64(..3) * 1_000_000_000;
                    let (turn, span) = self.span(|| engine.reserve(key, tier, cost, max_wait));
                    let Ok(turn) = turn else { continue };
                    log.words.push(Word::Reserve);
                    if turn.departs() == 0 {
                        log.acts.push(Act { id: span.begun, key, units: cost, span });
                    } else {
                        log.booked[key] = true;
                        turns.push(turn);
                    }
                }
                13 => {
                    // Those turns come later, and do not act now.
                    if let Some(turn) = turns.pop() {
                        log.words.push(Word::Cancel);
                        let _ = turn.cancel();
                    }
                }
                14..=16 if self.plan.leases => {
                    if leases.is_empty() || random.u64(..6) == 0 {
                        let permits = random.u64(1..=self.most);
                        leases.push((key, engine.lease(key, tier, permits, 1_000)));
                        log.leased[key] = true;
                    }
                    let number = random.usize(..leases.len());
                    let (key, lease) = &mut leases[number];
                    let (decision, span) = self.span(|| lease.check(1));
                    log.words.push(Word::Lease);
                    let allowed = decision.as_ref().is_none_or(|(told, _)| told.allowed);
                    if allowed {
                        log.acts.push(Act { id: span.begun, key: *key, units: 1, span });
                    }
                    if random.u64(..4) == 0 {
                        drop(leases.swap_remove(number));
                    }
                }
                17 if self.plan.resets && random.u64(..4) == 0 => {
                    let (_, span) = self.span(|| engine.reset(key, 0));
                    log.words.push(Word::Reset);
                    log.resets.push((key, span));
                }
                18 if self.plan.changes && self.plan.kind != Kind::Log && random.u64(..3) == 0 => {
                    let inherit =
                        [Inherit::AsIs, Inherit::Additive, Inherit::Proportional][random.usize(..3)];
                    let (mut limits, nanos) = (self.limits.to_vec(), random.u64(1..=1_000_000));
                    for limit in limits.iter_mut().filter(|limit| limit.kind.is_bucket()) {
                        limit.nanos = nanos;
                    }
                    log.words.push(Word::Change);
                    engine.change(&limits, None, inherit).expect("it can be changed so");
                }
                19 if !matches!(self.plan.room, Room::Enough) => {
                    let first = random.u64(..1 << 40);
                    let _ = engine.strangers(first, 10, self.most);
                    log.words.push(if self.plan.room == Room::Growing { Word::Growth } else { Word::Full });
                }
                20 => {
                    let ((told, units, kept), span) = self.span(|| engine.up_to(key, tier, cost));
                    log.words.push(Word::UpTo);
                    self.took(&mut log, key, units, told.allowed, kept, span);
                }
                21 if self.plan.debits && random.u64(..4) == 0 => {
                    let (debited, span) = self.span(|| engine.debit(key, tier, cost));
                    let Some((_, _, kept)) = debited else { continue };
                    log.words.push(Word::Debit);
                    log.debited[key] = true;
                    // What comes back of it was no act.
                    let id = span.begun * 8 + (1 << 49);
                    self.receipts.lock().expect("no thread panics").push(Given { id, key, kept });
                }
                22 if self.plan.credits => {
                    let (given, span) = self.span(|| engine.credit(key, tier, cost));
                    log.words.push(Word::Credit);
                    let most = if self.plan.sort.is_list() { cost } else { given };
                    log.credits.push((key, most, span));
                }
                23..=25 => self.joint(&mut log, key, &mut random),
                _ => {}
            }
        }
        if self.plan.sort.is_list() {
            log.words.push(Word::Multi);
        }
        yield_at(0);
        log
    }

    /// Some of the limits are charged jointly, in any order, or the caller refuses.
    fn joint(&self, log: &mut Log, key: usize, random: &mut Random) {
        let tiers = match self.plan.sort {
            Sort::Keyed => self.limits.len(),
            Sort::Beside => 2,
            Sort::Global | Sort::Multi => 1,
        };
        let mut part = |key: usize| {
            let key = if random.bool() { key } else { random.usize(..SHARED as usize) };
            Part { key, tier: random.usize(..tiers), cost: random.u64(1..=self.most.min(4)) }
        };
        let parts = [part(key), part(key), part(key)];
        let parts = &parts[..random.usize(1..=3)];
        let refuses = (random.u64(..3) == 0).then(|| random.usize(..4));
        let way = [Way::Plain, Way::At][random.usize(..2)];
        let (done, span) = self.span(|| self.engine.joint(parts, refuses, way));
        log.words.push(Word::Joint);
        if refuses.is_some_and(|after| done.asked.contains(&after)) {
            log.words.push(Word::Caller);
            assert_eq!(done.outcome, Outcome::Denied);
        }
        let has_charged = done.charges() > 0;
        for Offered { part: Part { key, tier, cost }, number, outcome, kept, .. } in done.offers {
            assert_eq!(outcome, done.outcome, "all or nothing");
            log.undone[key] |= outcome != Outcome::Allowed && has_charged;
            if outcome != Outcome::Allowed {
                assert_eq!(kept.left(), 0, "what is refused is not charged");
            } else if tier == 1 && self.plan.sort == Sort::Beside {
                log.beside[key] += cost;
            } else if number == 0 {
                self.took(log, key, cost, true, kept, span);
            } else {
                // The acts are judged by the first limit.
                let id = span.begun * 8 + (1 << 50);
                self.receipts.lock().expect("no thread panics").push(Given { id, key, kept });
            }
        }
    }

    /// A check was answered.
    fn took(&self, log: &mut Log, key: usize, units: u64, allowed: bool, kept: Kept, span: Span) {
        if allowed {
            // Those of a batch share a span: the list's length tells them apart.
            let id = span.begun * 8 + log.acts.len() as u64 % 8 + (1 << 48);
            log.acts.push(Act { id, key, units, span });
            self.receipts.lock().expect("no thread panics").push(Given { id, key, kept });
        }
    }

    fn judge(&self, key: usize, logs: &[Log]) -> Result<(), String> {
        let acts: Vec<Act> =
            logs.iter().flat_map(|log| &log.acts).copied().filter(|act| act.key == key).collect();
        let back_of = |act: &Act, before: u64| -> u64 {
            let backs = logs.iter().flat_map(|log| &log.backs);
            let of_act = backs.filter(|back| back.id == act.id && back.span.begun < before);
            of_act.fold(0, |sum, back| sum.saturating_add(back.units))
        };
        for act in &acts {
            let back = back_of(act, u64::MAX);
            if back > act.units && !self.plan.sort.is_list() {
                return Err(format!("{back} units came back of {act:?}"));
            }
        }
        let mut resets: Vec<Span> = logs
            .iter()
            .flat_map(|log| &log.resets)
            .filter(|(of, _)| *of == key)
            .map(|(_, span)| *span)
            .collect();
        resets.sort_by_key(|reset| reset.begun);
        let first = Span { begun: 0, ended: 0 };
        for Span { begun, ended: begin } in std::iter::once(first).chain(resets.iter().copied()) {
            let next = resets.iter().filter(|reset| reset.ended > begin).map(|reset| reset.begun).min();
            let end = next.unwrap_or(u64::MAX);
            let within = acts.iter().filter(|act| act.span.begun >= begin && act.span.ended <= end);
            let spent: u64 = within.map(|act| act.units.saturating_sub(back_of(act, end))).sum();
            let most = self.most + given(logs, key, begun, end);
            if spent > most {
                return Err(format!("{spent} units were spent between {begin} and {end}, of {most}"));
            }
        }
        self.judge_rest(
            key,
            logs,
            acts.iter().map(|act| act.units.saturating_sub(back_of(act, u64::MAX))).sum(),
        )
    }

    /// A key has no more left in the end than it has not spent, and exactly that where only checks
    /// took.
    fn judge_rest(&self, key: usize, logs: &[Log], spent: u64) -> Result<(), String> {
        self.judge_beside(key, logs)?;
        if !matches!(self.plan.room, Room::Enough | Room::Growing)
            || logs.iter().any(|log| !log.resets.is_empty())
        {
            return Ok(());
        }
        let left = self.engine.peek(key, 0, 0, 0).remaining[0];
        let most = self.most + given(logs, key, 0, u64::MAX);
        // A credit of what is undone then is none, and what comes back at the time of others may be
        // less.
        let gives = logs.iter().flat_map(|log| &log.credits).any(|credit| credit.0 == key);
        let may_stay = gives || self.engine.short().iter().any(|short| *short > 0);
        let may_stay = may_stay && logs.iter().any(|log| log.undone[key]);
        let is_exact = !may_stay
            && !self.plan.sort.is_list()
            && !logs.iter().any(|log| log.booked[key] || log.leased[key] || log.debited[key])
            && !self.plan.changes;
        let may_be_more = self.plan.sort.is_list();
        if left > most - spent && !may_be_more
            || is_exact && left != most - spent && self.plan.kind != Kind::Log
        {
            return Err(format!("{left} are left of {most} when {spent} were spent"));
        }
        Ok(())
    }

    /// Only joint charges take of what is beside the list: what they did not take is left, and what
    /// they were charged and then refused is there again.
    fn judge_beside(&self, key: usize, logs: &[Log]) -> Result<(), String> {
        if self.plan.sort != Sort::Beside {
            return Ok(());
        }
        let (spent, most): (u64, _) = (logs.iter().map(|log| log.beside[key]).sum(), self.most + BESIDE);
        let left = self.engine.peek(key, 1, 0, 0).remaining[0];
        let is_roomy = matches!(self.plan.room, Room::Enough | Room::Growing);
        let is_whole = self.engine.short().last() == Some(&0);
        let is_exact = is_roomy && is_whole && !self.plan.changes && self.plan.kind != Kind::Log;
        if spent > most || left > most - spent || is_exact && left != most - spent {
            return Err(format!("of what is beside, {left} are left of {most} when {spent} were spent"));
        }
        Ok(())
    }
}

/// What the key was given by credits that may have run after `begun` and before `end`.
fn given(logs: &[Log], key: usize, begun: u64, end: u64) -> u64 {
    let credits = logs.iter().flat_map(|log| &log.credits);
    let within = |(of, _, span): &&(usize, u64, Span)| *of == key && span.ended > begun && span.begun < end;
    credits.filter(within).map(|credit| credit.1).sum()
}
