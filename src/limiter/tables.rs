//! The tables of a limiter's limits.

use std::ops::{Index, IndexMut};

use crate::algorithm::AnyRule;
use crate::error::BuildError;
use crate::limiter::space::Space;
use crate::receipt::MOST_LIMITS;
use crate::sync::{Tally, TallyOrdering};
use crate::table::Table;

/// The tables of the limits, in the order in which they are charged. Each limit has one of its own,
/// so that a slot stays one word, and a bucket that is full in one table concerns no other limit.
#[derive(Debug)]
pub(crate) struct Tables<const N: usize> {
    /// The limiter's number among all of this process: receipts carry it.
    pub(crate) limiter: u64,
    /// That of the first limit: where it is, no load tells.
    pub(crate) first: Table,
    others: Box<[Table]>,
    /// Of each, the number of its limit as the user gave it.
    numbers: [u8; N],
}

/// How much of a charge may have to stay when another request was charged since; the least is
/// charged first. Buckets and windows can undo any charge. A queue and a log undo the newest only,
/// and a log forgets which that was when a refused request was counted.
fn reluctance(rule: &AnyRule) -> u8 {
    match rule {
        AnyRule::Log(_) => 2,
        rule => u8::from(rule.is_queue()),
    }
}

/// The numbers of limits with these rules, in the order in which the limits are charged.
pub(crate) fn in_order<const N: usize>(rules: &[AnyRule]) -> [u8; N] {
    let mut numbers: Vec<u8> = (0..rules.len().max(N) as u8).collect();
    // Stable: limits that are as reluctant stay in the order in which the user gave them. Places
    // without a limit stay behind.
    numbers.sort_by_key(|&number| rules.get(usize::from(number)).map_or(u8::MAX, reluctance));
    std::array::from_fn(|place| numbers[place])
}

impl<const N: usize> Tables<N> {
    /// Reserves a table for the rules of each limit, in the order in which they are charged.
    pub(crate) fn new(space: &Space, ring_lens: &[u64], numbers: [u8; N]) -> Result<Self, BuildError> {
        static LIMITERS: Tally = Tally::new(0);
        let limiter = LIMITERS.fetch_add(1, TallyOrdering::Relaxed);
        let mut tables = ring_lens.iter().map(|&ring_len| space.table(space.size(ring_len)?));
        let Some(first) = tables.next() else { unreachable!("a limiter has at least one limit") };
        Ok(Self { limiter, first: first?, others: tables.collect::<Result<_, _>>()?, numbers })
    }

    /// How many limits there are.
    #[inline]
    pub(crate) fn limits(&self) -> usize {
        // Of a list, whose length is known when the limiter is built, or of an array.
        if N == MOST_LIMITS { 1 + self.others.len() } else { N }
    }

    /// All tables.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// So many tables behind the first: the compiler knows of a slice of a constant length what it
    /// has.
    #[inline(always)]
    pub(crate) fn others(&self, count: usize) -> &[Table] {
        &self.others[..count]
    }

    /// The table of the limit of this number, as the user gave it.
    pub(crate) fn numbered(&self, number: usize) -> Option<&Table> {
        (number < self.limits()).then(|| &self[self.place(number)])
    }

    /// Where the limit of this number is in the order of charges.
    pub(crate) fn place(&self, number: usize) -> usize {
        self.numbers.iter().position(|&other| usize::from(other) == number).unwrap_or(number)
    }

    /// The places of the limits, in the order in which the user gave them.
    pub(crate) fn as_given(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        (0..self.limits()).map(|number| self.place(number))
    }

    /// The number of the limit that is charged at this place.
    pub(crate) fn number(&self, place: usize) -> usize {
        self.numbers[place].into()
    }
}

/// The table of the limit that is charged at this place.
impl<const N: usize> Index<usize> for Tables<N> {
    type Output = Table;

    #[inline(always)]
    fn index(&self, place: usize) -> &Table {
        if place == 0 { &self.first } else { &self.others[place - 1] }
    }
}

impl<const N: usize> IndexMut<usize> for Tables<N> {
    fn index_mut(&mut self, place: usize) -> &mut Table {
        if place == 0 { &mut self.first } else { &mut self.others[place - 1] }
    }
}
