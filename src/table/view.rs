//! A bucket of a table: checks begin here, and look for their key.

use crate::algorithm::{Rule, Visit};
use crate::ring::Ring;
use crate::table::Table;
use crate::table::bucket::Bucket;
use crate::table::dated::{Current, Dated};
use crate::table::fingerprint::Fingerprint;
use crate::table::full::Rest;
use crate::table::header::Header;
use crate::table::ruling::{Ask, Ruling};
use crate::table::slot_index::{ENTRIES, LINE, SlotIndex, home_slot, probes};
use crate::table::term::Term;
use crate::table::word::Word;
use crate::table::zeroed::prefetch;
use crate::time::Timestamp;

/// A bucket of a table.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) table: &'a Table,
}

/// A request of a key that is in its home slot, which has this word.
struct AtHome<'v, 'a> {
    view: View<'a>,
    word: Word,
    term: &'v Term,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
}

/// Decides the request in one attempt. `None`: it takes more than that.
impl<'a> Visit for AtHome<'_, 'a> {
    type Output = Option<Ruling<'a>>;

    #[inline(always)]
    fn visit<R: Rule>(self, rule: &R) -> Option<Ruling<'a>> {
        let Self { view, word, term, fingerprint, cost, now } = self;
        let (rule, home) = (Dated { rule, term }, home_slot(fingerprint));
        let ask = Ask { rule, fingerprint, cost };
        view.bucket.slot(home).charge_quickly(word, ask, view.ring::<R>(home), rule.quick_moment(now)?)
    }
}

/// The outcome of a scan.
pub(super) enum Found {
    /// The key's slot, and its word.
    Mine(SlotIndex, Word),
    /// The key has no slot here.
    Others,
    /// The bucket changed during the scan.
    Changed,
}

impl<'a> View<'a> {
    /// Prefetches the line of the key's home slot. It is computed from the fingerprint: no memory
    /// is read.
    #[inline]
    pub(crate) fn prefetch(self, fingerprint: Fingerprint) {
        prefetch(self.bucket.slot(home_slot(fingerprint)));
    }

    /// Prefetches all lines of the bucket.
    #[inline(always)]
    pub(crate) fn prefetch_all(self) {
        (0..ENTRIES).step_by(LINE).for_each(|line| prefetch(self.bucket.slot(SlotIndex::new(line))));
    }

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
        self,
        rule: &Current<R>,
        fingerprint: Fingerprint,
        cost: u64,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let Dated { rule: by, term } = rule.dated();
        self.prefetch_all();
        let now = clock();
        let home = home_slot(fingerprint);
        let (word, owner) = self.bucket.slot(home).read();
        if owner == fingerprint
            && !word.is_frozen()
            && let Some(ruling) = by.by_algorithm(AtHome { view: self, word, term, fingerprint, cost, now })
        {
            return (ruling, now);
        }
        self.check_displaced::<R, true>(rule, fingerprint, cost, now, clock)
    }

    /// The same for a key whose home slot did not decide it at `now`. `TRIED_HOME`: it was tried,
    /// so to find the key there is a lost race.
    // Separate arguments: a struct would be written to the stack on every hit.
    #[inline(never)]
    pub(crate) fn check_displaced<R: Rule, const TRIED_HOME: bool>(
        self,
        rule: &Current<R>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let rule = rule.dated();
        let ask = Ask { rule, fingerprint, cost };
        // Before the fingerprints: see `recycle`.
        let header = self.bucket.header();
        let Some(index) = self.bucket.displaced(fingerprint) else {
            return match self.recycle(ask, header, now, &clock) {
                Ok(inserted) => inserted,
                Err(latest) => self.enter(rule, fingerprint, cost, latest, clock),
            };
        };
        if let (word, owner) = self.bucket.slot(index).read()
            && owner == fingerprint
            && !word.is_frozen()
            && let Some(at) = rule.quick_moment(now)
        {
            let mut retries = u64::from(TRIED_HOME && index == home_slot(fingerprint));
            let (slot, ring) = (self.bucket.slot(index), self.ring::<R>(index));
            if let Some(ruling) = slot.charge_displaced(word, ask, ring, at, &mut retries) {
                self.table.events(fingerprint).retried(retries);
                return (ruling, now);
            }
        }
        self.enter(rule, fingerprint, cost, now, clock)
    }

    /// Looks for the key in all slots; passes those at rest that are not the key's to `other`.
    #[inline]
    pub(super) fn scan(self, fingerprint: Fingerprint, header: Header, other: impl FnMut(Rest)) -> Found {
        let repaired = |index, word| {
            self.repair(index, word, header);
            false
        };
        self.scan_by(fingerprint, header, repaired, other)
    }

    /// The same. `counts_anyway`: whether a slot at rest whose word the header does not commit
    /// counts all the same: as its key's, or as vacant if its key has left.
    #[inline]
    pub(super) fn scan_by(
        self,
        fingerprint: Fingerprint,
        header: Header,
        counts_anyway: impl Fn(SlotIndex, Word) -> bool,
        mut other: impl FnMut(Rest),
    ) -> Found {
        for index in probes(fingerprint) {
            let slot = self.bucket.slot(index);
            let (word, owner) = slot.read();
            let has_left = self.has_left(owner, header);
            let is_at_rest =
                !word.is_frozen() && owner.is_migrating() == has_left && owner != Fingerprint::EMPTIED;
            let counts = header.commits(index, word) && !has_left;
            if is_at_rest && !counts && !counts_anyway(index, word) {
                return Found::Changed;
            } else if owner != fingerprint {
                if is_at_rest {
                    other(Rest { index, word, fingerprint: owner });
                }
            } else if is_at_rest {
                return Found::Mine(index, word);
            } else if self.bucket.header().commits(index, word) {
                // Committed and not yet published: charged in place, unless the fingerprint read
                // was an older owner's.
                return if slot.fingerprint() == fingerprint {
                    Found::Mine(index, word)
                } else {
                    Found::Changed
                };
            }
            // Otherwise another insertion of the key has not committed yet: compete with it.
        }
        Found::Others
    }

    /// Repairs a slot at rest whose word the header does not commit. Either its key has left it:
    /// then all such slots are vacated. Or the bucket has changed since the header was read, and
    /// nothing is repaired. Or a thread that stalled while [detaching](Slot::detach) the previous
    /// owner's word flipped the parity of this owner's, which had the same value. The key itself
    /// does not mind; but a claim of the word would look committed at once, and a held word would
    /// look claimed.
    #[cold]
    fn repair(self, index: SlotIndex, word: Word, header: Header) {
        let slot = self.bucket.slot(index);
        if self.bucket.header() != header {
            return;
        }
        match slot.fingerprint() {
            owner if self.has_left(owner, header) => self.vacate_left(header),
            // Flipped, its word would look vacant already.
            Fingerprint::EMPTIED => {}
            _ => slot.flip_parity(word),
        }
    }

    /// Whether this table's slots have rings.
    #[inline]
    pub(super) fn has_rings<R: Rule>(self) -> bool {
        R::RINGED && self.table.has_rings()
    }

    #[inline]
    pub(super) fn ring<R: Rule>(self, index: SlotIndex) -> Ring<'a> {
        if R::RINGED { self.table.ring(self.bucket, index) } else { Ring::NONE }
    }
}
