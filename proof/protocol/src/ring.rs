//! A log in small numbers: `src/algorithm/sliding_log.rs`, and the ring behind it, `src/ring.rs`.

use crate::values::Word;

/// Entries a ring, at most.
pub(crate) const ENTRIES: usize = 3;

/// The word's head takes so many of its lowest bits.
const HEAD: u32 = 3;

/// The bit above the head: whether the log may have times.
const LIVE: u8 = 1 << HEAD;

/// The word's time is above both, in steps of two ticks.
const NEWEST: u32 = HEAD + 1;

/// The most that the word's time can be.
const LATEST: u8 = u8::MAX >> NEWEST;

/// A place of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The low bit of the lap of the position that it was proposed for.
    pub(crate) lap: bool,
    /// What it overwrote was still inside the window.
    pub(crate) live: bool,
    /// One more than its time; 0: never.
    pub(crate) when: u8,
}

/// A slot's ring.
pub(crate) type Ring = [Entry; ENTRIES];

/// An entry that was read, seen from a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) entry: Entry,
    /// It carries a time proposed for the position.
    pub(crate) proposed: bool,
}

/// At most `limit` units in any `period`, of which the last `ring` are remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    pub(crate) limit: u8,
    pub(crate) period: u8,
    pub(crate) ring: u8,
    /// Whether refused requests count.
    pub(crate) all: bool,
}

impl Log {
    pub(crate) fn head(payload: u8) -> u8 {
        payload & ((1 << HEAD) - 1)
    }

    fn newest(payload: u8) -> u8 {
        payload >> NEWEST
    }

    /// The word of a log with times.
    fn live(newest: u8, head: u8) -> u8 {
        newest.min(LATEST) << NEWEST | LIVE | head
    }

    /// Which entry a position has, and its lap's low bit. Positions count modulo two laps.
    pub(crate) fn place(self, position: u8) -> (usize, bool) {
        let position = position % (2 * self.ring);
        (usize::from(position % self.ring), position >= self.ring)
    }

    /// The entry where the position will be or was proposed.
    pub(crate) fn read(self, ring: &Ring, position: u8) -> Seen {
        let (index, lap) = self.place(position);
        Seen { entry: ring[index], proposed: ring[index].lap == lap }
    }

    /// The position, a lap ahead of it, that overwrites the one so far behind the head.
    pub(crate) fn over(self, payload: u8, back: u8) -> u8 {
        Self::head(payload) + 3 * self.ring - back
    }

    /// Whether the entry is still inside the window that ends at `now`.
    pub(crate) fn is_inside(self, seen: Seen, now: u8) -> bool {
        let had_left = seen.proposed && !seen.entry.live;
        !had_left && seen.entry.when > 0 && seen.entry.when - 1 + self.period > now
    }

    /// The payload once so many more are logged. A lap raises its time.
    pub(crate) fn logged(self, payload: u8, now: u8, cost: u8) -> u8 {
        let (passed, around) = (Self::head(payload) + cost, 2 * self.ring);
        let lap = u8::from(passed >= around);
        Self::live((Self::newest(payload) + lap).max(now / 2 + 1), passed % around)
    }

    pub(crate) fn expired(self, payload: u8, now: u8) -> bool {
        payload & LIVE == 0 || 2 * Self::newest(payload) + self.period <= now
    }

    /// The payload after a reset, which raises its time.
    pub(crate) fn forgiven(payload: u8) -> u8 {
        Self::bumped(payload) & !LIVE
    }

    pub(crate) fn bumped(payload: u8) -> u8 {
        let newest = (Self::newest(payload) + 1).min(LATEST);
        newest << NEWEST | payload & (LIVE | (LIVE - 1))
    }

    /// The payload once the newest units are given back, if they are those that `charged` it and
    /// are not gone.
    pub(crate) fn given_back(self, payload: u8, charged: u8, (since, now): (u8, u8), cost: u8) -> Option<u8> {
        let gone = self.expired(payload, now) || since + self.period <= now;
        let (head, around) = (Self::head(payload), 2 * self.ring);
        let newest = Self::newest(payload).saturating_sub((head < cost).into());
        (payload == charged && !gone).then(|| Self::live(newest, (head + around - cost) % around))
    }

    /// A slot that logged these times, oldest first.
    pub(crate) fn restored(self, times: &[u8]) -> (Word, Ring) {
        let mut ring = Ring::default();
        for (entry, time) in ring.iter_mut().zip(times) {
            entry.when = time + 1;
        }
        let newest = times.last().map_or(0, |time| time / 2 + 1);
        let head = times.len() as u8 % (2 * self.ring);
        (Word::default().charged(Self::live(newest, head)), ring)
    }
}
