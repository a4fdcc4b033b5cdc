//! Growth in place: buckets that are split in two, one by one, while everybody goes on.
//!
//! The memory of all the buckets that the table may ever have is reserved, and used from the front. At *level* `n` a
//! bucket has the keys whose names end in its number's `n` bits. The table's mask says how far it has got; it is a hint,
//! and each bucket follows when somebody needs it. A bucket of level `n` is *split*: the keys whose names have bit `n`
//! set move to its *sibling*, `2^n` buckets further on, each to the slot of the same place. Nobody has touched that
//! memory before, so there is no search for room, and each of its words is written once.
//!
//! ```text
//!  the bucket's header          its slots                        the sibling
//!  at level n
//!  splitting                    overflow word                    the same
//!                               name: moved                      .
//!                               word: parity flipped             the word, then the name
//!                               (for every key that leaves)      header: level n + 1
//!  at level n + 1               slots of moved keys: vacant
//! ```
//!
//! Whoever needs the bucket meanwhile helps, and needs no clock for it: what has expired moves, too. Every step is a
//! compare-exchange from a value that does not come back, and all find the same keys to move, since a slot that has begun
//! to part takes no charge, refund or claim any more. A thread that stalled in the middle finds the header changed, or
//! its step taken.
//!
//! Checks of keys that have a slot at rest take no notice: they find it by its name, wherever the hint sends them. All
//! others come through [`View::at_home`], which finds the bucket by the headers alone, however old the hint was.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | B3 | the header's `splitting` | every header load | nothing but the word: an insertion that began before fails |
//! | B4 | the sibling's header | every header load | its slots, and its overflow word |
//! | B5 | the header's `split` | every header load | that its keys have arrived |

use crate::algorithm::{Moment, Rule};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::TallyOrdering;
use crate::table::Table;
use crate::table::bucket::{Bucket, PLACES, Rest, SHARED_PAYLOAD, SLOTS, View};
use crate::table::header::Header;
use crate::table::name::KNOWN;

/// How full of keys that owe something a full bucket's neighbours must be, in percent, for all to follow it to the next
/// level. One bucket may be full by chance: then it is split alone, and every check of the keys that moved goes the long
/// way until the others come.
const CROWDED: usize = 40;

/// How many neighbours are asked.
const NEIGHBOURS: usize = if cfg!(loom) { 0 } else { 8 };

impl Table {
    /// How many buckets are in use, but for the siblings of some that were full by chance.
    pub(crate) fn in_use(&self) -> usize {
        self.mask.load(TallyOrdering::Relaxed) as usize + 1
    }

    /// Before which number all buckets in use are.
    pub(crate) fn end(&self) -> usize {
        self.in_use().max(self.furthest.load(TallyOrdering::Relaxed) as usize)
    }

    /// The level that the table has reached.
    fn level(&self) -> u32 {
        self.in_use().trailing_zeros()
    }

    /// The level of a bucket with this header; `None` before it is open.
    pub(super) fn level_of(&self, number: usize, header: Header) -> Option<u32> {
        match header.level() {
            0 => (number < self.roots).then(|| self.roots.trailing_zeros()),
            level => Some(level),
        }
    }

    /// The bucket of this number.
    pub(super) fn at(&self, number: usize) -> View<'_> {
        View { bucket: &self.buckets[number], table: self }
    }
}

/// The number of the bucket that has the keys of this name at this level.
fn number_at(level: u32, name: u64) -> usize {
    (name & ((1 << level) - 1)) as usize
}

/// The bucket from which this one is split off.
fn parent(number: usize) -> usize {
    number & !(1 << number.ilog2())
}

impl<'a> View<'a> {
    /// The bucket's number.
    pub(super) fn number(self) -> usize {
        let offset = std::ptr::from_ref(self.bucket).addr() - self.table.buckets.as_ptr().addr();
        offset / size_of::<Bucket>()
    }

    /// Whether the bucket has been opened.
    pub(super) fn is_open(self) -> bool {
        self.table.level_of(self.number(), self.bucket.header()).is_some()
    }

    /// Whether the bucket's members have moved since this header was read: a key that was not found may have been on its
    /// way.
    pub(super) fn has_changed_since(self, header: Header) -> bool {
        !self.bucket.header().has_the_members_of(header)
    }

    /// Whether the key of this name had its slot here and has moved.
    pub(super) fn has_lost(self, name: u64, header: Header) -> bool {
        self.table
            .level_of(self.number(), header)
            .is_some_and(|level| number_at(level, self.whole(name)) != self.number())
    }

    /// A name with the bits that are known from the bucket.
    pub(super) fn whole(self, name: u64) -> u64 {
        name & !KNOWN | self.number() as u64 & KNOWN
    }

