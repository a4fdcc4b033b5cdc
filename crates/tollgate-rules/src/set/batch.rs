//! Several requests that are decided together.

use tollgate::Clock;

use crate::request::Request;
use crate::rule::Rule;
use crate::set::joint::Fate;
use crate::set::scratch::Scratch;
use crate::set::stored::{StoredAnswer, StoredAsk};
use crate::set::verdict::unasked;
use crate::set::{Ask, RuleSet, Verdict};

/// A request of several that are decided together: see [`RuleSet::ask_together`].
#[derive(Debug)]
pub struct Asked<R> {
    /// The request.
    pub request: R,
    /// How it is to be decided.
    pub ask: Ask,
    /// What stores have answered for it. They are taken; what the decision does not use of them is
    /// given back.
    pub answers: Vec<StoredAnswer>,
}

impl<R: Request> Asked<R> {
    /// A request for which no store has been asked.
    pub fn new(request: R, ask: Ask) -> Self {
        Self { request, ask, answers: Vec::new() }
    }
}

/// What rules say of requests that were decided together: see [`RuleSet::ask_together`].
#[must_use = "requests whose decision is not looked at are charged all the same"]
#[derive(Debug)]
pub struct Together<'s, C> {
    set: &'s RuleSet<C>,
    scratches: &'s mut [Scratch],
    fate: Fate,
}

impl<'s, C: Clock + Clone + 'static> Together<'s, C> {
    pub(super) fn new(set: &'s RuleSet<C>, scratches: &'s mut [Scratch], fate: Fate) -> Self {
        Self { set, scratches, fate }
    }

    /// Whether all are admitted, and charged.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.fate == Fate::Admitted
    }

    /// The rules that decided.
    #[must_use]
    pub fn rules(&self) -> &'s [Rule] {
        &self.set.rules().rules
    }

    /// What the rules say of the request of this index. [`Verdict::is_admitted`] is about the
    /// request alone: it is charged only if [all are](Self::is_admitted). Places in flight that no
    /// ticket of the verdict took are given back when it is dropped.
    ///
    /// # Panics
    ///
    /// If there is no such request.
    pub fn verdict(&mut self, index: usize) -> Verdict<'_, C> {
        self.set.verdict(&mut self.scratches[index])
    }

    /// The stores that are to be asked before the request of this index can be decided:
    /// [`Verdict::unasked`]. What the requests hold in flight stays.
    ///
    /// # Panics
    ///
    /// If there is no such request.
    #[must_use]
    pub fn unasked(&self, index: usize) -> Vec<StoredAsk> {
        unasked(self.set.id, &self.scratches[index])
    }

    /// Gives back all that was charged, as far as the algorithms can, the last request first.
    pub fn cancel(self) {
        self.set.undo_all(self.scratches);
    }
}

/// Places in flight that no ticket took are given back.
impl<C> Drop for Together<'_, C> {
    fn drop(&mut self) {
        self.scratches.iter_mut().for_each(|scratch| scratch.charges.guards.clear());
    }
}
