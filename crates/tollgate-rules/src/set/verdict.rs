//! The answer of all rules to a request.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate::{Clock, Timestamp, TscClock};

use crate::matcher::Concerned;
use crate::rule::{Cost, Rule};
use crate::set::RuleSet;
use crate::set::line::Line;
use crate::set::ruling::Ruling;
use crate::set::scratch::{Charge, Scratch};
use crate::set::stored::{SetId, StoredAsk};
use crate::set::ticket::{OwnedCharge, OwnedCost, OwnedReceipt, OwnedStored, Ticket};

/// What all rules together say of a request.
///
/// Dropping it keeps the charges, and gives back the places in flight: a server takes the
/// [`ticket`](Self::ticket) and keeps it until the request has been served.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::ManualClock;
/// use tollgate_rules::{PlainRequest, RuleSet, Ruling, Scratch};
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\nrule = [\
///     { name = 'all', key = 'everyone', limits = 'fixed-window:2/min' },\
///     { name = 'each', key = 'client', limits = 'fixed-window:1/min' }]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let set = RuleSet::new(rules, ManualClock::new())?;
/// let mut scratch = Scratch::default();
/// let client = |last| Some([203, 0, 113, last].into());
/// let from = |last| PlainRequest { client: client(last), ..Default::default() };
///
/// assert!(set.check(&from(1), &mut scratch).is_admitted());
/// let verdict = set.check(&from(1), &mut scratch);
/// assert_eq!(verdict.outcome(), Ruling::Refused);
/// assert_eq!(verdict.refused_by().map(|rule| &*rule.name), Some("each"));
/// assert_eq!(verdict.retry_after(), Some(Duration::from_secs(60)));
/// let [all, _] = verdict.lines() else { panic!("two rules were asked") };
/// assert_eq!((all.ruling, all.remaining), (Ruling::Admitted, 1)); // and it was not charged
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
#[must_use = "a verdict that is not looked at limits nothing"]
pub struct Verdict<'s, C = TscClock> {
    set: &'s RuleSet<C>,
    scratch: &'s mut Scratch,
    /// The enforced line that refuses longest.
    refusing: Option<usize>,
    /// Whether a status has settled all charges, and they stay.
    is_settled: bool,
}

/// What a rule says of a request, without its numbers: see [`Verdict::answers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleAnswer {
    /// The rule's index in [`Rules::rules`](crate::Rules::rules).
    pub rule: usize,
    /// What becomes of the request by this rule.
    pub ruling: Ruling,
    /// Whether the rule is in shadow mode: its answer is told to no client.
    pub is_shadow: bool,
}

/// The enforced line that refuses longest: the first of equal ones.
fn longest_refusal(lines: &[Line]) -> Option<usize> {
    let refuses = |(_, line): &(usize, &Line)| !line.is_shadow && line.ruling != Ruling::Admitted;
    let refusals = lines.iter().enumerate().filter(refuses);
    refusals.max_by_key(|(index, line)| (line.severity(), Reverse(*index))).map(|(index, _)| index)
}

impl<'s, C> Verdict<'s, C> {
    pub(super) fn new(set: &'s RuleSet<C>, scratch: &'s mut Scratch) -> Self {
        let refusing = match scratch.lines.written() {
            Some(lines) => longest_refusal(lines),
            // Only a rule that is alone refuses the short way.
            None => scratch.charges.refused_briefly().map(|_| 0),
        };
        Self { set, scratch, refusing, is_settled: false }
    }

    fn refusing(&self) -> Option<&Line> {
        self.refusing.map(|index| &self.lines()[index])
    }

    /// What becomes of the request. Of several refusals it is that of
    /// [`refused_by`](Self::refused_by).
    #[must_use]
    pub fn outcome(&self) -> Ruling {
        self.refusing().map_or(Ruling::Admitted, |line| line.ruling)
    }