    /// The bucket to which the key belongs, and its header with nothing on the move: for whoever is about to write.
    pub(super) fn at_home(self, name: u64) -> (Self, Header) {
        let (mut view, table, name) = (self, self.table, self.whole(name));
        loop {
            let (number, header) = (view.number(), view.bucket.header());
            match table.level_of(number, header) {
                None => view.open(),
                Some(level) if header.is_splitting() => view.split(level, header),
                Some(level) if number_at(level, name) == number => return (view, header),
                Some(level) => view = table.at(number_at(level, name)),
            }
        }
    }

    /// The bucket where the key's slot is, if it has one, and its header. Writes nothing, unless keys are on the move.
    pub(super) fn in_sight(self, name: u64) -> (Self, Header) {
        let (mut view, table, name) = (self, self.table, self.whole(name));
        loop {
            let (number, header) = (view.number(), view.bucket.header());
            match table.level_of(number, header) {
                None => view = table.at(parent(number)),
                Some(level) if header.is_splitting() => view.split(level, header),
                Some(level) if number_at(level, name) == number => return (view, header),
                // Not open, when it is not: its keys are still where it splits off.
                Some(level) => view = table.at(number_at(level, name)),
            }
        }
    }

    /// Takes a step towards opening this bucket: splits the nearest that is open of those it stems from.
    fn open(self) {
        let mut child = self.number();
        loop {
            let view = self.table.at(parent(child));
            let header = view.bucket.header();
            if let Some(level) = self.table.level_of(view.number(), header) {
                // Beyond that level the child has opened meanwhile.
                if level <= child.ilog2() {
                    view.split(level, header);
                }
                return;
            }
            child = view.number();
        }
    }

    /// Makes room for a new key in a full bucket, and says whether it did: look again.
    pub(super) fn make_room<R: Rule>(self, rule: &R, header: Header, at: Moment) -> bool {
        let Some(level) = self.splits(header) else { return false };
        let mask = self.table.mask.load(TallyOrdering::Relaxed);
        if level >= mask.count_ones() && self.is_crowded(rule, at) {
            let (wider, order) = (mask << 1 | 1, TallyOrdering::Relaxed);
            let _ = self.table.mask.compare_exchange(mask, wider, order, order);
        }
        self.split(level, header);
        true
    }

    /// Whether a key that finds no room in the bucket, at its `header`, would find some once it is split.
    pub(super) fn would_make_room(self, name: u64, header: Header, others: &[Option<Rest>; PLACES]) -> bool {
        let Some(level) = self.splits(header) else { return false };
        let parts = |level: u32, other: u64| {
            number_at(level, self.whole(other)) != number_at(level, self.whole(name))
        };
        let would_part = |level| others.iter().flatten().any(|other| parts(level, other.name));
        (level + 1..=self.table.buckets.len().ilog2()).any(would_part)
    }

    /// At which level the bucket may be split; `None` when there is no memory for a sibling.
    fn splits(self, header: Header) -> Option<u32> {
        self.table.level_of(self.number(), header).filter(|&level| 1 << level < self.table.buckets.len())
    }

    /// Whether the table is about as full as it should be: by what the bucket's neighbours hold, as if all had reached
    /// the table's level.
    fn is_crowded<R: Rule>(self, rule: &R, at: Moment) -> bool {
        let (mut slots, mut owing) = (0, 0);
        for number in (0..NEIGHBOURS).map(|nth| self.number() ^ nth) {
            let neighbour = self.table.at(number % self.table.in_use());
            if let Some(level) = self.table.level_of(neighbour.number(), neighbour.bucket.header()) {
                slots += SLOTS << self.table.level().saturating_sub(level);
                owing += neighbour.live(rule, at);
            }
        }
        owing * 100 >= slots * CROWDED
    }

    /// Splits the bucket from this `header`, at `level`, or helps; returns when it is split or has changed.
    fn split(self, level: u32, header: Header) {
        let splitting = header.splitting();
        if !header.is_splitting() && !self.bucket.advance(header, splitting) {
            return;
        }
        // First, so that whoever misses a key here goes as far as it went.
        self.table.furthest.fetch_max(2 << level, TallyOrdering::Relaxed);
        let sibling = self.table.at(self.number() | 1 << level).bucket;
        let leaves = |name| number_at(level + 1, self.whole(name)) == self.number() | 1 << level;
        let is_over = || self.bucket.header() != splitting;

        // Nobody charges the overflow word of a bucket that can still be split: what it owes came with a saved limiter.
        let overflow = SHARED_PAYLOAD.get(self.bucket.overflow().load(Acquire)); // B2
        let _ = sibling.overflow().compare_exchange(0, SHARED_PAYLOAD.of(overflow), Release, Relaxed); // B2
        let mut gone = 0;
        for place in 1..PLACES {
            let counts = |word| splitting.commits(place, word);
            let moved = self.bucket.slot(place).part(leaves, counts, is_over);
            if is_over() {
                return;
            }
            gone |= u64::from(moved.is_some()) << place;
            sibling.slot(place).receive(moved);
        }
        sibling.advance(Header::UNTOUCHED, splitting.sibling(level + 1)); // B4
        self.bucket.advance(splitting, splitting.split(level + 1, gone)); // B5
    }
}
