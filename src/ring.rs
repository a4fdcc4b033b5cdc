//! The timestamps behind a sliding window log: one ring of entries per slot of the table.
//!
//! Positions count admissions, modulo two laps. Position `p` is in entry `p % len`, and its *lap*
//! is `p / len`. The slot's word holds the head, which is the next position.
//!
//! ```text
//!   63    62     61                                0
//!  +-----+------+-----------------------------------+
//!  | lap | live |  when, in ns since zero, plus 1   |   lap: the low bit of the position's lap
//!  +-----+------+-----------------------------------+   live: over a time in the window
//! ```
//!
//! An admission first *proposes* its time at the positions it needs (`propose`). It then wins them
//! by moving the head, with one compare-exchange on the slot's word. A proposal that lost, or whose
//! thread was stopped, does no harm: it overwrote an entry that had left the window (or is marked
//! live, for refused requests that count), and the next admission raises it to its own time. So an
//! entry behind the head carries a time no earlier than its admission, and no thread waits for
//! another.
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | S3 | the charge of the word (`table/slot.rs`) | load of that word | times behind the head |
//! | R2 | `propose`, `erase` | `entry`, `erase` | how far the head had moved |
//!
//! So a thread that reads a later lap, or an erased entry, then finds the word changed.

use crate::bits::Field;
use crate::sync::{AtomicU64, Ordering};
use Ordering::{Acquire, Release};

const WHEN: Field = Field::lowest(62);
const LIVE: Field = WHEN.above(1);
const LAP: Field = LIVE.above(1);
const _: () = assert!(LAP.end() == u64::BITS, "the fields must fill the word");

/// One slot's ring. Empty for every algorithm but the log.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    entries: &'a [AtomicU64],
    /// How many of the newest positions have no entry: those of a request that was foreseen, and
    /// not admitted.
    foreseen: u64,
}

/// The value of an entry, as it concerns one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    bits: u64,
    proposed: bool,
}

impl Entry {
    /// The time in the entry. `None` if no admission has reached it yet.
    pub(crate) fn when(self) -> Option<u64> {
        WHEN.get(self.bits).checked_sub(1)
    }

    /// Whether the proposal overwrote an entry that had not left the window.
    pub(crate) fn is_over_live(self) -> bool {
        self.proposed && LIVE.get(self.bits) == 1
    }

    /// The time proposed for the position; 0 if there is none.
    pub(crate) fn proposed_at(self) -> u64 {
        if self.proposed { self.when().unwrap_or(0) } else { 0 }
    }

    /// Whether the entry already carries a time proposed for the position.
    pub(crate) fn is_proposed(self) -> bool {
        self.proposed
    }
}

impl<'a> Ring<'a> {
    /// No ring.
    pub(crate) const NONE: Self = Self { entries: &[], foreseen: 0 };

    pub(crate) fn new(entries: &'a [AtomicU64]) -> Self {
        Self { entries, foreseen: 0 }
    }

    /// The same ring, for a head that is `units` ahead of the last entry.
    pub(crate) fn foreseeing(self, units: u64) -> Self {
        Self { foreseen: units, ..self }
    }

    /// How many of the newest positions have no entry.
    pub(crate) fn foreseen(self) -> u64 {
        self.foreseen
    }

    /// The last instant that an entry can hold.
    pub(crate) const END: u64 = WHEN.max() - 1;

    /// How many admissions the ring remembers.
    pub(crate) fn len(self) -> u64 {
        self.entries.len() as u64
    }

    /// The index of this ring's first entry in `all`.
    pub(crate) fn offset_in(self, all: &[AtomicU64]) -> usize {
        (self.entries.as_ptr().addr() - all.as_ptr().addr()) / size_of::<AtomicU64>()
    }

    /// The entry of a position, and the low bit of its lap. Positions are below four laps.
    #[inline]
    fn place(self, position: u64) -> (&'a AtomicU64, u64) {
        let len = self.len();
        let position = if position >= 2 * len { position - 2 * len } else { position };
        let (index, lap) = if position >= len { (position - len, 1) } else { (position, 0) };
        (&self.entries[index as usize], lap)
    }

    /// The entry where `position` will be or was proposed.
    #[inline]
    pub(crate) fn entry(self, position: u64) -> Entry {
        if self.entries.is_empty() {
            return Entry { bits: 0, proposed: true };
        }
        let (cell, lap) = self.place(position);
        let bits = cell.load(Acquire); // R2
        Entry { bits, proposed: LAP.get(bits) == lap }
    }

    /// Erases all times behind this head, while `unmoved` says that the slot's word has not
    /// changed. `false` when it has.
    ///
    /// A proposal stays: its thread may still win the slot with it, also for another key. It is no
    /// longer marked live.
    pub(crate) fn erase(self, head: u64, unmoved: impl Fn() -> bool) -> bool {
        (head..head + self.len()).all(|position| {
            let seen = self.entry(position);
            let left = if seen.proposed { LIVE.set(seen.bits, 0) } else { 0 };
            // An entry never has the same value twice, so the exchange erases only the value read
            // while the word was unmoved. A time that the key has written since stays.
            let erased = unmoved();
            if erased && left != seen.bits {
                let (cell, _) = self.place(position);
                let _ = cell.compare_exchange(seen.bits, left, Release, Ordering::Relaxed); // R2
            }
            erased
        })
    }

    /// Writes these times, oldest first, at the first positions of the first lap. The ring is not
    /// shared yet.
    pub(crate) fn rewrite(self, times: impl Iterator<Item = u64>) {
        let entries = times.map(|when| WHEN.of(when.min(Self::END) + 1)).chain(std::iter::repeat(0));
        self.entries.iter().zip(entries).for_each(|(cell, bits)| cell.store(bits, Ordering::Relaxed));
    }

    /// Raises the entry of `position` to `now` at least. `live` says that it overwrites a time
    /// inside the window. `false` when the entry is no longer `seen`: decide again.
    ///
    /// The caller has checked that the head did not move after it read `seen`. Otherwise `seen`
    /// could be the committed entry of a later lap.
    #[inline]
    pub(crate) fn propose(self, position: u64, seen: Entry, now: u64, live: bool) -> bool {
        if seen.proposed && seen.when() >= Some(now) {
            return true;
        }
        let (cell, lap) = self.place(position);
        let bits = LAP.of(lap) | LIVE.of(live.into()) | WHEN.of(now.min(Self::END) + 1);
        cell.compare_exchange(seen.bits, bits, Release, Ordering::Relaxed).is_ok() // R2
    }
}