    /// Whether every enforced rule that concerns the request admits it. True where none does.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.refusing.is_none()
    }

    /// The rule that refuses the request: of several, one that refuses it for good, or else the one
    /// with the longest wait.
    #[must_use]
    pub fn refused_by(&self) -> Option<&'s Rule> {
        self.refusing().map(|line| &self.set.rules().rules[line.rule])
    }

    /// How long until the request would be admitted, if no other request comes. `None` if it was
    /// admitted, never will be, or if that depends on when requests in flight end.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusing().and_then(|line| line.retry_after)
    }

    /// How long an admitted request is to wait before it acts: until its turn in the last of its
    /// queues.
    #[must_use]
    pub fn delay(&self) -> Duration {
        // No queue is among the rules whose lines are not written yet.
        let lines = self.scratch.lines.written().unwrap_or_default();
        let enforced = lines.iter().filter(|line| !line.is_shadow && self.is_admitted());
        enforced.map(|line| line.delay).max().unwrap_or_default()
    }

    /// What each rule says that concerns the request, by ascending index: also those in shadow
    /// mode.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        self.scratch.lines.get_or_write(|lines| self.set.show_kept(self.scratch, lines))
    }

    /// What each rule says that concerns the request, without its numbers: in the order of
    /// [`lines`](Self::lines), and cheaper.
    pub fn answers(&self) -> impl Iterator<Item = RuleAnswer> {
        let answer =
            |line: &Line| RuleAnswer { rule: line.rule, ruling: line.ruling, is_shadow: line.is_shadow };
        let written = self.scratch.lines.written();
        // Lines that are not written yet are of enforced rules that all say the same.
        let ruling = self.scratch.charges.refused_briefly().map_or(Ruling::Admitted, Ruling::from);
        let alike = move |one: &Concerned| RuleAnswer { rule: one.rule, ruling, is_shadow: false };
        let unwritten = if written.is_none() { self.scratch.found.concerned() } else { &[] };
        written.unwrap_or_default().iter().map(answer).chain(unwritten.iter().map(alike))
    }

    /// The key under which the rule of a line, by its index in [`lines`](Self::lines), counts the
    /// request: see [`Found::key`](crate::Found::key). `None` if there is no such line.
    #[must_use]
    pub fn key(&self, line: usize) -> Option<&[u8]> {
        let concerned = self.scratch.found.concerned().get(line)?;
        Some(self.scratch.found.key(concerned))
    }

    /// The stores that are to be asked before the request can be decided: empty if it is decided.
    /// If not, nothing was charged, and the verdict refuses. Their answers are for
    /// [`RuleSet::ask_answered`].
    #[must_use]
    pub fn unasked(&self) -> Vec<StoredAsk> {
        unasked(self.set.id, self.scratch)
    }

    /// Whether no rule concerns the request. It is admitted then.
    #[must_use]
    pub fn is_unmatched(&self) -> bool {
        self.scratch.found.concerned().is_empty()
    }

    /// The rules that decided.
    #[must_use]
    pub fn rules(&self) -> &'s [Rule] {
        &self.set.rules().rules
    }

    /// The time of the decision: all waits count from it.
    #[must_use]
    pub fn decided_at(&self) -> Timestamp {
        self.scratch.now
    }
}

impl<C: Clock + Clone + 'static> Verdict<'_, C> {
    /// Tells the status of the response at once, as of a line of a log: rules with `charge_if` that
    /// do not list it give back what they charged, in shadow mode, too.
    ///
    /// A server whose response comes later takes the [`ticket`](Self::ticket).
    pub fn settle(&mut self, status: u16) {
        let gives_back = |one: &Concerned| {
            self.set.limited(one).charge_if.as_ref().is_some_and(|statuses| !statuses.contains(&status))
        };
        if !self.scratch.found.concerned().iter().any(gives_back) {
            // The kept offers of the short way stay, for lines that are written later.
            self.scratch.charges.quotas.clear();
            self.scratch.charges.stored.clear();
            self.is_settled = true;
            return;
        }
        self.forget_settled();
        if !self.scratch.charges.brief.is_empty() {
            // They are written from the kept offers, which are spent here.
            let _ = self.lines();
        }
        let Scratch { found, charges, now, .. } = &mut *self.scratch;
        let concerned = found.concerned();
        for Charge { line, receipt } in charges.take().rev() {
            let limited = self.set.limited(&concerned[line]);
            if limited.charge_if.as_ref().is_some_and(|statuses| !statuses.contains(&status))
                && let Some(current) = &self.set.allowance(&concerned[line]).quotas
            {
                current.shared.refund_at(receipt, *now);
            }
        }
        for (line, charge) in charges.stored.drain(..) {
            let limited = self.set.limited(&concerned[line]);
            if limited.charge_if.as_ref().is_some_and(|statuses| !statuses.contains(&status)) {
                charge.give_back();
            }
        }
    }

