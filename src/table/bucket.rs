//! A bucket: fifteen slots on four cache lines, and the one header through which its membership changes.
//!
//! ```text
//!  line 0 | header   | overflow | name word | name word | name word |
//!  line 1 | name word | name word | name word | name word |
//!  line 2 | ...
//!  line 3 | ...
//! ```
//!
//! A key's probe sequence is its bucket's slots: its home slot, the rest of that line, the other lines. Most hits touch
//! one line. An insertion is four steps and three read-modify-writes: *claim* a slot at rest, *name* it, *commit* by a
//! compare-exchange of the header from the one that the scan began with, *publish*. Two insertions of one key cannot
//! both commit, since the second's header has changed; a failed commit means that another succeeded or that somebody
//! makes do in a full bucket, which is tried a few times only: so inserters cannot abort each other forever. The clock of
//! an insertion is read after its scan, so that it cannot miss a charge that was made, and ran out, while it scanned.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | B1 | the header's commit | every header load | the committed slot's name and word |
//! | B2 | `change_shared` | `shared` | the version of the quota that charged the overflow word: who is refused on its account asks the later one |
//!
//! What an insertion owes for the overflow word needs no edge of its own. Two compare-exchanges of the header do not both
//! succeed from one value: either the insertion has seen the header that a charge of the overflow word left, and so the
//! charge (B1), or the one that commits second fails.
//!
//! A key that is handed out of the bucket with a debt leaves that debt in the overflow word, too, before it goes: so
//! the overflow word owes at least as much as any key that is not in the bucket, whatever is refunded in it later.

use crate::algorithm::{Moment, Rule, Verdict};
use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering};
use crate::table::full::{Best, Place, Rest};
use crate::table::header::Header;
use crate::table::name::{OWED, VACANT, is_moved};
use crate::table::slot::{Ask, Ruling, Slot};
use crate::table::stats::Events;
use crate::table::word::Word;
use crate::table::{Table, prefetch};
use crate::time::Timestamp;
use Ordering::{Acquire, Relaxed, Release};

/// Places a line of the cache.
const WIDTH: usize = if cfg!(loom) { 3 } else { 4 };

/// Places a bucket: its slots and, in place 0, its header. Under loom, which explores all interleavings, two slots.
pub(crate) const PLACES: usize = if cfg!(loom) { 3 } else { 16 };

/// Slots a bucket.
pub(crate) const SLOTS: usize = PLACES - 1;

/// Fifteen slots and their header. All zero is an empty bucket.
#[repr(C, align(256))]
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Place 0 is nobody's slot: its name is the bucket's header, its word the overflow word.
    places: [Slot; PLACES],
}

/// How often a slot is tried to be had with its debt, and then the overflow word to be charged, before the request is
/// refused. Both move the header ahead of what they are after, so those who try abort each other.
const TRIES: usize = 3;

/// A bucket of a table.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) table: &'a Table,
}

/// What a scan of the bucket found.
pub(super) enum Found {
    /// The key's slot, and the word by which it is the key's.
    Mine(usize, Word),
    /// Not the key.
    Others,
    /// The bucket changed under the scan.
    Moved,
}

/// A key's home: the place where it is looked for first. Its line is its home line.
#[inline]
pub(super) fn home(name: u64) -> usize {
    1 + (((name >> 32) * SLOTS as u64) >> 32) as usize
}

/// The probe sequence of a key: its home, the rest of that line, the other lines.
pub(super) fn probes(name: u64) -> impl Iterator<Item = usize> {
    let home = home(name);
    (0..PLACES.next_power_of_two()).map(move |step| home ^ step).filter(|&place| place != 0 && place < PLACES)
}

