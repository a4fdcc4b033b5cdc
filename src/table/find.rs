//! How a check finds its key in a bucket.

use crate::algorithm::{Moment, Rule};
use crate::ring::Ring;
use crate::table::Table;
use crate::table::bucket::Bucket;
use crate::table::fingerprint::Fingerprint;
use crate::table::full::AtRest;
use crate::table::header::Header;
use crate::table::slot_index::{ENTRIES, LINE, SlotIndex, probes};
use crate::table::versioned::VersionedRef;
use crate::table::word::Word;
use crate::table::zeroed::prefetch;

/// A bucket of a table.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) table: &'a Table,
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
    /// Prefetches all lines of the bucket.
    #[inline(always)]
    pub(crate) fn prefetch_all(self) {
        (0..ENTRIES).step_by(LINE).for_each(|line| prefetch(self.bucket.slot(SlotIndex::new(line))));
    }

    /// Looks for the key in all slots; passes those at rest that are not the key's to `other`.
    #[inline]
    pub(super) fn scan(self, fingerprint: Fingerprint, header: Header, other: impl FnMut(AtRest)) -> Found {
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
        mut other: impl FnMut(AtRest),
    ) -> Found {
        for index in probes(fingerprint) {
            let slot = self.bucket.slot(index);
            let (word, owner) = slot.read();
            // A key that migrates has its slot to itself until it has left.
            let has_left = self.has_left(owner, header);
            let is_at_rest =
                !word.is_frozen() && owner.is_migrating() == has_left && owner != Fingerprint::EMPTIED;
            let counts = header.commits(index, word) && !has_left;
            if is_at_rest && !counts && !counts_anyway(index, word) {
                return Found::Changed;
            } else if owner != fingerprint {
                if is_at_rest {
                    other(AtRest { index, word, fingerprint: owner });
                }
            } else if is_at_rest {
                return Found::Mine(index, word);
            } else if self.bucket.header().commits(index, word) {
                // Committed meanwhile and not yet published, or held: charged in place, unless the
                // fingerprint read was an older owner's.
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
    /// nothing is repaired. Or a thread that stalled while detaching (`Slot::detach`) the previous
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

    /// The fingerprints of the keys in debt.
    pub(crate) fn in_debt<'r, R: Rule>(
        self,
        rule: VersionedRef<'r, R>,
        at: Moment,
    ) -> impl Iterator<Item = Fingerprint> + use<'a, 'r, R> {
        let fingerprints = SlotIndex::all().filter_map(move |index| {
            let slot = self.bucket.slot(index);
            rule.is_in_debt(slot.load().payload(), at).then(|| slot.fingerprint())
        });
        fingerprints.filter(|&fingerprint| fingerprint.is_key())
    }
}
