//! The ways into a table: decide and charge, look, lower, and count.
//!
//! | door | writes |
//! |------|--------|
//! | `check`, `check_displaced`, `check_anywhere` | the word of an admitted or counted request |
//! | `look` | nothing |
//! | `lower` | the word of a key, less than before |
//! | `in_debt` | nothing |
//! | [`Debt`](crate::table::Debt) | `each` nothing; `restore` a debt, before the table is shared |
//! | [`hold`](crate::table::hold) | the word of a guard's units |

use crate::algorithm::{Moment, Refund, Rule, Stored, Visit};
use crate::ring::Ring;
use crate::table::Table;
use crate::table::find::{Found, View};
use crate::table::fingerprint::Fingerprint;
use crate::table::look::Look;
use crate::table::recycle::recycle;
use crate::table::ruling::{Ask, Ruling};
use crate::table::slot::Slot;
use crate::table::slot_index::home_slot;
use crate::table::validity::Validity;
use crate::table::versioned::{Versioned, VersionedRef};
use crate::table::word::Word;
use crate::table::zeroed::prefetch;
use crate::time::Timestamp;

impl Table {
    /// Decides a request and charges it; returns the time that it read from `clock`. An insertion
    /// reads the clock once more.
    ///
    /// Three keys in four are in their home slot, and the processor predicts that: it knows the
    /// address before the line has arrived, and begins with the following checks. (A data-dependent
    /// address costs a third more on keys that are not cached.) The checks in flight are bounded by
    /// registers, not by latency: one value less on this path saves half a nanosecond. A prefetch
    /// needs none, so all lines are prefetched before it is known that the key is displaced.
    #[inline(always)]
    pub(crate) fn check<R: Rule>(
        &self,
        rule: &Versioned<R>,
        fingerprint: Fingerprint,
        cost: u64,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp) {
        let (view, fingerprint) = (self.view(fingerprint), fingerprint.kept());
        let VersionedRef { pure: by, validity } = rule.by_ref();
        view.prefetch_all();
        let now = clock();
        let home = home_slot(fingerprint);
        let (word, owner) = view.bucket.slot(home).read();
        if owner == fingerprint
            && !word.is_frozen()
            && let Some(ruling) = by.by_algorithm(AtHome { view, word, validity, fingerprint, cost, now })
        {
            return (ruling, now);
        }
        displaced::<_, true>(view, rule, fingerprint, cost, now, clock)
    }

    /// The same for a key that is not in its home slot, or was charged there just now.
    #[inline]
    pub(crate) fn check_displaced<R: Rule>(
        &self,
        rule: &Versioned<R>,
        Ask { fingerprint, cost, .. }: Ask<'_, R>,
        now: Timestamp,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp) {
        displaced::<_, false>(self.view(fingerprint), rule, fingerprint.kept(), cost, now, clock)
    }

    /// The same for any rule, one that books ahead, too: by the slow path alone.
    pub(crate) fn check_anywhere<R: Rule>(
        &self,
        ask: Ask<'_, R>,
        now: Timestamp,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp) {
        self.view(ask.fingerprint).find_or_insert(ask.kept(), now, clock)
    }

    /// What a check would decide now. Writes nothing.
    pub(crate) fn look<R: Rule>(&self, ask: Ask<'_, R>, now: Timestamp) -> Look<'_> {
        Look::peek(self.view(ask.fingerprint), ask.kept(), now)
    }

    /// Prefetches the cache line that a check of this key looks at first.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: Fingerprint) {
        prefetch(self.view(fingerprint).bucket.slot(home_slot(fingerprint)));
    }