impl Bucket {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { places: std::array::from_fn(|_| Slot::untouched()) }
    }

    /// The slot at a place.
    #[inline]
    pub(super) fn slot(&self, place: usize) -> &Slot {
        &self.places[place % PLACES]
    }

    /// The place of a key that is not at home, at a glance. Which one it is cannot be predicted, so nothing branches
    /// on it.
    pub(super) fn displaced(&self, name: u64) -> Option<usize> {
        let home = home(name);
        (0..PLACES.next_power_of_two() / WIDTH).find_map(|step| {
            let line = ((home / WIDTH) ^ step) * WIDTH;
            let hit = |nth: usize| u32::from(self.slot(line + nth).has_name(name)) << nth;
            // Place 0 is the header.
            let hits = (0..WIDTH).fold(0, |hits, nth| hits | hit(nth)) & !u32::from(line == 0);
            (hits != 0).then(|| line + hits.trailing_zeros() as usize)
        })
    }

    /// The overflow word: the payload of what the keys without a slot owe together.
    pub(super) fn overflow(&self) -> &AtomicU64 {
        self.places[0].overflow()
    }

    /// What the overflow word says.
    pub(super) fn shared(&self) -> u64 {
        self.overflow().load(Acquire) // B2
    }

    /// Changes the overflow word. `false` when it is no longer `from`.
    pub(super) fn change_shared(&self, from: u64, to: u64) -> bool {
        self.overflow().compare_exchange(from, to, Release, Relaxed).is_ok() // B2
    }

    pub(super) fn header(&self) -> Header {
        Header::from_bits(self.places[0].header().load(Acquire)) // B1, B4, B5
    }

    pub(super) fn advance(&self, from: Header, to: Header) -> bool {
        self.places[0].header().compare_exchange(from.bits(), to.bits(), Release, Relaxed).is_ok() // B1, B4, B5
    }
}

impl<'a> View<'a> {
    /// Asks for the line that `check` looks at first. It is found by the name's home alone, so nothing is read here.
    #[inline]
    pub(crate) fn prefetch(self, name: u64) {
        prefetch(self.bucket.slot(home(name)));
    }

    /// Asks for all lines of the bucket.
    #[inline(always)]
    pub(crate) fn prefetch_all(self) {
        (0..PLACES).step_by(WIDTH).for_each(|line| prefetch(self.bucket.slot(line)));
    }

    /// Decides a request and charges it, and says at what time by `clock`, which an insertion reads once more.
    ///
    /// Three keys in four are at home, and the processor learns to go ahead as if all were: it then knows the slot's
    /// address before its line has come, and can begin with the checks that follow. (An address that depends on what
    /// the line holds costs a third more on keys that are not in the cache.) What bounds the checks in flight is the
    /// processor's registers, not their latency: a value less on this path is half a nanosecond. A prefetch takes none, so
    /// all lines are named at once: the others are on their way before it is known that the key is not at home.
    #[inline(always)]
    pub(crate) fn check<R: Rule>(
        self,
        ask: Ask<'_, R>,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let home = home(ask.name);
        self.prefetch_all();
        let now = clock();
        let (word, name) = self.bucket.slot(home).read();
        if name == ask.name
            && !word.is_frozen()
            && let Some(at) = ask.rule.quick_moment(now)
            && let Some(ruling) = self.bucket.slot(home).charge_quickly(word, ask, self.ring::<R>(home), at)
        {
            return (ruling, now);
        }
        self.check_displaced(ask.rule, ask.name, ask.cost, now, clock)
    }

    /// The same without a look at the key's home first, and never inlined: for requests that are in no hurry.
    pub(crate) fn check_anywhere<R: Rule>(
        self,
        ask: Ask<'_, R>,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let now = clock();
        self.enter(ask.rule, ask.name, ask.cost, now, clock)
    }

    /// Looks for the key in the other places.
    // The arguments one by one: a struct of them would be written to the stack on every hit.
    #[inline(never)]
    fn check_displaced<R: Rule>(
        self,
        rule: &R,
        name: u64,
        cost: u64,
        now: Timestamp,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let ask = Ask { rule, name, cost };
        if let Some(place) = self.bucket.displaced(name)
            && let (word, owner) = self.bucket.slot(place).read()
            && owner == name
            && !word.is_frozen()
            && let Some(at) = rule.quick_moment(now)
        {
            // At home it was found before, and lost to somebody else.
            let mut retries = u64::from(place == home(name));
            let (slot, ring) = (self.bucket.slot(place), self.ring::<R>(place));
            if let Some(ruling) = slot.charge_displaced(word, ask, ring, at, &mut retries) {
                self.table.events(name).retried(retries);
                return (ruling, now);
            }
        }
        self.enter(rule, name, cost, now, clock)
    }

