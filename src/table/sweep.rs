//! Giving memory back while everybody goes on: all that is still owed moves to the other half of the table's address
//! space, bucket by bucket, and the half that it leaves is returned to the operating system.
//!
//! ```text
//!  course:  in half 0 ----> from 0 to 1 ----> in half 1 ----> from 1 to 0 ----> in half 0 ...
//!  a bucket of the half that is left:   at rest ----> leaving ----> gone
//! ```
//!
//! A bucket is left as it is split (see `growth`): its header says so, so that insertions fail; each word parts; and each
//! key settles in the other half, in whatever slot it finds there. Whoever needs the bucket meanwhile helps. A key settles
//! once, since two insertions of one key cannot both commit, and a helper that comes too late finds its old slot marked. No new
//! key enters the other half before the bucket that it would have been in is gone: so each bucket there has room for
//! what comes. Before it is left, slots that have run out are vacated, by whoever leaves it: that is what makes the other half
//! smaller.
//!
//! *When the half that was left may be cleared.* Checks that find their key's slot do not say that they are under way: all
//! that they can do to a bucket that is gone is to fail, since its words have parted, and cleared words are no key's. All others
//! are *pinned*: they add one to a counter before they read the course. A half is cleared when each counter has been seen
//! at zero after the course had changed: who adds to it later sees the new course (edge W2).
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | W1 | `advance` | `halves` | that the other half is clear; that all buckets are gone |
//! | W2 | a pin's end, `is_clear_of` | `pin`, `is_clear_of` | what the pinned did; the new course |
//! | W3 | the header's `gone` | every header load | that the bucket's keys have settled: also those of which S8 told who says so |

use std::sync::{Mutex, TryLockError};

use crate::algorithm::{Moment, Rule};
use crate::sync::{AtomicU64, Ordering, TallyOrdering};
use crate::table::bucket::{Found, PLACES, View};
use crate::table::full::{Best, Rest};
use crate::table::header::Header;
use crate::table::name::{VACANT, is_key, kept};
use crate::table::slot::Slot;
use crate::table::word::Word;
use crate::table::{SHARDS, Table};
use Ordering::{AcqRel, Acquire, Release};

/// How often the counters of those under way are looked at before the clearing is left to the next call.
const LOOKS: usize = 1_000;

/// The way of the table from one half to the other.
#[derive(Debug)]
pub(super) struct Way {
    /// Twice the number of the half's turn, and 1 while keys move on to the next.
    course: AtomicU64,
    /// How many are under way in the long ways of the table.
    pins: [crossbeam_utils::CachePadded<AtomicU64>; SHARDS],
    /// How far the one who sweeps has got.
    broom: Mutex<Broom>,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug)]
enum Broom {
    /// To begin: the other half is clear.
    Idle,
    /// To leave the bucket of this number.
    At(usize),
    /// To clear this half.
    Clear(usize),
}

/// Somebody who is under way. Halves are not cleared meanwhile.
pub(super) struct Pin<'t>(Option<&'t AtomicU64>);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        if let Some(pins) = self.0 {
            pins.fetch_sub(1, Release); // W2
        }
    }
}

impl Way {
    pub(super) fn new() -> Self {
        Self {
            course: AtomicU64::new(0),
            pins: std::array::from_fn(|_| AtomicU64::new(0).into()),
            broom: Mutex::new(Broom::Idle),
        }
    }

    pub(super) fn halves(&self) -> (Option<usize>, usize) {
        let course = self.course.load(Acquire); // W1
        let half = |turn: u64| (turn & 1) as usize;
        let turn = course >> 1;
        if course & 1 == 0 { (None, half(turn)) } else { (Some(half(turn)), half(turn + 1)) }
    }

    pub(super) fn advance(&self) {
        self.course.fetch_add(1, Release); // W1
    }

    fn pins_of(&self, name: u64) -> &AtomicU64 {
        &self.pins[(name >> 2) as usize % SHARDS]
    }

    pub(super) fn pin(&self, name: u64) -> Pin<'_> {
        let pins = self.pins_of(name);
        pins.fetch_add(1, Acquire); // W2
        Pin(Some(pins))
    }

    /// Whether nobody is left who began before the course changed, and whose name is counted with this one. `false`:
    /// perhaps.
    pub(super) fn is_clear_of(&self, name: u64) -> bool {
        // Changed by nothing, so that whoever adds to it later has seen the course.
        self.pins_of(name).fetch_add(0, AcqRel) == 0 // W2
    }
}