    /// Changes the key's word as `less` says while it is held, so that no other key is lowered: see
    /// [`Slot::refund`]. `prepare` does with the ring what must be done before; `false`: the word
    /// has changed. Returns the units that came back; `None` when the bucket does not hold the key.
    pub(crate) fn lower<'a, R: Rule>(
        &'a self,
        fingerprint: Fingerprint,
        prepare: impl Fn(&Slot, Word, Ring<'a>) -> bool,
        mut less: impl FnMut(Stored, Ring<'a>) -> Option<Refund>,
    ) -> Option<u64> {
        let (first, fingerprint) = (self.view(fingerprint), fingerprint.kept());
        loop {
            let (view, header) = first.home_bucket(fingerprint);
            match view.scan(fingerprint, header, |_| ()) {
                Found::Mine(index, word) => {
                    let (slot, ring) = (view.bucket.slot(index), view.ring::<R>(index));
                    if prepare(slot, word, ring)
                        && let Some(units) = slot.refund(word, fingerprint, |payload| less(payload, ring))
                    {
                        return Some(units);
                    }
                    // The key was charged meanwhile: lower the word that is there now.
                }
                // In a bucket that stayed the same, the key has no slot.
                Found::Others if !view.has_changed_since(header) => return None,
                // The bucket changed during the scan: look again.
                Found::Others | Found::Changed => {}
            }
        }
    }

    /// The fingerprints of the keys in debt, in the buckets whose numbers are `class` modulo
    /// `classes`.
    pub(crate) fn in_debt<R: Rule>(
        &self,
        (class, classes): (usize, usize),
        rule: VersionedRef<'_, R>,
        at: Moment,
    ) -> impl Iterator<Item = Fingerprint> {
        // Steps over numbers, not over `views`, which would visit every bucket in between.
        let numbers = (class..).step_by(classes).take_while(|&number| number < self.end());
        numbers.flat_map(move |number| self.at(number).in_debt(rule, at))
    }
}

/// A request of a key that is in its home slot, which has this word.
struct AtHome<'v, 'a> {
    view: View<'a>,
    word: Word,
    validity: &'v Validity,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
}

/// Decides the request in one attempt. `None`: it takes more than that.
impl<'a> Visit for AtHome<'_, 'a> {
    type Output = Option<Ruling<'a>>;

    #[inline(always)]
    fn visit<R: Rule>(self, rule: &R) -> Option<Ruling<'a>> {
        let Self { view, word, validity, fingerprint, cost, now } = self;
        let (rule, home) = (VersionedRef { pure: rule, validity }, home_slot(fingerprint));
        let ask = Ask { rule, fingerprint, cost };
        view.bucket.slot(home).charge_once(word, ask, view.ring::<R>(home), rule.quick_moment(now)?)
    }
}

/// The same for a key whose home slot did not decide it at `now`. `TRIED_HOME`: it was tried,
/// so to find the key there is a lost race.
// Separate arguments: a struct would be written to the stack on every hit.
#[inline(never)]
fn displaced<'a, R: Rule, const TRIED_HOME: bool>(
    view: View<'a>,
    rule: &Versioned<R>,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
    clock: impl Fn() -> Timestamp,
) -> (Ruling<'a>, Timestamp) {
    let rule = rule.by_ref();
    let ask = Ask { rule, fingerprint, cost };
    // Before the fingerprints: see `recycle`.
    let header = view.bucket.header();
    let Some(index) = view.bucket.slot_of(fingerprint) else {
        return match recycle(view, ask, header, now, &clock) {
            Ok(inserted) => inserted,
            Err(latest) => view.find_or_insert(ask, latest, clock),
        };
    };
    if let (word, owner) = view.bucket.slot(index).read()
        && owner == fingerprint
        && !word.is_frozen()
        && let Some(at) = rule.quick_moment(now)
    {
        let mut retries = u64::from(TRIED_HOME && index == home_slot(fingerprint));
        let (slot, ring) = (view.bucket.slot(index), view.ring::<R>(index));
        if let Some(ruling) = slot.charge_displaced(word, ask, ring, at, &mut retries) {
            view.table.events(fingerprint).retried(retries);
            return (ruling, now);
        }
    }
    view.find_or_insert(ask, now, clock)
}
