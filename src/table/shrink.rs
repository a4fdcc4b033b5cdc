//! The way back: a table that has seen a spike begins again with what is still owed.

use crate::algorithm::{Moment, Numbers};
use crate::error::Error;
use crate::table::{Size, Table};

impl Table {
    /// Moves all that is owed at `at` into memory of its own, and returns the old one to the operating system: how many
    /// bytes fewer are in use.
    ///
    /// That nobody else is here is what makes this simple: a bucket that is given back while a stalled thread still has
    /// it in hand could not be told from one that nobody has used.
    pub(crate) fn shrink<R: Numbers>(&mut self, rule: &R, at: Moment) -> Result<usize, Error> {
        let size = Size { buckets: self.buckets.len(), roots: self.roots, ring_len: self.ring_len };
        let mut small = Self::new(size, self.when_full)?;
        let fits = self.debts(rule, at, |debt| if small.enter(rule, at, debt) { Ok(()) } else { Err(()) });
        debug_assert!(fits.is_ok(), "the buckets are the same, and what they held fits");
        let before = self.bytes();
        if fits.is_ok() {
            std::mem::swap(&mut small.refunds, &mut self.refunds);
            std::mem::swap(&mut small.shards, &mut self.shards);
            *self = small;
        }
        Ok(before.saturating_sub(self.bytes()))
    }
}
