//! Rules whose counts a store keeps. This crate asks no store: it lists the questions, and decides
//! by the answers.
//!
//! ```text
//!   ask -- a store is to be asked --> not charged: `Verdict::unasked`
//!    ^                                      |
//!    |                                      v
//!    '---- `ask_answered`: answers, with charges, of all those stores (the caller's part)
//! ```
//!
//! What must stay true:
//!
//! * Nothing is charged here before all stores have answered that the request needs.
//! * A store is asked only if all rules of this process admit the request.
//! * An answer counts for the rule, the key and the cost that it was asked for, by the same set.
//! * A charge of a store that the decision does not use is given back: [`Held`] is dropped.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::store::StoreReply;

use crate::set::line::Line;

/// What a store was charged, and may be given back. Dropping it keeps the charge.
pub trait StoredCharge: Send + Sync {
    /// Begins to give the charge back. It does not wait for the store.
    fn give_back(self: Box<Self>);

    /// Begins to make the charge this cost. Returns how many of its units are charged for certain;
    /// for a rule in shadow mode, whose charges concern no client, all.
    fn settle(&mut self, cost: u64) -> u64;
}

/// A question to a rule's store: see [`Verdict::unasked`](crate::Verdict::unasked).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAsk {
    /// The set that asks.
    set: SetId,
    rule: usize,
    tier: Option<usize>,
    key: Box<[u8]>,
    cost: u64,
    is_peek: bool,
}

/// The answer of a rule's store. Dropping it gives back what the store charged.
#[derive(Debug)]
pub struct StoredAnswer {
    ask: StoredAsk,
    said: Said,
    charge: Held,
}

/// What a store says.
#[derive(Debug)]
enum Said {
    Decided(StoreReply),
    /// Nothing. It may be asked again after this time, if it is known.
    Failed(Option<Duration>),
    /// Nothing yet: no request waits for a rule in shadow mode.
    Pending,
}

/// A charge that is given back when this is dropped.
struct Held(Option<Box<dyn StoredCharge>>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(charge) = self.0.take() {
            charge.give_back();
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.0.is_some()).finish()
    }
}

/// By what a set of this process is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetId(u64);

impl SetId {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

impl StoredAsk {
    pub(super) fn new(set: SetId, line: &Line, key: &[u8], is_peek: bool) -> Self {
        Self { set, rule: line.rule, tier: line.tier, key: key.into(), cost: line.cost, is_peek }
    }

    /// The rule's index in [`Rules::rules`](crate::Rules::rules).
    #[must_use]
    pub fn rule(&self) -> usize {
        self.rule
    }

    /// The index in [`Rule::tiers`](crate::Rule::tiers) of the tier whose limits apply.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.tier
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// What the request costs.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Whether nothing is to be charged.
    #[must_use]
    pub fn is_peek(&self) -> bool {
        self.is_peek
    }

    /// The store's answer, and what it charged.
    #[must_use]
    pub fn answer(self, said: StoreReply, charge: Option<Box<dyn StoredCharge>>) -> StoredAnswer {
        StoredAnswer { ask: self, said: Said::Decided(said), charge: Held(charge) }
    }

    /// The answer of a store that failed, and may be asked again after this time, if it is known.
    #[must_use]
    pub fn unavailable(self, retry_after: impl Into<Option<Duration>>) -> StoredAnswer {
        StoredAnswer { ask: self, said: Said::Failed(retry_after.into()), charge: Held(None) }
    }

    /// The answer for a rule in shadow mode before the store has decided.
    #[must_use]
    pub fn pending(self, charge: Option<Box<dyn StoredCharge>>) -> StoredAnswer {
        StoredAnswer { ask: self, said: Said::Pending, charge: Held(charge) }
    }
}

impl StoredAnswer {
    /// What a rule in shadow mode says by this answer.
    #[must_use]
    pub fn line(&self) -> Line {
        let mut line = Line::new(self.ask.rule, self.ask.tier, true, self.ask.cost);
        self.write(&mut line);
        line
    }

    /// Whether it answers what a line asks.
    pub(super) fn is_of(&self, set: SetId, line: &Line, key: &[u8], is_peek: bool) -> bool {
        let StoredAsk { set: of, rule, tier, key: own, cost, is_peek: peeked } = &self.ask;
        (*of, *rule, *tier, &**own, *cost, *peeked) == (set, line.rule, line.tier, key, line.cost, is_peek)
    }

    pub(super) fn write(&self, line: &mut Line) {
        match &self.said {
            Said::Decided(said) => line.add_stored(said),
            Said::Failed(retry_after) => line.add_unavailable(*retry_after),
            Said::Pending => line.add_pending(),
        }
    }

    /// Shows the limit without the request, whose charge is given back.
    pub(super) fn write_given_back(&self, line: &mut Line) {
        let Said::Decided(said) = &self.said else { return self.write(line) };
        let units = if self.charge.0.is_some() { self.ask.cost } else { 0 };
        let remaining = said.remaining.saturating_add(units).min(said.limit);
        line.add_stored(&StoreReply { remaining, ..*said });
    }

    /// The charge, which stays from now on.
    pub(super) fn take_charge(&mut self) -> Option<Box<dyn StoredCharge>> {
        self.charge.0.take()
    }
}
