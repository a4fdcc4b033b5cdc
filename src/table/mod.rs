//! The lock-free table: where each key's word is.
//!
//! A key's fingerprint (a 64-bit hash) picks a bucket and a line in it. There is no chain to
//! follow, nothing is allocated or freed after building, and no thread waits for another. Memory is
//! reserved once, and used from the front as keys come: see `growth`.
//!
//! `fingerprint`, `word` and `header` are values. Only `slot`, `bucket` and `growth` change memory.

pub(crate) mod basis;
mod bucket;
mod doors;
#[cfg(loom)]
pub mod edges;
mod find;
mod fingerprint;
mod full;
mod growth;
mod header;
pub(crate) mod hold;
mod insert;
pub(crate) mod look;
pub(crate) mod marks;
#[cfg(not(loom))]
mod memory;
mod peek;
mod recycle;
pub(crate) mod ruling;
mod saved;
pub(crate) mod slot;
mod slot_index;
mod stats;
pub(crate) mod validity;
pub(crate) mod versioned;
pub(crate) mod word;
mod zeroed;

use crate::algorithm::Payload;
use crate::error::{BuildError, within};
use crate::ring::Ring;
use crate::sync::{AtomicU64, Tally};
use basis::Basis;
use bucket::Bucket;
use marks::Marks;
use ruling::Ruling;
use slot_index::{SLOTS, SlotIndex};

pub(crate) use fingerprint::Fingerprint;
pub(crate) use saved::Debt;
pub(crate) use stats::Events;
pub(crate) use zeroed::{Zeroed, zeroed_words};

pub use full::WhenFull;
pub use stats::Stats;

/// The most keys of a table.
const MOST_KEYS: usize = (1_u64 << 36) as usize;

/// Which ring of a key's bucket a decision is about, and its basis.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub(crate) struct DecidedOn(u8);

impl DecidedOn {
    /// No ring.
    pub(crate) const NONE: Self = Self(0);

    /// The lowest bit of the basis, above the slot index.
    const BASIS: u32 = 4;

    /// The ring of this slot.
    #[inline]
    fn of(index: SlotIndex) -> Self {
        Self(index.get() as u8)
    }

    /// The index of the slot whose ring it is; 0 for none.
    #[inline]
    fn index(self) -> u8 {
        self.0 % (1 << Self::BASIS)
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.index() == 0
    }

    /// The same place with this basis.
    #[inline]
    pub(crate) fn on(self, basis: Basis) -> Self {
        Self(self.index() | (basis as u8) << Self::BASIS)
    }

    /// On what the request was decided.
    #[inline]
    pub(crate) fn basis(self) -> Basis {
        Basis::numbered(self.0 >> Self::BASIS)
    }
}

/// How many marks the refunds of all keys share at least.
const MARKS: usize = if cfg!(loom) { 1 } else { 1024 };

/// How many keys of a mark are remembered.
const KEYS_OF_A_MARK: usize = if cfg!(loom) { 1 } else { 4 };

/// Slots for each mark beyond those.
const SLOTS_OF_A_MARK: usize = 512;

/// How many stripes the event counters have.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// Buckets in use from the start: enough for their numbers to tell two bits of a fingerprint.
const ROOTS: usize = if cfg!(loom) { 4 } else { 256 };

/// Buckets in a page of 4 KiB, the usual one.
const PAGE: usize = 4096 / size_of::<Bucket>();

/// Buckets, and the rings of their slots.
#[derive(Debug)]
pub(crate) struct Table {
    buckets: Zeroed<Bucket>,
    /// Which bits of a fingerprint are the bucket's number: one less than the number of buckets in
    /// use. A hint: with any value that it has had, a key is found. So it is not loom's, which
    /// would explore every order of reading it.
    mask: Tally,
    /// How many buckets are in use from the start.
    roots: usize,
    /// All buckets that were split off have smaller numbers.
    furthest: Tally,
    /// The bucket whose memory is committed next, before the table follows to its level. 0, or a
    /// power of two: none, all below it are.
    ahead: Tally,
    rings: Zeroed<AtomicU64>,
    ring_len: usize,
    /// How many slots of a bucket have a ring.
    ringed: usize,
    when_full: WhenFull,
    pub(crate) marks: Marks,
    shards: [Events; SHARDS],
}

/// How large a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    buckets: usize,
    /// How many of them are in use from the start.
    roots: usize,
    ring_len: usize,
    /// How many slots of a bucket have a ring.
    ringed: usize,
}

impl Size {
    /// Buckets at most 64 % full when they hold `max_keys`: all but eight keys in a thousand find
    /// room in their own.
    ///
    /// They come into use as they are needed, but all at once where slots have rings: a ring stays
    /// where it is.
    pub(crate) fn for_keys(max_keys: usize, ring_len: u64) -> Result<Self, BuildError> {
        within("max_keys", max_keys as u128, 1_u64, MOST_KEYS as u128)?;
        let buckets =
            (max_keys * 25).div_ceil(SLOTS * 16).next_power_of_two().max(Fingerprint::LEAST_BUCKETS);
        let size = Self { buckets, ..Self::of_one_key(ring_len) };
        Ok(match ring_len {
            0 => Self { roots: buckets.min(ROOTS), ..size },
            _ => Self { roots: buckets, ringed: SLOTS, ..size },
        })
    }

