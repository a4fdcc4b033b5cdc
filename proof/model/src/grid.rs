//! Aligned windows: time divided into equal parts, the same for every key.
//!
//! ```text
//!              zero of the grid                clock zero = origin         now
//!   index  ...  | 0         | 1         | 2      '  | 3         | 4        '  |
//!               |-----------|-----------|--------'--|-----------|----------'--|---> time
//! ```
//!
//! A key's window never goes back. A clock that goes back counts as the start of the latest window
//! of the key.

use crate::rule::{Counted, clamp};

/// Windows of one length, and the position of the clock's zero among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    length: u64,
    origin: u64,
}

impl Grid {
    pub(crate) fn new(length: u64, origin: u64) -> Self {
        assert!(length > 0, "a window needs a length");
        Self { length, origin }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The time since the grid's zero.
    fn since_zero(&self, now: u64) -> u128 {
        u128::from(now) + u128::from(self.origin)
    }

    /// The start of window `index`, as a time since the grid's zero.
    fn start(&self, index: u128) -> u128 {
        index * u128::from(self.length)
    }

    /// The window at `now` for a key whose latest window is `latest`.
    pub(crate) fn index(&self, now: u64, latest: u128) -> u128 {
        latest.max(self.since_zero(now) / u128::from(self.length))
    }

    /// This window, as another grid finds it.
    pub(crate) fn counted(&self, index: u128) -> Counted {
        Counted { length: self.length, begins: self.start(index) as i128 - i128::from(self.origin) }
    }

    /// The window that takes the place of one of another grid: the first that begins at most an
    /// eighth of a window sooner, but not after the one that follows that of `now`. That of `now`
    /// where the lengths differ.
    pub(crate) fn successor(&self, counted: Option<Counted>, now: u64) -> u128 {
        let here = self.index(now, 0);
        let same = counted.filter(|counted| counted.length == self.length);
        let Some(Counted { begins, .. }) = same else { return here };
        let eighth = i128::from(self.length / 8);
        let is_late = |index: &u128| self.counted(*index).begins >= begins - eighth;
        (here.saturating_sub(2)..=here).find(is_late).unwrap_or(here + 1)
    }

    /// How much of window `index` is over; zero before it begins.
    pub(crate) fn elapsed(&self, now: u64, index: u128) -> u64 {
        clamp(self.since_zero(now).saturating_sub(self.start(index)))
    }

    /// The wait from `now` to the start of the later window `index`.
    pub(crate) fn wait_for(&self, now: u64, index: u128) -> u64 {
        self.wait_within(now, index, 0)
    }

    /// The wait from `now` to a later time: `elapsed` after the start of window `index`.
    pub(crate) fn wait_within(&self, now: u64, index: u128, elapsed: u64) -> u64 {
        clamp(self.start(index) + u128::from(elapsed) - self.since_zero(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_where_the_clock_starts_on_the_grid() {
        let grid = Grid::new(10, 25);
        assert_eq!([0, 4, 5].map(|now| grid.index(now, 0)), [2, 2, 3]);
        assert_eq!(grid.elapsed(0, 2), 5);
        assert_eq!(grid.wait_for(0, 3), 5);
    }

    #[test]
    fn a_clock_that_goes_back_stays_in_the_latest_window() {
        let grid = Grid::new(10, 0);
        assert_eq!(grid.index(5, 3), 3);
        assert_eq!(grid.elapsed(5, 3), 0);
        assert_eq!(grid.wait_for(5, 4), 35);
    }
}
