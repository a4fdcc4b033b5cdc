//! The limiters behind rules.
//!
//! | file | what |
//! |------|------|
//! | `allowance` | the limiters of a rule, built or shared with the generation before |
//! | `ban`, `at_once` | banned keys; requests in flight |
//! | `rule_set`, `ask` | the rules with their limiters; how a request is to be decided |
//! | `ruling`, `line`, `scratch` | what one rule says of a request; the buffers of a request |
//! | `memory` | what all limiters may come to take |
//! | `queue` | how long requests wait for their turns |
//! | `decide` | what each line says of a request |
//! | `joint`, `brief` | how rules decide a request, or several, together; the short way |
//! | `batch` | several requests, for callers |
//! | `saved` | the debts and bans for the next process |
//! | `succeed`, `conflict` | what rules take over of the rules before, and what they would forget |
//! | `stored` | rules whose counts a store keeps |
//! | `usage` | how full the tables of a rule are |
//! | `one_rule` | one rule asked by its name, without a request |
//! | `parked` | rules that are gone, and may come back |
//! | `keys` | a key of a rule, for operators |
//! | `verdict`, `ticket` | the answer of all rules; what it may still give back |

mod allowance;
mod ask;
mod at_once;
mod ban;
mod batch;
mod brief;
mod conflict;
mod decide;
mod error;
mod joint;
mod keys;
mod line;
mod memory;
mod one_rule;
mod parked;
mod queue;
mod rule_set;
mod ruling;
mod saved;
mod scratch;
mod stored;
mod succeed;
mod ticket;
mod usage;
mod verdict;

use std::mem::take;
use std::slice::from_mut;

use tollgate::{Clock, Timestamp};

use crate::matcher::Matcher;
use crate::request::Request;
use crate::rule::{Limits, Rule, Rules};
use allowance::Limited;
use decide::Round;

