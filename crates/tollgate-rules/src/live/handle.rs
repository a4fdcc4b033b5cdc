//! One thread's access to rules that are exchanged.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use tollgate::{Clock, TscClock};

use super::Inner;
use crate::request::Request;
use crate::set::{Ask, AskRule, AskRuleError, Asked, RuleSet, Scratch, StoredAnswer, Together, Verdict};

/// One thread's access to [`LiveRules`](super::LiveRules).
///
/// **Cost.** A check loads one word before and one after; both stay in the thread's cache between
/// reloads. After a reload it takes a mutex once, and waits there while numbers are exchanged. A
/// handle keeps its rules in memory until its next check.
///
/// # Examples
///
/// See [`LiveRules`](super::LiveRules).
pub struct Handle<C = TscClock> {
    pub(super) set: Arc<RuleSet<C>>,
    pub(super) inner: Arc<Inner<C>>,
    /// The word under which `set` is in force.
    pub(super) word: u64,
}

impl<C: Clock + Clone + 'static> Handle<C> {
    /// Decides a request by the rules in force: [`RuleSet::check`].
    pub fn check<'s>(&'s mut self, request: &dyn Request, scratch: &'s mut Scratch) -> Verdict<'s, C> {
        self.ask(request, Ask::default(), scratch)
    }

    /// Decides a request by the rules in force as `ask` says: [`RuleSet::ask`].
    ///
    /// A request that an exchange of rules overtakes is given back, as a
    /// [cancelled](Verdict::cancel) one, and decided anew. A limit that counts its refusals may
    /// count it twice, and a key that was refused under the old rules may stay banned.
    pub fn ask<'s>(
        &'s mut self,
        request: &dyn Request,
        ask: Ask,
        scratch: &'s mut Scratch,
    ) -> Verdict<'s, C> {
        let by = |set: &RuleSet<C>, scratch: &mut Scratch| set.decide(request, ask, scratch);
        self.decide(scratch, by, |set, (), scratch| set.undo(scratch));
        self.set.verdict(scratch)
    }

    /// Decides requests together by the rules in force: [`RuleSet::ask_together`]. An exchange of
    /// rules is as of [`ask`](Self::ask).
    pub fn ask_together<'s, R: Request>(
        &'s mut self,
        asked: &mut [Asked<R>],
        are_refused: bool,
        scratches: &'s mut Vec<Scratch>,
    ) -> Together<'s, C> {
        let count = asked.len();
        let fate = self.decide(
            scratches,
            |set, scratches| set.decide_together(asked, are_refused, scratches),
            |set, _, scratches| set.undo_all(&mut scratches[..count]),
        );
        self.set.together(scratches, count, fate)
    }

    /// [`ask`](Self::ask) with answers of stores: [`RuleSet::ask_answered`].
    pub fn ask_answered<'s>(
        &'s mut self,
        request: &dyn Request,
        ask: Ask,
        answers: &mut Vec<StoredAnswer>,
        scratch: &'s mut Scratch,
    ) -> Verdict<'s, C> {
        scratch.bring(answers);
        self.ask(request, ask, scratch)
    }

    /// Asks one rule by its name, as it is in force: [`RuleSet::ask_rule`]. An exchange of rules is
    /// as of [`ask`](Self::ask).
    ///
    /// # Errors
    ///
    /// As [`RuleSet::ask_rule`].
    pub fn ask_rule<'s>(
        &'s mut self,
        ask: AskRule<'_>,
        scratch: &'s mut Scratch,
    ) -> Result<Verdict<'s, C>, AskRuleError> {
        let by = |set: &RuleSet<C>, scratch: &mut Scratch| set.decide_rule(ask, scratch);
        self.decide(scratch, by, |set, found, scratch| {
            if found.is_ok() {
                set.undo(scratch);
            }
        })?;
        Ok(self.set.verdict(scratch))
    }

    /// Decides by the rules in force, and anew if an exchange overtakes it: then `undo` gives the
    /// charges back.
    fn decide<S, T>(
        &mut self,
        scratch: &mut S,
        mut by: impl FnMut(&RuleSet<C>, &mut S) -> T,
        undo: impl Fn(&RuleSet<C>, T, &mut S),
    ) -> T {
        loop {
            self.refresh();
            if let Some(decided) = self.decide_once(scratch, &mut by, &undo) {
                return decided;
            }
        }
    }

    /// Decides by the rules that this handle has. `None`: an exchange overtook it, and `undo` has
    /// given the charges back.
    pub(super) fn decide_once<S: ?Sized, T>(
        &self,
        scratch: &mut S,
        by: impl FnOnce(&RuleSet<C>, &mut S) -> T,
        undo: impl FnOnce(&RuleSet<C>, T, &mut S),
    ) -> Option<T> {
        let decided = by(&self.set, scratch);
        if self.inner.word.load(Acquire) == self.word {
            return Some(decided); // L1
        }
        undo(&self.set, decided, scratch);
        None
    }

    /// The rules by which the last request was decided.
    #[must_use]
    pub fn rules(&self) -> &Arc<RuleSet<C>> {
        &self.set
    }

    /// Fetches the rules in force, unless this handle has them: for callers that need their
    /// settings before they can ask, such as whose headers name a client. The next request may
    /// still be decided by newer ones.
    #[inline]
    pub fn refresh(&mut self) -> &Arc<RuleSet<C>> {
        if self.inner.word.load(Acquire) != self.word {
            self.fetch();
        }
        &self.set
    }

    #[cold]
    #[inline(never)]
    fn fetch(&mut self) {
        // Waits while rules are exchanged.
        let current = self.inner.current();
        self.set = Arc::clone(&current.set);
        self.word = self.inner.word.load(Acquire);
    }
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self { set: Arc::clone(&self.set), inner: Arc::clone(&self.inner), word: self.word }
    }
}

impl<C> fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("word", &self.word).finish_non_exhaustive()
    }
}