    /// Finds the key again with the header in hand, or inserts it.
    #[cold]
    #[inline(never)]
    pub(super) fn enter<R: Rule>(
        self,
        rule: &R,
        name: u64,
        cost: u64,
        mut now: Timestamp,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let ask = Ask { rule, name, cost };
        let events = self.table.events(name);
        let (mut handovers, mut shares) = (0, 0);
        let mut view = self;
        loop {
            // A charge of it is only good if neither it nor the header has moved since.
            let overflow = view.bucket.shared();
            let Some((home, header)) = view.belonging_now(name) else {
                if let Some(refusal) = view.refused(ask, now) {
                    return (refusal, now);
                }
                view.belonging(name);
                continue;
            };
            if home.number() != view.number() {
                view = home;
                continue;
            }
            let mut best = Best::default();
            match view.scan(name, header, |slot| best.weigh(rule, slot)) {
                Found::Mine(index, word) => {
                    let (slot, ring) = (view.bucket.slot(index), view.ring::<R>(index));
                    let mut retries = 0;
                    let ruling = slot.charge(word, ask, ring, rule.moment(now), &mut retries);
                    events.retried(retries);
                    match ruling {
                        Some(ruling) => return (ruling, now),
                        None => continue,
                    }
                }
                Found::Others => {}
                Found::Moved => continue,
            }
            let before = std::mem::replace(&mut now, clock());
            if now < before {
                events.clock_stepped_back();
            }
            // The other keys' debts are judged by this version of the quota, so at no time after its end.
            let judged = rule.before_its_end(now);
            let at = rule.moment(judged);
            let place = best.place(self.table.when_full, ask, at);
            if !matches!(place, Place::Vacant(..)) && view.make_room(header, || view.is_crowded(rule, at)) {
                continue;
            }
            let ruling = match place {
                Place::Vacant(index, word) => {
                    let inserted = || events.inserted(best.recycles());
                    view.insert(ask, header, (index, word, VACANT), at, inserted)
                }
                // By an older quota than the shared word is of, no debt can be left in it.
                Place::Evict(..) if rule.is_later(overflow) => {
                    Some(Ruling { allowed: false, payload: overflow, ring: Ring::NONE })
                }
                Place::Evict(index, word) if handovers < TRIES => {
                    handovers += 1;
                    view.insert(ask, header, (index, word, OWED), at, || events.evicted_with_debt())
                }
                Place::Evict(..) | Place::Shared if shares < TRIES => {
                    shares += 1;
                    view.share(ask, header, overflow, at).inspect(|_| events.shared())
                }
                Place::Evict(..) | Place::Shared => {
                    Some(refused_full(shared_debt(rule, overflow, at), events))
                }
                Place::Refuse(payload, index) => {
                    let ring = view.ring::<R>(index);
                    Some(Ruling { ring, ..refused_full(payload, events) })
                }
                Place::AdmitUncounted(payload) => {
                    events.admitted_uncounted();
                    Some(Ruling { allowed: true, payload, ring: Ring::NONE.with_unstaged(cost) })
                }
            };
            if let Some(ruling) = ruling {
                // A refusal by a version that has ended is no answer: at this time the caller finds that it has.
                return (
                    ruling,
                    if ruling.allowed || judged == now { now } else { Timestamp::from_nanos(u64::MAX) },
                );
            }
        }
    }

    /// Looks for the key in all slots, and shows those at rest that are not the key's to `other`.
    #[inline]
    pub(super) fn scan(self, name: u64, header: Header, other: impl FnMut(Rest)) -> Found {
        let straightened = |place, word| {
            self.straighten(place, word, header);
            false
        };
        self.scan_by(name, header, straightened, other)
    }

