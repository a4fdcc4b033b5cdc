//! Growth in place: buckets are split in two, one by one, while checks go on. And: which bucket
//! holds a key.
//!
//! Memory for all buckets that the table may ever have is reserved, and used from the front. A
//! bucket of *level* `n` has the keys whose fingerprints end in the `n` bits of its number. To
//! *split* it, the keys whose fingerprints have bit `n` set migrate to its *sibling*, `2^n` buckets
//! further on, each to the slot of the same index. That memory is untouched, so every key has room
//! there, and each of its words is written once.
//!
//! ```text
//!  the bucket's header          its slots                        the sibling
//!  at level n
//!  splitting                    overflow word                    the same
//!                               fingerprint: migrating           .
//!                               word: parity flipped             the word, then the fingerprint
//!                               (for every key that leaves)      header: level n + 1
//!  at level n + 1               slots of migrated keys: as they are, until another key needs one
//! ```
//!
//! Every thread that needs the bucket to write helps; helping needs no clock: expired keys migrate,
//! too. Each step is a compare-exchange from a value that does not come back, and every helper
//! finds the same keys, since a slot that begins to be detached takes no charge, refund or claim. A
//! helper that stalled finds the header changed, or its step taken. Peeks and refusals read a
//! bucket that is being split as it is: see `peek`.
//!
//! A key's bucket is found by the headers alone ([`View::home_bucket`]): the table's mask is only a
//! hint where to begin. A check that finds its key's fingerprint in a slot at rest needs no header.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | B4 | the sibling's header | every header load | its slots, and its overflow word |
//! | B5 | the header's `split` | every header load | that its keys have arrived |
//!
//! `splitting` needs no edge: an insertion that began before it fails by its compare-exchange, and
//! earlier commits are part of the header's release sequence (B1).

use crate::algorithm::{Moment, Rule, Stored};
use crate::sync::TallyOrdering;
use crate::table::Table;
use crate::table::bucket::Bucket;
use crate::table::find::View;
use crate::table::fingerprint::Fingerprint;
use crate::table::header::Header;
use crate::table::slot_index::{SLOTS, SlotIndex};
use crate::table::versioned::VersionedRef;

/// How full of keys in debt the neighbours of a full bucket must be, in percent, for the table to
/// follow it to the next level. A bucket may be full by chance: then it is split alone, and checks
/// of its migrated keys take the slow path until the table follows. At 72 % one in twelve is.
const CROWDED: usize = 72;

/// How full they must be for the memory of the next level to be committed, piece by piece, before
/// the table follows. Otherwise all its pages are committed at once: each of the first checks at
/// the new level meets an untouched one.
const NEARLY_CROWDED: usize = 68;

/// How many buckets of the next level are committed for each bucket that is split alone.
const AHEAD: u64 = 128;

/// How many neighbours are counted. Of fewer, some would be crowded by chance far below 72 %, and
/// one such place is enough to double the table.
const NEIGHBOURS: usize = if cfg!(loom) { 0 } else { 128 };

/// How many buckets of a table ask about their neighbours when they are full: the last of each
/// 1,024th of the buckets. To count the neighbours takes as long as a hundred checks, and a few of
/// the buckets that ask are full once the table is crowded.
const ASKING: usize = 1024;

impl Table {
    /// How many buckets are in use, without the siblings of buckets that were full by chance.
    fn in_use(&self) -> usize {
        self.mask.load(TallyOrdering::Relaxed) as usize + 1
    }

    /// The level that the table has reached.
    fn level(&self) -> u32 {
        self.in_use().trailing_zeros()
    }

