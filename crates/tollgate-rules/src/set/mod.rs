//! The limiters behind rules.
//!
//! | file | what |
//! |------|------|
//! | `allowance` | the limiters of a rule, built or shared with the generation before |
//! | `ban`, `at_once` | banned keys; requests in flight |
//! | `line`, `scratch` | what one rule says of a request; the buffers of a request |
//! | `memory` | what all limiters may come to take |
//! | `decide`, `brief` | how rules decide a request together; the short way |
//! | `saved` | the debts and bans for the next process |
//! | `succeed`, `conflict` | what rules take over of the rules before, and what they would forget |
//! | `stored` | rules whose counts a store keeps |
//! | `usage` | how full the tables of a rule are |
//! | `one_rule` | one rule asked by its name, without a request |
//! | `parked` | rules that are gone, and may come back |
//! | `keys` | a key of a rule, for operators |
//! | `verdict`, `ticket` | the answer of all rules; what it may still give back |

mod allowance;
mod at_once;
mod ban;
mod brief;
mod conflict;
mod decide;
mod error;
mod keys;
mod line;
mod memory;
mod one_rule;
mod parked;
pub(crate) mod saved;
mod scratch;
mod stored;
mod succeed;
mod ticket;
mod usage;
mod verdict;

use std::fmt;

use tollgate::{Clock, Timestamp, TscClock};

use crate::matcher::Matcher;
use crate::request::Request;
use crate::rule::Rules;
use allowance::Limited;
use decide::Round;
use scratch::Mark;

pub(crate) use conflict::OfLimit;
pub use conflict::{Cause, Conflict};
pub use error::SetError;
pub use keys::RuleKey;
pub use line::{Line, Ruling};
pub(crate) use memory::needed as needed_memory;
pub use one_rule::{AskRule, AskRuleError};
pub(crate) use parked::Parked;
pub use saved::{NotRestored, RestoreError, SavedLimits};
pub use scratch::Scratch;
pub use stored::{StoredAnswer, StoredAsk, StoredCharge, StoredReply};
pub(crate) use succeed::{Change, Hindrance, Succession};
pub use ticket::Ticket;
pub use verdict::{RuleAnswer, Verdict};

/// How a request is to be decided: see [`RuleSet::ask`].
///
/// # Examples
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules::{Ask, Memory, PlainRequest, RuleSet, Scratch, read};
///
/// let text = "version = 1\nrule = [{ name = 'points', key = 'everyone', limits = '10/s' }]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let set = RuleSet::new(rules, ManualClock::new())?;
/// let (request, mut scratch) = (PlainRequest::default(), Scratch::default());
/// let verdict = set.ask(&request, Ask { cost: 7, ..Ask::default() }, &mut scratch);
/// assert_eq!(verdict.lines()[0].remaining, 3);
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The time; `None`: that of the rules' clock.
    pub now: Option<Timestamp>,
    /// What the request costs where the rule says nothing else, or 1. By default 1; 0 only looks.
    pub cost: u64,
    /// Whether nothing is to be charged, and no key banned.
    pub is_peek: bool,
    /// Whether limits of requests in flight are asked, too. A caller that does not know when a
    /// request ends must not ask them.
    pub in_flight: bool,
    /// A bit for each line, by its index in [`Verdict::lines`], whose limits by time are neither
    /// asked nor charged: the caller holds a turn in the rule's queue, which another request was
    /// charged for and left. The line shows the limits as they are. By default 0.
    pub held: u64,
}

impl Default for Ask {
    /// A check of cost 1, now, by all limits.
    fn default() -> Self {
        Self { now: None, cost: 1, is_peek: false, in_flight: true, held: 0 }
    }
}