impl Table {
    /// Says that somebody is about to read the course, and to act by it.
    pub(super) fn pin(&self, name: u64) -> Pin<'_> {
        if self.moves() { self.way.pin(name) } else { Pin(None) }
    }

    /// Whether there is another half.
    fn moves(&self) -> bool {
        self.span < self.buckets.len()
    }

    /// The half that keys are leaving, if they are, and the one in which they belong.
    pub(super) fn halves(&self) -> (Option<usize>, usize) {
        if self.moves() { self.way.halves() } else { (None, 0) }
    }

    /// A bucket of this half from which that of the key is found.
    pub(super) fn start(&self, half: usize, name: u64) -> View<'_> {
        let mask = self.mask.load(TallyOrdering::Relaxed) as usize;
        self.at(half * self.span + (name as usize & mask))
    }

    /// Goes on with giving memory back, by about `buckets` buckets: whether a round has ended. One thread at a time; others
    /// find nothing to do.
    pub(crate) fn sweep<R: Rule>(&self, rule: &R, mut buckets: usize, at: impl Fn() -> Moment) -> bool {
        // What a panic of a clock left is as good as any: every step can be taken again.
        let mut broom = match self.way.broom.try_lock() {
            Ok(broom) => broom,
            Err(TryLockError::Poisoned(broom)) => broom.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if !self.moves() {
            return true;
        }
        let begin = |half: usize| {
            // The hints first: with whatever values of them, keys are found.
            self.furthest[1 - half].store(0, TallyOrdering::Relaxed);
            self.way.advance();
            self.mask.store(self.roots as u64 - 1, TallyOrdering::Relaxed);
            self.base.store(((1 - half) * self.span) as u64, TallyOrdering::Relaxed);
        };
        loop {
            match (*broom, self.way.halves()) {
                (Broom::Idle, (_, half)) => {
                    begin(half);
                    *broom = Broom::At(half * self.span);
                }
                (Broom::At(number), (Some(half), _)) if self.reach(half).contains(&number) => {
                    if buckets == 0 {
                        return false;
                    }
                    buckets -= 1;
                    while self.at(number).is_open() && !self.at(number).bucket.header().is_gone() {
                        self.at(number).leave(rule, at(), 1 - half);
                    }
                    *broom = Broom::At(number + 1);
                }
                (Broom::At(_), (Some(half), _)) => {
                    self.way.advance();
                    *broom = Broom::Clear(half);
                }
                (Broom::Clear(half), _) => {
                    let is_clear_of = |name| (0..LOOKS).any(|_| self.way.is_clear_of(name));
                    let cleared = (0..SHARDS as u64).map(|shard| shard << 2).all(is_clear_of);
                    if cleared {
                        self.clear(half);
                        *broom = Broom::Idle;
                    }
                    return cleared;
                }
                (Broom::At(_), (None, _)) => {
                    unreachable!("keys move from the beginning of a round to its end")
                }
            }
        }
    }

    /// Ends the round that has begun, and goes through the whole table once.
    pub(crate) fn shrink<R: Rule>(&self, rule: &R, at: impl Fn() -> Moment) {
        let is_idle = || self.way.broom.try_lock().is_ok_and(|broom| matches!(*broom, Broom::Idle));
        if is_idle() || self.sweep(rule, usize::MAX, &at) {
            self.sweep(rule, usize::MAX, &at);
        }
    }

    /// Makes a half that nobody uses as if nobody ever had.
    fn clear(&self, half: usize) {
        #[cfg(not(loom))]
        if self.buckets.release(half * self.span..(half + 1) * self.span) {
            return;
        }
        self.reach(half).for_each(|number| self.buckets[number].clear());
    }

    /// Gives the key of this whole `name` a slot in the half `to`, with what its `parted` word in the slot `from` owes;
    /// unless it has one, or had.
    ///
    /// A key's new slot can be charged, and so run out and go to another, only after the old one has been marked: until
    /// then its word stays as an insertion leaves it, which only those can charge who have seen the whole bucket gone. So
    /// who finds the key nowhere, and then the old slot unmarked, knows that it has not been there before.
    pub(super) fn settle<R: Rule>(&self, rule: &R, to: usize, name: u64, from: &Slot, parted: Word) {
        // By an Acquire: who finds it marked goes on to say that all keys of the bucket have settled (W3).
        let is_unmarked = || from.load() == parted; // S8
        while is_unmarked() {
            let Some((view, header)) = self.start(to, name).belonging(name) else { return };
            let mut best = Best::default();
            match view.scan(kept(name), header, |slot| best.weigh(rule, slot)) {
                // Read anew: it may have been named by one who has not committed, and will not.
                Found::Mine(place, word) if view.bucket.slot(place).is_still(word) => {
                    from.settled(parted);
                    if word.is_frozen() {
                        view.bucket.slot(place).release(word);
                    }
                    return;
                }
                Found::Mine(..) | Found::Moved => continue,
                Found::Others => {}
            }
            let Some(Rest { place, word, .. }) = best.vacant() else {
                view.make_room(header, || true);
                continue;
            };
            if !is_unmarked() {
                return;
            }
            let Some(claim) = view.bucket.slot(place).claim(word, parted.payload()) else { continue };
            claim.rename(kept(name));
            if view.bucket.advance(header, header.committing(place, header.is_shared())) {
                from.settled(parted);
                return claim.publish();
            }
            claim.abandon(VACANT, |payload| payload + 1);
        }
    }
}