    /// The same where `counts_anyway` says whether a word at rest that does not count is its key's all the same.
    #[inline]
    pub(super) fn scan_by(
        self,
        name: u64,
        header: Header,
        counts_anyway: impl Fn(usize, Word) -> bool,
        mut other: impl FnMut(Rest),
    ) -> Found {
        for place in probes(name) {
            let slot = self.bucket.slot(place);
            let (word, owner) = slot.read();
            let is_at_rest = !word.is_frozen() && (!is_moved(owner) || self.has_lost(owner, header));
            if is_at_rest && !header.commits(place, word) && !counts_anyway(place, word) {
                return Found::Moved;
            } else if owner != name {
                if is_at_rest {
                    other(Rest { place, word, name: owner });
                }
            } else if is_at_rest {
                return Found::Mine(place, word);
            } else if self.bucket.header().commits(place, word) {
                // Committed and not yet published: charged in place, unless the name read was the slot's last one.
                return if slot.name() == name { Found::Mine(place, word) } else { Found::Moved };
            }
            // Otherwise somebody is inserting the same key and has not committed: compete.
        }
        Found::Others
    }

    /// Makes a word at rest count that does not, by the header that was read before it. Either the bucket has changed since,
    /// and there is nothing to be done; or somebody was about to [part](Slot::part) the word of the slot's last owner, stalled
    /// until the slot was another's, and parted that one's, which was the same. Its key does not mind. But a claim of
    /// it would look committed at once, and a word that is held would look claimed.
    #[cold]
    fn straighten(self, place: usize, word: Word, header: Header) {
        if self.bucket.header() == header {
            self.bucket.slot(place).turn(word);
        }
    }

    /// Inserts the key into slot `index`, on top of what its `word` owes unless it is `VACANT`. `None` when the bucket
    /// changed.
    fn insert<R: Rule>(
        self,
        ask: Ask<'_, R>,
        header: Header,
        (index, word, left): (usize, Word, u64),
        at: Moment,
        inserted: impl FnOnce(),
    ) -> Option<Ruling<'a>> {
        let ring = self.ring::<R>(index);
        let (slot, rule) = (self.bucket.slot(index), ask.rule);
        let base = self.owed(rule, word, left, at);
        let mut owed = base;
        let mut shared = false;
        if header.is_shared() {
            // The key may have been charged to the overflow word. Whoever charges it from here on moves the header, so that
            // this insertion cannot commit.
            let overflow = rule.current(self.bucket.shared());
            shared = !rule.expired(overflow, at);
            if shared {
                owed = owed.max(overflow);
            }
        }
        let (allowed, payload) = match rule.decide(owed, ring, at, ask.cost) {
            Verdict::Allow(payload) => (true, payload),
            Verdict::DenyAndCount(payload) => (false, payload),
            // A refusal stands only while the slot does: its next owner may have written the ring that was just read.
            Verdict::Deny if !slot.is_still(word) => return None,
            Verdict::Deny => {
                if left == OWED {
                    self.table.events(ask.name).refused_full();
                }
                return Some(Ruling { allowed: false, payload: owed, ring });
            }
        };
        if !rule.stage(base, ring, at, ask.cost, || slot.is_still(word)) {
            return None;
        }
        let header = if left == OWED { self.part_with(rule, header, base)? } else { header };
        let shared = shared || left == OWED;
        let claim = slot.claim(word, payload)?;
        claim.rename(ask.name);
        if !self.bucket.advance(header, header.committing(index, shared)) {
            claim.abandon(left, |payload| rule.bump(payload));
            return None;
        }
        claim.publish();
        inserted();
        Some(Ruling { allowed, payload, ring })
    }

    /// Sees to it that a key which leaves the bucket owing `payload` finds that much owed when it comes back, wherever
    /// it then enters. `None` when the bucket changed.
    fn part_with<R: Rule>(self, rule: &R, header: Header, payload: u64) -> Option<Header> {
        let (owed, parting) = (self.bucket.shared(), header.sharing());
        // A later quota's word would not show what is added under this one.
        let parts = !rule.is_later(owed)
            && self.bucket.change_shared(owed, rule.current(owed).max(payload))
            && self.bucket.advance(header, parting);
        parts.then_some(parting)
    }

    /// What a new key starts from in a slot with this `word`.
    pub(super) fn owed<R: Rule>(self, rule: &R, word: Word, left: u64, at: Moment) -> u64 {
        if left == VACANT { rule.forgive(word.payload(), at) } else { rule.current(word.payload()) }
    }

    /// Charges the bucket's overflow word. `None` when the bucket changed.
    fn share<R: Rule>(
        self,
        ask: Ask<'_, R>,
        header: Header,
        overflow: u64,
        at: Moment,
    ) -> Option<Ruling<'a>> {
        let Some(payload) = shared_allowance(ask, overflow, at) else {
            return Some(Ruling {
                allowed: false,
                payload: shared_debt(ask.rule, overflow, at),
                ring: Ring::NONE,
            });
        };
        // The header last: an insertion that has not seen this charge cannot commit any more, and if one has, the header
        // is not the one that was read.
        let shares =
            self.bucket.change_shared(overflow, payload) && self.bucket.advance(header, header.sharing());
        shares.then_some(Ruling { allowed: true, payload, ring: Ring::NONE })
    }

    #[inline]
    pub(super) fn ring<R: Rule>(self, index: usize) -> Ring<'a> {
        if R::RINGED { self.table.ring(self.bucket, index - 1) } else { Ring::NONE }
    }
}

