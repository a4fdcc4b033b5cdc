//! One thread's access to rules that are exchanged, with what its user derives from them.
//!
//! ```text
//!   refresh -> derive, if the rules are others -> read the request by the derived value -> ask
//!      ^                                                                                    |
//!      '----------- an exchange overtook it: the charges are given back -------------------'
//! ```

use std::fmt;
use std::sync::Arc;

use tollgate::{Clock, TscClock};

use super::Handle;
use crate::request::Request;
use crate::set::{Ask, Asked, RuleSet, Scratch, StoredAnswer, Together, Verdict};

/// The most requests decided together whose buffers a session keeps.
const KEPT: usize = 16;

/// A value that is derived from one generation of rules: whom they trust to name clients, counters,
/// headers.
pub trait OfRules<C> {
    /// The rules that it is derived from.
    fn rules(&self) -> &Arc<RuleSet<C>>;
}

/// A [`Handle`] with the buffers of a thread, and what the thread derives from the rules in force.
///
/// When would I want this? When what a request is depends on the rules, such as which header names
/// its client, or when what follows its decision does.
///
/// **Guarantee.** A request is decided by the rules that its [`Round`]'s derived value is of.
///
/// **Cost.** Two loads of a word a request, besides its decision; both stay in the thread's cache
/// between exchanges. No reference count is written.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::ManualClock;
/// use tollgate_rules::{Ask, LiveRules, OfRules, PlainRequest, RuleSet, Rules, Session};
///
/// struct Generation {
///     set: Arc<RuleSet<ManualClock>>,
///     trusts_proxies: bool,
/// }
///
/// impl OfRules<ManualClock> for Generation {
///     fn rules(&self) -> &Arc<RuleSet<ManualClock>> {
///         &self.set
///     }
/// }
///
/// let derive = |set: &Arc<RuleSet<ManualClock>>| {
///     let trusts_proxies = !set.rules().clients.trusted_proxies.is_empty();
///     Arc::new(Generation { set: Arc::clone(set), trusts_proxies })
/// };
/// let live = LiveRules::new(Rules::default(), [0; 32], ManualClock::new())?;
/// let mut session = Session::new(live.handle(), derive);
/// let is_admitted = session.decide(derive, |mut round| {
///     let forwarded = [203, 0, 113, 9].into();
///     let client = round.derived().trusts_proxies.then_some(forwarded);
///     let request = PlainRequest { client, ..PlainRequest::default() };
///     Some(round.ask(&request, Ask::default(), &mut Vec::new())?.is_admitted())
/// });
/// assert!(is_admitted);
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
pub struct Session<D, C = TscClock> {
    handle: Handle<C>,
    scratch: Scratch,
    /// Those of requests that are decided together.
    scratches: Vec<Scratch>,
    derived: Arc<D>,
}

/// One attempt of a [`Session`] to decide: by these rules, and by no others.
pub struct Round<'s, D, C> {
    handle: &'s Handle<C>,
    scratch: &'s mut Scratch,
    scratches: &'s mut Vec<Scratch>,
    derived: &'s Arc<D>,
}

impl<D: OfRules<C>, C: Clock + Clone + 'static> Session<D, C> {
    /// A session of a thread. `derive` is that of [`decide`](Self::decide).
    pub fn new(mut handle: Handle<C>, derive: impl FnOnce(&Arc<RuleSet<C>>) -> Arc<D>) -> Self {
        let derived = derive(handle.refresh());
        Self { handle, scratch: Scratch::default(), scratches: Vec::new(), derived }
    }

    /// Decides by the rules in force. `by` is called again where it returns `None`, as it does
    /// where [`Round::ask`] does.
    ///
    /// `derive` is called with rules that are others than those of the last request. It may return
    /// a value of newer ones.
    #[inline]
    pub fn decide<T>(
        &mut self,
        derive: impl Fn(&Arc<RuleSet<C>>) -> Arc<D>,
        mut by: impl FnMut(Round<'_, D, C>) -> Option<T>,
    ) -> T {
        loop {
            while !self.is_current() {
                self.derived = derive(self.handle.rules());
            }
            let Self { handle, scratch, scratches, derived } = self;
            if let Some(done) = by(Round { handle, scratch, scratches, derived }) {
                self.scratches.truncate(KEPT);
                return done;
            }
        }
    }

    /// Fetches the rules in force. Returns whether the derived value is of them.
    #[inline]
    pub fn is_current(&mut self) -> bool {
        Arc::ptr_eq(self.handle.refresh(), self.derived.rules())
    }

    /// The handle and the buffers, for what needs nothing derived.
    pub fn parts(&mut self) -> (&mut Handle<C>, &mut Scratch) {
        (&mut self.handle, &mut self.scratch)
    }
}

impl<'s, D, C: Clock + Clone + 'static> Round<'s, D, C> {
    /// The value that is derived from the rules that decide.
    #[inline]
    #[must_use]
    pub fn derived(&self) -> &'s Arc<D> {
        self.derived
    }

    /// Decides a request: [`RuleSet::ask_answered`]. `None`: an exchange of rules overtook it, as
    /// of [`Handle::ask`]. What it was charged was given back.
    #[inline]
    pub fn ask<'v>(
        &'v mut self,
        request: &dyn Request,
        ask: Ask,
        answers: &mut Vec<StoredAnswer>,
    ) -> Option<Verdict<'v, C>> {
        self.scratch.bring(answers);
        let by = |set: &RuleSet<C>, scratch: &mut Scratch| set.decide(request, ask, scratch);
        self.handle.decide_once(self.scratch, by, |set, (), scratch| set.undo(scratch))?;
        Some(self.handle.set.verdict(self.scratch))
    }

    /// Decides requests together: [`RuleSet::ask_together`]. `None` as of [`ask`](Self::ask).
    pub fn ask_together<'v, R: Request>(
        &'v mut self,
        asked: &mut [Asked<R>],
        are_refused: bool,
    ) -> Option<Together<'v, C>> {
        let count = asked.len();
        let fate = self.handle.decide_once(
            self.scratches,
            |set, scratches| set.decide_together(asked, are_refused, scratches),
            |set, _, scratches| set.undo_all(&mut scratches[..count]),
        )?;
        Some(self.handle.set.together(self.scratches, count, fate))
    }
}

impl<D, C> fmt::Debug for Session<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl<D, C> fmt::Debug for Round<'_, D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").finish_non_exhaustive()
    }
}