    /// The bucket of the key with this fingerprint, as far as the mask knows.
    #[inline]
    pub(crate) fn view(&self, fingerprint: Fingerprint) -> View<'_> {
        self.at((fingerprint.bits() & self.mask.load(TallyOrdering::Relaxed)) as usize)
    }

    /// All buckets in use. A key that migrates meanwhile goes to a later one.
    pub(crate) fn views(&self) -> impl Iterator<Item = View<'_>> {
        (0..).take_while(|&number| number < self.end()).map(|number| self.at(number))
    }

    /// The level of a bucket with this header; `None` before it is open.
    pub(super) fn level_of(&self, number: usize, header: Header) -> Option<u32> {
        match header.level() {
            0 => (number < self.roots).then(|| self.roots.trailing_zeros()),
            level => Some(level),
        }
    }

    /// The bucket of this number.
    #[inline]
    pub(super) fn at(&self, number: usize) -> View<'_> {
        View { bucket: &self.buckets[number], table: self }
    }

    /// Begins to commit the memory of the next level.
    fn begin_ahead(&self) {
        self.ahead.fetch_max(self.in_use() as u64 + 1, TallyOrdering::Relaxed);
    }

    /// Commits the next piece of that memory, if this has begun and is not done.
    fn advance_ahead(&self) {
        let next = self.ahead.load(TallyOrdering::Relaxed);
        if next.is_power_of_two() || next == 0 {
            return;
        }
        let later = (next + AHEAD).min(next.next_power_of_two());
        // Where it fails, another thread commits that piece.
        if self.ahead.compare_exchange(next, later, TallyOrdering::Relaxed, TallyOrdering::Relaxed).is_ok() {
            self.commit(next as usize);
        }
    }

    /// Commits the memory of a bucket, and of those beside it.
    fn commit(&self, number: usize) {
        #[cfg(not(loom))]
        self.buckets.commit(number);
        #[cfg(loom)]
        let _ = number;
    }

    /// All buckets in use have smaller numbers.
    pub(super) fn end(&self) -> usize {
        self.roots.max(self.furthest.load(TallyOrdering::Relaxed) as usize)
    }
}

/// Where a reader looks for a key.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) view: View<'a>,
    pub(super) header: Header,
    /// Where the bucket's split is taking the key.
    pub(super) sibling: Option<View<'a>>,
}