fn refused_full<'a>(payload: u64, events: &Events) -> Ruling<'a> {
    events.refused_full();
    Ruling { allowed: false, payload, ring: Ring::NONE }
}

/// What new keys of the bucket owe together: at least the half that a key may have owed when its slot was handed over.
/// So the overflow word owes as much as any key that is not in the bucket.
pub(super) fn shared_debt<R: Rule>(rule: &R, overflow: u64, at: Moment) -> u64 {
    rule.current(overflow).max(rule.half(at).unwrap_or(0))
}

/// What the overflow word becomes when it admits the request.
fn shared_allowance<R: Rule>(ask: Ask<'_, R>, overflow: u64, at: Moment) -> Option<u64> {
    match ask.rule.decide(shared_debt(ask.rule, overflow, at), Ring::NONE, at, ask.cost) {
        Verdict::Allow(payload) => Some(payload),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::algorithm::{Algorithm, TokenBucket};
    use crate::rate::Rate;
    use crate::table::name::kept;
    use crate::table::{Size, WhenFull};

    const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

    #[test]
    fn a_newcomer_that_others_abort_makes_do_in_time() {
        let rule =
            TokenBucket::compile(&[TokenBucket::new(Rate::per_hour(1)).burst(10)], 0).unwrap().remove(0);
        let table = Table::new(Size::for_keys(1, 0).unwrap(), WhenFull::Share).unwrap();
        // All in one bucket.
        let names = Cell::new(0_u64);
        let newcomer = || {
            names.set(names.get() + 1);
            names.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) << 2
        };
        let ask = |name| Ask { rule: &rule, name: kept(name), cost: 1 };
        let check = |name, clock: &dyn Fn() -> Timestamp| table.view(name).check(ask(name), clock).0.allowed;
        assert!((0..SLOTS).all(|_| check(newcomer(), &|| NOW)));
        // At each of its attempts another one gets a slot with its debt.
        let attempts = Cell::new(0);
        check(newcomer(), &|| {
            attempts.set(attempts.get() + 1);
            check(newcomer(), &|| NOW);
            NOW
        });
        assert!(table.stats().evicted_with_debt >= 5, "{:?}", table.stats());
        // The clock is read once more ahead of all.
        assert!(attempts.get() <= 2 + 2 * TRIES, "{} attempts", attempts.get());
    }
}