impl<'a> View<'a> {
    /// The bucket to which the key belongs, and its header with nothing on the move: for whoever is about to write, and is
    /// [pinned](Table::pin).
    pub(super) fn at_home<R: Rule>(self, rule: &R, name: u64, at: impl Fn() -> Moment) -> (Self, Header) {
        let (table, name) = (self.table, self.whole(name));
        loop {
            let (from, to) = table.halves();
            if let Some(half) = from {
                let (view, header) = table.start(half, name).holding(name);
                if !header.is_gone() {
                    view.leave(rule, at(), to);
                    continue;
                }
            }
            if let Some(home) = table.start(to, name).belonging(name) {
                return home;
            }
        }
    }

    /// The bucket where the key's slot is, if it has one, and its header. Writes nothing, unless keys are on the move.
    pub(super) fn in_sight<R: Rule>(self, rule: &R, name: u64, at: Moment) -> (Self, Header) {
        let (table, name) = (self.table, self.whole(name));
        loop {
            let (from, to) = table.halves();
            for half in from.into_iter().chain([to]) {
                let (view, header) = table.start(half, name).holding(name);
                if header.is_leaving() {
                    view.leave(rule, at, to);
                    break;
                }
                if !header.is_gone() {
                    return (view, header);
                }
            }
        }
    }

    /// Moves the bucket's keys to the half `to`, or helps; returns when that is done, or something else has changed.
    fn leave<R: Rule>(self, rule: &R, at: Moment, to: usize) {
        let mut leaving = self.bucket.header();
        if leaving.is_gone() {
            return;
        }
        if !leaving.is_leaving() {
            self.vacate(rule, at);
            // A bucket that is being split is split first.
            let (view, header) = self.holding(self.number() as u64);
            leaving = header.leaving();
            let is_at_rest = view.number() == self.number() && !header.is_leaving() && !header.is_gone();
            if !is_at_rest || !self.bucket.advance(header, leaving) {
                return;
            }
        }
        let is_over = || self.bucket.header() != leaving;
        if leaving.is_shared() {
            self.leave_shared(rule, leaving, self.bucket.shared(), to);
        }
        for place in 1..PLACES {
            let stays = |name| self.has_lost(name, leaving);
            let counts = |word| leaving.commits(place, word);
            let slot = self.bucket.slot(place);
            let parted = slot.part(|name| !stays(name), counts, is_over);
            if is_over() {
                return;
            }
            if let Some((name, word)) = parted {
                self.table.settle(rule, to, self.whole(name), slot, word);
            }
        }
        self.bucket.advance(leaving, leaving.gone()); // W3
    }

    /// Vacates the slots that have run out, but for words that do not count: see `View::straighten`.
    pub(super) fn vacate<R: Rule>(self, rule: &R, at: Moment) {
        for place in 1..PLACES {
            let slot = self.bucket.slot(place);
            let (word, name) = slot.read();
            if is_key(name)
                && !word.is_frozen()
                && self.bucket.header().commits(place, word)
                && rule.expired(word.payload(), at)
                && let Some(claim) = slot.claim(word, word.payload())
            {
                claim.abandon(VACANT, |payload| rule.bump(payload));
            }
        }
    }

    /// Lets the keys that belong here, and have no slot, owe together what they did in the half `to`.
    fn leave_shared<R: Rule>(self, rule: &R, header: Header, overflow: u64, to: usize) {
        let table = self.table;
        let first = table.within(self.number());
        let step = 1 << table.level_of(self.number(), header).unwrap_or(0);
        let mut within = first;
        // From the first on: buckets that are split meanwhile have it from where they split off.
        while within == first || table.reach(to).contains(&(to * table.span + within)) {
            let view = table.at(to * table.span + within);
            if within == first || view.is_open() {
                view.owe_more(rule, within as u64, overflow);
            }
            within += step;
        }
    }

    /// Raises what the keys without a slot owe, where the key of this name belongs; unless a later quota has charged it
    /// there already, beside whose word this one's cannot be put.
    fn owe_more<R: Rule>(self, rule: &R, name: u64, payload: u64) {
        while let Some((view, header)) = self.belonging(name) {
            if rule.is_later(view.bucket.shared()) || view.part_with(rule, header, payload).is_some() {
                return;
            }
        }
    }
}