/// What the headers say of the way to a key's bucket.
enum Route<'a> {
    /// It is this bucket, which is not being split.
    Home(View<'a>, Header),
    /// This bucket, on the way or at its end, is being split.
    Splitting(View<'a>, u32, Header),
    /// This bucket has to be opened first.
    Closed(View<'a>),
}

/// The number of the bucket that has the keys of this fingerprint at this level.
fn number_at(level: u32, fingerprint: Fingerprint) -> usize {
    (fingerprint.bits() & ((1 << level) - 1)) as usize
}

impl<'a> View<'a> {
    /// The bucket's number.
    pub(super) fn number(self) -> usize {
        let offset = std::ptr::from_ref(self.bucket).addr() - self.table.buckets.as_ptr().addr();
        offset / size_of::<Bucket>()
    }

    /// The bucket from which this one is split off.
    fn parent(self) -> Self {
        let number = self.number();
        self.table.at(number & !(1 << number.ilog2()))
    }

    /// Whether the bucket has been opened.
    pub(super) fn is_open(self) -> bool {
        self.table.level_of(self.number(), self.bucket.header()).is_some()
    }

    /// Whether the bucket has changed since this header was read: a key that was not found may have
    /// been migrating.
    pub(super) fn has_changed_since(self, header: Header) -> bool {
        self.bucket.header() != header
    }

    /// Whether the key has migrated from here to a bucket that was split off.
    pub(super) fn has_migrated(self, fingerprint: Fingerprint, header: Header) -> bool {
        self.table
            .level_of(self.number(), header)
            .is_some_and(|level| number_at(level, self.whole(fingerprint)) != self.number())
    }

    /// Whether a slot that stores this was left by its key.
    #[inline]
    pub(super) fn has_left(self, owner: Fingerprint, header: Header) -> bool {
        owner.is_migrating() && self.has_migrated(owner, header)
    }

    /// Vacates the slots that keys have left. Not before another key needs one: a thread that has
    /// charged a key while it migrated finds by the slot's fingerprint that the charge counts.
    pub(super) fn vacate_left(self, header: Header) {
        for index in SlotIndex::all() {
            let (word, owner) = self.bucket.slot(index).read();
            // A frozen word is that of a claim which cannot commit: its owner vacates the slot.
            if self.has_left(owner, header) && !word.is_frozen() {
                self.bucket.slot(index).vacate(owner, header.vacant(index));
            }
        }
    }

    /// The whole fingerprint: a slot does not store the bits that the bucket's number tells.
    pub(super) fn whole(self, fingerprint: Fingerprint) -> Fingerprint {
        fingerprint.whole(self.number())
    }

    /// Whether the key is in this bucket, by a header that is not splitting.
    #[inline(always)]
    pub(super) fn is_home(self, fingerprint: Fingerprint, header: Header) -> bool {
        let level = self.table.level_of(self.number(), header);
        !header.is_splitting()
            && level.is_some_and(|level| number_at(level, self.whole(fingerprint)) == self.number())
    }

    /// The key's bucket, and its header, which is not splitting. For writers: helps to split or
    /// open it.
    pub(super) fn home_bucket(self, fingerprint: Fingerprint) -> (Self, Header) {
        loop {
            match self.route(fingerprint) {
                Route::Home(view, header) => return (view, header),
                Route::Splitting(view, level, header) => view.split(level, header),
                Route::Closed(view) => view.open(),
            }
        }
    }

    /// The same without helping: `None` when a bucket on the way is being split or not open.
    #[inline]
    pub(super) fn home_bucket_now(self, fingerprint: Fingerprint) -> Option<(Self, Header)> {
        match self.route(fingerprint) {
            Route::Home(view, header) => Some((view, header)),
            _ => None,
        }
    }

    #[inline]
    fn route(self, fingerprint: Fingerprint) -> Route<'a> {
        let (mut view, fingerprint) = (self, self.whole(fingerprint));
        loop {
            let header = view.bucket.header();
            match self.table.level_of(view.number(), header) {
                None => return Route::Closed(view),
                Some(level) if header.is_splitting() => return Route::Splitting(view, level, header),
                Some(level) if number_at(level, fingerprint) == view.number() => {
                    return Route::Home(view, header);
                }
                Some(level) => view = self.table.at(number_at(level, fingerprint)),
            }
        }
    }

    /// Where a reader looks for the key. Writes nothing.
    pub(super) fn bucket_to_read(self, fingerprint: Fingerprint) -> Reading<'a> {
        let (mut view, fingerprint) = (self, self.whole(fingerprint));
        loop {
            let header = view.bucket.header();
            let Some(level) = self.table.level_of(view.number(), header) else {
                // Its keys are still in the bucket from which it splits off.
                view = view.parent();
                continue;
            };
            if number_at(level, fingerprint) != view.number() {
                view = self.table.at(number_at(level, fingerprint));
                continue;
            }
            let leaves = header.is_splitting() && number_at(level + 1, fingerprint) != view.number();
            let sibling = leaves.then(|| self.table.at(number_at(level + 1, fingerprint)));
            match sibling.filter(|sibling| sibling.is_open()) {
                Some(open) => view = open,
                None => return Reading { view, header, sibling },
            }
        }
    }

    /// Takes a step towards opening this bucket: splits its nearest ancestor that is open.
    fn open(self) {
        let mut child = self;
        loop {
            let view = child.parent();
            let header = view.bucket.header();
            if let Some(level) = self.table.level_of(view.number(), header) {
                // At a higher level the child is open already.
                if level <= child.number().ilog2() {
                    view.split(level, header);
                }
                return;
            }
            child = view;
        }
    }

    /// Splits a full bucket for a new key: `true` when it has changed, so scan again. The table
    /// follows to the next level once it is crowded, by the percentage that `fullness` says.
    pub(super) fn make_room(self, header: Header, fullness: impl Fn() -> usize) -> bool {
        let Some(level) = self.splits(header) else { return false };
        let mask = &self.table.mask;
        let seen = mask.load(TallyOrdering::Relaxed);
        if level >= seen.count_ones() {
            let fullness = fullness();
            if fullness >= CROWDED {
                let (wider, order) = (seen << 1 | 1, TallyOrdering::Relaxed);
                // Where it fails, another thread has taken the table to that level.
                let _ = mask.compare_exchange(seen, wider, order, order);
            } else if fullness >= NEARLY_CROWDED {
                self.table.begin_ahead();
            }
        }
        self.split(level, header);
        true
    }

    /// Whether a split of this full bucket would make room for the key.
    pub(super) fn would_make_room(self, fingerprint: Fingerprint, header: Header) -> bool {
        let Some(level) = self.splits(header) else { return false };
        let parts = |level: u32, other: Fingerprint| {
            number_at(level, self.whole(other)) != number_at(level, self.whole(fingerprint))
        };
        let would_part =
            |level| SlotIndex::all().any(|index| parts(level, self.bucket.slot(index).fingerprint()));
        (level + 1..=self.table.buckets().ilog2()).any(would_part)
    }

    /// The level at which the bucket can be split; `None` when there is no memory for a sibling.
    fn splits(self, header: Header) -> Option<u32> {
        self.table.level_of(self.number(), header).filter(|&level| 1 << level < self.table.buckets())
    }

    /// How full the table is about, in percent, judged by the keys in debt in the bucket's
    /// neighbours, as if all had the table's level; 0 for a bucket that is not to ask. Buckets that
    /// were split alone count as full: once there are many, the table follows, even if keys come
    /// and go and few are there at a time.
    pub(super) fn fullness<R: Rule>(self, rule: VersionedRef<'_, R>, at: Moment) -> usize {
        // The last one: a restored table is filled in the order of its buckets.
        if !(self.number() + 1).is_multiple_of((self.table.in_use() / ASKING).max(1)) {
            return 0;
        }
        let (mut slots, mut in_debt) = (0, 0);
        let reached = self.table.level();
        for number in (0..NEIGHBOURS).map(|nth| self.number() ^ nth) {
            let neighbour = self.table.at(number % self.table.in_use());
            if let Some(level) = self.table.level_of(neighbour.number(), neighbour.bucket.header()) {
                slots += SLOTS << reached.saturating_sub(level);
                in_debt += if level > reached { SLOTS } else { neighbour.in_debt(rule, at).count() };
            }
        }
        // A model has no neighbours: its tables follow at once.
        (in_debt * 100).checked_div(slots).unwrap_or(CROWDED)
    }

    /// Splits the bucket from this `header`, at `level`, or helps. Afterwards it is split, or has
    /// changed.
    fn split(self, level: u32, header: Header) {
        let splitting = header.splitting();
        if !header.is_splitting() && !self.bucket.advance(header, splitting) {
            // The bucket has changed: the caller looks again whether it must be split.
            return;
        }
        // First, so that a walk over all buckets that misses a key here reaches the sibling.
        self.table.furthest.fetch_max(2 << level, TallyOrdering::Relaxed);
        // A bucket that is split alone takes its own page only: its neighbours may not be split for
        // a long time.
        if 1 << level < self.table.in_use() {
            self.table.commit(self.number() | 1 << level);
        } else {
            self.table.advance_ahead();
        }
        let sibling = self.table.at(self.number() | 1 << level).bucket;
        // Not a key that left by an earlier split, whose fingerprint is still here.
        let (number, arrives) = (self.number(), self.number() | 1 << level);
        let leaves = |fingerprint: Fingerprint| number_at(level + 1, fingerprint.whole(number)) == arrives;
        let is_over = || self.bucket.header() != splitting;

        // The overflow word of a bucket that can be split is not charged: it came with a saved
        // limiter.
        sibling.change_shared(Stored::default(), self.bucket.shared());
        for index in SlotIndex::all() {
            let counts = |word| splitting.commits(index, word);
            let moved = self.bucket.slot(index).detach(leaves, counts, is_over);
            if is_over() {
                // Other helpers have finished.
                return;
            }
            sibling.slot(index).receive(moved);
        }
        // Each of the two fails where another helper took the step.
        sibling.advance(Header::UNTOUCHED, splitting.sibling(level + 1)); // B4
        self.bucket.advance(splitting, splitting.split(level + 1)); // B5
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
