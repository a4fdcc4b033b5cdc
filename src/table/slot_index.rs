//! The slots of a bucket by their indices, and the order in which a key is looked for in them.

use crate::table::fingerprint::Fingerprint;

/// Entries in a bucket. Under loom, which explores all interleavings, there are two slots.
pub(super) const ENTRIES: usize = if cfg!(loom) { 3 } else { 16 };

/// Entries in a cache line.
pub(super) const LINE: usize = 4;

/// Slots in a bucket.
pub(super) const SLOTS: usize = ENTRIES - 1;

/// A slot's index in its bucket, from 1: entry 0 is the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct SlotIndex(usize);

impl SlotIndex {
    pub(crate) const FIRST: Self = Self(1);

    #[inline]
    pub(crate) const fn new(index: usize) -> Self {
        Self(index)
    }

    #[inline]
    pub(crate) const fn get(self) -> usize {
        self.0
    }

    /// All, in their order in memory.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (1..ENTRIES).map(Self)
    }
}

/// A key's home slot, where it is looked for first.
#[inline]
pub(super) fn home_slot(fingerprint: Fingerprint) -> SlotIndex {
    SlotIndex(1 + (((fingerprint.bits() >> 32) * SLOTS as u64) >> 32) as usize)
}

/// The probe sequence of a key: its home slot, the rest of that line, the other lines.
pub(super) fn probes(fingerprint: Fingerprint) -> impl Iterator<Item = SlotIndex> {
    let SlotIndex(home) = home_slot(fingerprint);
    (0..ENTRIES.next_power_of_two())
        .map(move |step| home ^ step)
        .filter(|&index| index != 0 && index < ENTRIES)
        .map(SlotIndex)
}

/// The entries of the key's home line. One may be entry 0, the header, which is no slot.
#[inline]
pub(super) fn home_line(fingerprint: Fingerprint) -> impl Iterator<Item = SlotIndex> {
    let SlotIndex(home) = home_slot(fingerprint);
    let line = home & !(LINE - 1);
    (0..LINE).map(move |entry| line | entry).filter(|&index| index < ENTRIES).map(SlotIndex)
}