    /// One bucket, for [the only key](Fingerprint::ONLY) of a limiter. That has the first slot from
    /// the beginning, which is its home slot, and the only one with a ring.
    pub(crate) fn of_one_key(ring_len: u64) -> Self {
        let ring_len = usize::try_from(ring_len).unwrap_or(usize::MAX);
        Self { buckets: 1, roots: 1, ring_len, ringed: ring_len.min(1) }
    }

    /// The same, all in use from the start: no key ever migrates.
    pub(crate) fn fixed(self) -> Self {
        Self { roots: self.buckets, ..self }
    }

    /// Bytes that the table reserves.
    pub(crate) fn bytes(self) -> usize {
        let rings = self.ring_len.saturating_mul(self.ringed * size_of::<AtomicU64>());
        self.buckets.saturating_mul(size_of::<Bucket>().saturating_add(rings))
    }

    /// Slots in the table.
    pub(crate) fn slots(self) -> usize {
        self.buckets * SLOTS
    }

    /// Tables with keys have four buckets at least.
    fn is_of_one_key(self) -> bool {
        self.buckets == 1
    }

    /// How many marks the refunds of all keys share, and how many keys each remembers.
    fn marks(self) -> (usize, usize) {
        if self.is_of_one_key() {
            return (1, 1);
        }
        (MARKS.max(self.slots() / SLOTS_OF_A_MARK), KEYS_OF_A_MARK)
    }
}

impl Table {
    pub(crate) fn new(size: Size, when_full: WhenFull) -> Result<Self, BuildError> {
        let entries = (size.buckets * size.ringed).saturating_mul(size.ring_len);
        let (marks, keys) = size.marks();
        let table = Self {
            #[cfg(not(loom))]
            buckets: Zeroed::new(size.buckets)?,
            #[cfg(loom)]
            buckets: (0..size.buckets).map(|_| Bucket::new()).collect(),
            mask: Tally::new(size.roots as u64 - 1),
            roots: size.roots,
            furthest: Tally::new(0),
            ahead: Tally::new(0),
            rings: zeroed_words(entries)?,
            ring_len: size.ring_len,
            ringed: size.ringed,
            when_full,
            marks: Marks::new(marks, keys)?,
            shards: std::array::from_fn(|_| Events::new()),
        };
        if size.is_of_one_key() {
            // Threads that inserted it at once would take several slots.
            table.buckets[0].slot(SlotIndex::FIRST).give_to(Fingerprint::ONLY.kept(), Payload::UNSEEN);
        }
        Ok(table)
    }

    /// Whether slots have rings.
    #[inline]
    pub(crate) fn has_rings(&self) -> bool {
        self.ringed != 0
    }

    /// The ring of a slot.
    #[inline]
    fn ring(&self, bucket: &Bucket, index: SlotIndex) -> Ring<'_> {
        let slot = index.get() - 1;
        if slot >= self.ringed {
            return Ring::NONE;
        }
        let offset = std::ptr::from_ref(bucket).addr() - self.buckets.as_ptr().addr();
        let first = (offset / size_of::<Bucket>() * self.ringed + slot) * self.ring_len;
        Ring::new(&self.rings[first..][..self.ring_len])
    }

    /// Where this ring is in its bucket, for [`ring_at`](Self::ring_at); with the basis of the
    /// decision.
    #[inline]
    pub(crate) fn decided_on(&self, ring: Ring<'_>, basis: Basis) -> DecidedOn {
        let slot = || SlotIndex::new(ring.offset_in(&self.rings) / self.ring_len % self.ringed + 1);
        let place = if ring.len() == 0 { DecidedOn::NONE } else { DecidedOn::of(slot()) };
        place.on(basis)
    }

    /// The ring at this place in the key's bucket.
    pub(crate) fn ring_at(&self, fingerprint: Fingerprint, place: DecidedOn) -> Ring<'_> {
        match place.index() {
            0 => Ring::NONE,
            index => self.ring(self.view(fingerprint).bucket, SlotIndex::new(index.into())),
        }
    }

    /// An answer as a decision keeps it.
    #[inline]
    pub(crate) fn payload_and_basis(
        &self,
        Ruling { payload, ring, basis, .. }: Ruling<'_>,
    ) -> (Payload, DecidedOn) {
        (payload, self.decided_on(ring, basis))
    }

    /// The event counters of this fingerprint's stripe.
    #[inline]
    pub(crate) fn events(&self, fingerprint: Fingerprint) -> &Events {
        &self.shards[fingerprint.share_of(SHARDS)]
    }

    /// Bytes in use, without those that were committed ahead. A page with one open bucket counts as
    /// a whole. Reads the whole table.
    pub(crate) fn bytes(&self) -> usize {
        let in_use = |first| {
            let page = first..self.buckets().min(first + PAGE);
            page.clone().any(|number| self.at(number).is_open()).then_some(page.len())
        };
        let buckets = (0..self.end()).step_by(PAGE).filter_map(in_use).sum();
        Size { buckets, roots: self.roots, ring_len: self.ring_len, ringed: self.ringed }.bytes()
    }

    /// How many buckets are in use from the start.
    pub(crate) fn roots(&self) -> usize {
        self.roots
    }

    /// How many buckets there may be.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// All counts.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.add_stats(&mut stats);
        stats
    }

    /// Adds all counts to `stats`.
    pub(crate) fn add_stats(&self, stats: &mut Stats) {
        self.shards.iter().for_each(|events| events.add_to(stats));
        self.marks.add_stats(stats);
    }
}