    /// Leaves no receipt of charges that a status has settled.
    fn forget_settled(&mut self) {
        if self.is_settled {
            let _ = self.lines();
            self.scratch.charges.brief.clear();
        }
    }

    /// Gives back all that was charged, as far as the algorithms can, in shadow mode, too: the
    /// request is not served.
    pub fn cancel(mut self) {
        self.forget_settled();
        self.set.undo(self.scratch);
    }

    /// What the request may still give back, as a value that borrows nothing.
    ///
    /// **Cost.** Memory for the charges, and for no more: take it only of a request that is served.
    pub fn ticket(self) -> Ticket<C> {
        self.ticket_of(|_| true)
    }

    /// [`ticket`](Self::ticket) of the rules of which `keeps` is true, by their indices: what the
    /// others have charged stays. Places in flight are of all rules.
    pub fn ticket_of(mut self, keeps: impl Fn(usize) -> bool) -> Ticket<C> {
        self.forget_settled();
        let Scratch { found, charges, cost, .. } = &mut *self.scratch;
        let concerned = found.concerned();
        let guards = charges.guards.drain(..).map(|(_, guard)| guard).collect();
        let mut ticket = Ticket { charges: SmallVec::new(), costs: Vec::new(), guards, stored: Vec::new() };
        let keeps = |line: usize| keeps(concerned[line].rule);
        let may_differ = |one: &Concerned| match self.set.rules().rules[one.rule].cost {
            Cost::From { .. } => true,
            Cost::Fixed(1) => *cost != 1,
            Cost::Fixed(_) | Cost::Cases(_) => false,
        };
        ticket.stored.reserve_exact(charges.stored.len());
        for (line, charge) in charges.stored.drain(..).filter(|(line, _)| keeps(*line)) {
            let one = &concerned[line];
            let charge_if = self.set.limited(one).charge_if.clone();
            ticket.stored.push(OwnedStored { rule: one.rule, charge, charge_if, has_cost: may_differ(one) });
        }
        if charges.refused_briefly().is_some() {
            // A refused request has nothing to settle.
            charges.brief.clear();
        }
        let brief = charges.brief.chunk_by(|(one, _), (other, _)| one == other);
        let lines = charges.quotas.chunk_by(|one, other| one.line == other.line);
        let brief = brief.filter(|of| keeps(of[0].0)).count();
        ticket.charges.reserve_exact(brief + lines.filter(|of| keeps(of[0].line)).count());
        let mut made = charges.take().peekable();
        while let Some(Charge { line, receipt }) = made.next() {
            let others = std::iter::from_fn(|| made.next_if(|other| other.line == line));
            let one = &concerned[line];
            let current = self.set.allowance(one).quotas.as_ref().filter(|_| keeps(line));
            let Some(current) = current else {
                others.for_each(drop);
                continue;
            };
            let (shared, charge_if) = (&current.shared, &self.set.limited(one).charge_if);
            let receipt = OwnedReceipt::of(receipt, others.map(|other| other.receipt));
            let rule = one.rule;
            if may_differ(one) {
                let (shared, charge_if, key) = (Arc::clone(shared), charge_if.clone(), found.key(one).into());
                let units = self.set.cost(one, *cost);
                ticket.costs.reserve_exact(1);
                ticket.costs.push(OwnedCost { rule, shared, charge_if, key, units, is_settled: false });
            }
            if receipt.left() > 0 {
                let (shared, charge_if) = (Arc::clone(shared), charge_if.clone());
                ticket.charges.push(OwnedCharge { rule, shared, receipt, charge_if });
            }
        }
        ticket
    }
}

/// The questions to stores that the decision in `scratch` by this set left open.
pub(super) fn unasked(set: SetId, scratch: &Scratch) -> Vec<StoredAsk> {
    let lines = scratch.lines.written().unwrap_or_default();
    let ask = |&index: &usize| {
        let (line, key) = (&lines[index], scratch.found.key(&scratch.found.concerned()[index]));
        StoredAsk::new(set, line, key, scratch.is_peek)
    };
    scratch.unasked.iter().map(ask).collect()
}

impl<C> Drop for Verdict<'_, C> {
    fn drop(&mut self) {
        self.scratch.charges.guards.clear();
    }
}

impl<C> fmt::Debug for Verdict<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("outcome", &self.outcome())
            .field("refused_by", &self.refused_by().map(|rule| &rule.name))
            .field("retry_after", &self.retry_after())
            .field("lines", &self.lines())
            .finish()
    }
}