pub use ask::Ask;
pub use batch::{Asked, Together};
pub(crate) use conflict::OfLimit;
pub use conflict::{Cause, Conflict};
pub use error::SetError;
use joint::{Fate, Joint};
pub use keys::RuleKey;
pub use line::Line;
pub use one_rule::{AskRule, AskRuleError};
pub(crate) use parked::Parked;
pub use rule_set::RuleSet;
pub use ruling::Ruling;
pub use scratch::Scratch;
pub use stored::{StoredAnswer, StoredAsk, StoredCharge};
pub(crate) use succeed::{Change, Hindrance, Succession};
pub use ticket::Ticket;
pub use verdict::{RuleAnswer, Verdict};

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// Compiles rules and builds their limiters, which have seen no key. All go by one clock:
    /// clones of `clock` must show one time, as those of [`TscClock`](tollgate::TscClock),
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
        let is_stored = |rule: &Rule| rule.store.is_some() || rule.limits == Limits::Elsewhere;
        let has_stores = rules.rules.iter().any(is_stored);
        let (limited, id) = (limited.into(), stored::SetId::new());
        Ok(Self { rules, matcher, limited, by_name, clock, has_stores, id })
    }

    /// Decides a request, and charges it to every rule that concerns it if all admit it.
    pub fn check<'s>(&'s self, request: &dyn Request, scratch: &'s mut Scratch) -> Verdict<'s, C> {
        self.ask(request, Ask::default(), scratch)
    }

    /// [`check`](Self::check) at a time that the caller already has, as the lines of a log: see
    /// [`Limiter::at`](tollgate::Account::at).
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
            self.decide_at_length(ask, scratch);
        }
    }

    #[inline(never)]
    fn decide_at_length(&self, ask: Ask, scratch: &mut Scratch) {
        let mut turns = take(&mut scratch.turns);
        let mut round = Round::new(self, scratch, ask);
        Joint { rounds: from_mut(&mut round), turns: &mut turns }.decide(false);
        scratch.turns = turns;
        scratch.lines.finish();
    }

    /// [`ask`](Self::ask) with the answers of stores to what [`Verdict::unasked`] said. They are
    /// taken; what the decision does not use of them is given back.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ManualClock, Outcome};
    /// use tollgate_rules::{Ask, PlainRequest, RuleSet, Ruling, Scratch, StoreReply};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let text = "version = 1\nrule = [{ name = 'all', key = 'everyone', limits = '10/s', \
    ///     store = 'redis://10.0.0.7' }]";
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// let set = RuleSet::new(rules, ManualClock::new())?;
    /// let (request, mut scratch) = (PlainRequest::default(), Scratch::default());
    ///
    /// let verdict = set.check(&request, &mut scratch);
    /// assert_eq!(verdict.outcome(), Ruling::Unavailable); // no store was asked
    /// let mut asks = verdict.unasked();
    /// drop(verdict);
    /// let said = StoreReply::new(Outcome::Allowed, 10, 4, Duration::from_millis(600));
    /// let mut answers = vec![asks.remove(0).answer(said, None)];
    /// let verdict = set.ask_answered(&request, Ask::default(), &mut answers, &mut scratch);
    /// assert_eq!((verdict.is_admitted(), verdict.lines()[0].remaining), (true, 4));
    /// # Ok::<(), tollgate_rules::SetError>(())
    /// ```
    pub fn ask_answered<'s>(
        &'s self,
        request: &dyn Request,
        ask: Ask,
        answers: &mut Vec<StoredAnswer>,
        scratch: &'s mut Scratch,
    ) -> Verdict<'s, C> {
        scratch.bring(answers);
        self.ask(request, ask, scratch)
    }

    /// Decides requests together: all are admitted and charged, or none is charged. Those that
    /// `are_refused` for a reason of the caller's are not charged.
    ///
    /// The limits that the requests share count what those before them in the list take. A request
    /// whose own rules refuse it counts as refused there, as if it had come alone; one that only
    /// others are refused for changes nothing, and shows what there is without it.
    ///
    /// **Guarantee.** No limit admits more than it would alone. Requests of which one is refused
    /// before any is charged leave no trace that another thread could see. They may be charged for
    /// a short time, and given back, where one limit cannot admit all of them together, or where
    /// another thread takes what it had: as a [`RuleSet`] says of one request.
    ///
    /// **Cost.** As of each alone, and memory for the list. `scratches` grows to as many as there
    /// are requests.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{Ask, Asked, PlainRequest, RuleSet};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let text = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '5/h' }]";
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// let set = RuleSet::new(rules, ManualClock::new())?;
    /// let ask = |last, cost| {
    ///     let client = Some([203, 0, 113, last].into());
    ///     let request = PlainRequest { client, ..PlainRequest::default() };
    ///     Asked::new(request, Ask { cost, ..Ask::default() })
    /// };
    /// let mut scratches = Vec::new();
    /// let mut both = set.ask_together(&mut [ask(1, 2), ask(2, 6)], false, &mut scratches);
    /// assert!(!both.is_admitted() && both.verdict(0).is_admitted());
    /// assert!(!both.verdict(1).is_admitted());
    /// drop(both);
    /// let mut both = set.ask_together(&mut [ask(1, 2), ask(1, 3)], false, &mut scratches);
    /// assert!(both.is_admitted(), "the refused request was charged to none");
    /// assert_eq!(both.verdict(1).lines()[0].remaining, 0);
    /// # Ok::<(), tollgate_rules::SetError>(())
    /// ```
    pub fn ask_together<'s, R: Request>(
        &'s self,
        asked: &mut [Asked<R>],
        are_refused: bool,
        scratches: &'s mut Vec<Scratch>,
    ) -> Together<'s, C> {
        let fate = self.decide_together(asked, are_refused, scratches);
        self.together(scratches, asked.len(), fate)
    }

    /// Decides requests together, and leaves the decisions in `scratches`.
    pub(crate) fn decide_together<R: Request>(
        &self,
        asked: &mut [Asked<R>],
        are_refused: bool,
        scratches: &mut Vec<Scratch>,
    ) -> Fate {
        let count = asked.len();
        scratches.resize_with(scratches.len().max(count), Scratch::default);
        let mut turns = scratches.first_mut().map(|first| take(&mut first.turns)).unwrap_or_default();
        let now = self.clock.now();
        for (Asked { request, ask, answers }, scratch) in asked.iter_mut().zip(&mut *scratches) {
            scratch.bring(answers);
            scratch.clear();
            self.matcher.find(request, &mut scratch.found);
            (scratch.now, scratch.cost) = (ask.now.unwrap_or(now), ask.cost);
        }
        let rounds = asked.iter().zip(&mut *scratches);
        let mut rounds: Vec<_> = rounds.map(|(one, scratch)| Round::new(self, scratch, one.ask)).collect();
        let fate = Joint { rounds: &mut rounds, turns: &mut turns }.decide(are_refused);
        for scratch in &mut scratches[..count] {
            scratch.lines.finish();
            scratch.coming.clear();
        }
        if let Some(first) = scratches.first_mut() {
            first.turns = turns;
        }
        fate
    }

    /// The decisions that were left in `scratches`.
    pub(crate) fn together<'s>(
        &'s self,
        scratches: &'s mut [Scratch],
        count: usize,
        fate: Fate,
    ) -> Together<'s, C> {
        Together::new(self, &mut scratches[..count], fate)
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
        charges.give_back(self, found.concerned(), *now);
    }

    /// The same of requests that were decided together, the last first.
    #[cold]
    pub(crate) fn undo_all(&self, scratches: &mut [Scratch]) {
        scratches.iter_mut().rev().for_each(|scratch| self.undo(scratch));
    }
}