/// Rules with their limiters: decides requests.
///
/// Immutable but for the limiters' state: threads share one.
///
/// **Guarantee.** Every enforced rule that concerns a request must admit it, all or nothing:
/// refused by one, charged to none. No limit ever admits more than it would alone, from any number
/// of threads. A limit that refuses a request and [counts](tollgate::CountPolicy::All) refused
/// requests counts it, and a rule with a `ban` bans the key that it refuses. Rules in shadow mode
/// are decided and charged each alone, independent of the others. When no other thread interferes
/// every answer is exact.
///
/// **What a concurrent caller can see.** A request that all limits would admit, and one then
/// refuses because another thread was faster, was charged to others for a short time, as
/// [`MultiLimiter`](tollgate::MultiLimiter) says of its limits. It errs by refusing.
///
/// **Cost.** A request reads the clock once. Each rule hashes its key and checks it; of several
/// rules, all but one are looked at before. Nothing blocks and nothing is allocated once the
/// [`Scratch`] has grown, but for a limit of requests in flight with a `ttl`: it takes a mutex and
/// memory for each request that it admits.
///
/// # Examples
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules::{Memory, PlainRequest, RuleSet, Scratch, read};
///
/// let text = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '10/s,burst=20' }]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let set = RuleSet::new(rules, ManualClock::new())?;
/// let mut scratch = Scratch::default();
/// let request = PlainRequest { client: Some([203, 0, 113, 9].into()), ..Default::default() };
/// assert!((0..20).all(|_| set.check(&request, &mut scratch).is_admitted()));
/// assert!(!set.check(&request, &mut scratch).is_admitted());
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
pub struct RuleSet<C = TscClock> {
    rules: Rules,
    matcher: Matcher,
    limited: Box<[Limited<C>]>,
    /// The numbers of the rules, sorted by name.
    by_name: Box<[usize]>,
    clock: C,
    /// Whether a store keeps the counts of a rule.
    has_stores: bool,
    id: stored::SetId,
}

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// Compiles rules and builds their limiters, which have seen no key. All go by one clock:
    /// clones of `clock` must show one time, as those of [`TscClock`],
    /// [`ManualClock`](tollgate::ManualClock) and of an `Arc` of any clock do.
    ///
    /// # Errors
    ///
    /// [`SetError`], if the rules were built in code and mean nothing, if they may come to take
    /// more than their [`memory_budget`](Rules::memory_budget), or if there is no memory.
    pub fn new(rules: Rules, clock: C) -> Result<Self, SetError> {
        memory::check(&rules)?;
        let limited = rules.rules.iter().map(|rule| Limited::new(rule, &clock)).collect::<Result<_, _>>()?;
        Self::of(rules, limited, clock)
    }

    /// Rules with these limiters.
    fn of(rules: Rules, mut limited: Vec<Limited<C>>, clock: C) -> Result<Self, SetError> {
        let matcher = Matcher::new(&rules)?;
        allowance::rank(&mut limited);
        let by_name = one_rule::by_name(&rules.rules);
        let has_stores = rules.rules.iter().any(|rule| rule.store.is_some());
        let (limited, id) = (limited.into(), stored::SetId::new());
        Ok(Self { rules, matcher, limited, by_name, clock, has_stores, id })
    }

    /// Decides a request, and charges it to every rule that concerns it if all admit it.
    pub fn check<'s>(&'s self, request: &dyn Request, scratch: &'s mut Scratch) -> Verdict<'s, C> {
        self.ask(request, Ask::default(), scratch)
    }

    /// [`check`](Self::check) at a time that the caller already has, as the lines of a log: see
    /// [`Limiter::at`](tollgate::Limiter::at).
    pub fn check_at<'s>(
        &'s self,
        request: &dyn Request,
        scratch: &'s mut Scratch,
        now: Timestamp,
    ) -> Verdict<'s, C> {
        self.ask(request, Ask { now: Some(now), ..Ask::default() }, scratch)
    }

    /// What [`check`](Self::check) would answer. Charges nothing and bans no key.
    pub fn peek<'s>(&'s self, request: &dyn Request, scratch: &'s mut Scratch) -> Verdict<'s, C> {
        self.ask(request, Ask { is_peek: true, ..Ask::default() }, scratch)
    }

    /// Decides a request as `ask` says.
    pub fn ask<'s>(&'s self, request: &dyn Request, ask: Ask, scratch: &'s mut Scratch) -> Verdict<'s, C> {
        self.decide(request, ask, scratch);
        self.verdict(scratch)
    }

    /// Decides a request, and leaves the decision in `scratch`.
    #[inline]
    pub(crate) fn decide(&self, request: &dyn Request, ask: Ask, scratch: &mut Scratch) {
        scratch.clear();
        self.matcher.find(request, &mut scratch.found);
        self.decide_found(ask, scratch);
        // An exchange of rules may have made them answers to nothing.
        scratch.coming.clear();
    }

    /// Decides the request that the rules of `scratch` concern.
    #[inline]
    fn decide_found(&self, ask: Ask, scratch: &mut Scratch) {
        scratch.now = ask.now.unwrap_or_else(|| self.clock.now());
        scratch.cost = ask.cost;
        if !self.decides_briefly(scratch, ask) {
            Round::decide(self, scratch, ask);
            scratch.lines.finish();
        }
    }

    /// The verdict that was left in `scratch`.
    #[inline]
    pub(crate) fn verdict<'s>(&'s self, scratch: &'s mut Scratch) -> Verdict<'s, C> {
        Verdict::new(self, scratch)
    }

    /// Gives the charges back, as far as the algorithms can.
    #[cold]
    pub(crate) fn undo(&self, scratch: &mut Scratch) {
        let Scratch { found, charges, now, .. } = scratch;
        charges.give_back(self, found.concerned(), Mark::default(), *now);
    }
}

impl<C> RuleSet<C> {
    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The matcher, which explains what concerns a request.
    #[must_use]
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }
}

impl<C> fmt::Debug for RuleSet<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleSet").field("rules", &self.rules.rules.len()).finish_non_exhaustive()
    }
}
