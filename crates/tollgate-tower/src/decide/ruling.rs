//! The decision on one request as it grows, rule by rule.

use std::iter::empty;
use std::time::Duration;

use http::HeaderValue;
use tollgate::{Outcome, Timestamp};

use super::Rules;
use super::charges::{Charge, Charges, Of, shown};
use crate::backend::Reply;
use crate::headers::{Note, Shown};
use crate::rule::{Asked, Limits, MOST_RULES, Ruled};
use crate::{Reason, Told};

/// What has been decided so far.
pub(super) struct Ruling<'l, 'v> {
    rules: &'l Rules,
    /// Given back when they are dropped before they are settled.
    pub(super) charges: Charges<'l>,
    verdict: &'v mut Verdict,
    /// When the last of the queues lets the request go.
    pub(super) departure: Option<Timestamp>,
}

/// What was decided, apart from the limits that decided it.
#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) tales: Tales,
    pub(crate) note: Note,
    /// `None`: admitted.
    pub(crate) denial: Option<Box<Denial>>,
}

/// Why a request was refused.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    /// The rule, by its place.
    pub(crate) rule: usize,
    /// Which of the rule's limits, and the number of the one that refuses; `None` when no limit of ours did.
    pub(crate) by: Option<(usize, usize)>,
    pub(crate) reason: Reason,
    pub(crate) cost: u64,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after: Option<Duration>,
}

impl Denial {
    /// No limit decided it.
    fn by_nobody(rule: usize, reason: Reason, cost: u64) -> Self {
        Self { rule, by: None, reason, cost, limit: 0, remaining: 0, retry_after: None }
    }
}

/// What each rule said, in the order in which they said it.
pub(crate) struct Tales {
    /// A rule, by its place, and what it said. One whose backend failed may say two things.
    said: [(u8, Told); 2 * MOST_RULES],
    len: usize,
    /// What the request costs, by rule.
    costs: [u64; MOST_RULES],
}

impl Default for Tales {
    fn default() -> Self {
        Self { said: [(0, Told::Allowed); 2 * MOST_RULES], len: 0, costs: [0; MOST_RULES] }
    }
}

impl Tales {
    fn push(&mut self, rule: usize, told: Told, cost: u64) {
        self.said[self.len] = (rule as u8, told);
        self.len += 1;
        self.costs[rule] = cost;
    }

    /// The place of each rule that spoke, what it said, and what the request costs by it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Told, u64)> {
        let said = self.said[..self.len].iter();
        said.map(|&(rule, told)| (rule.into(), told, self.costs[usize::from(rule)]))
    }
}

impl Limits {
    /// What the limits would say now.
    pub(super) fn look(&self, asked: Asked<'_>) -> Ruled<'_> {
        self.engine.look(asked.key, asked.cost)
    }
}

impl<'l, 'v> Ruling<'l, 'v> {
    #[inline]
    pub(super) fn new(rules: &'l Rules, verdict: &'v mut Verdict) -> Self {
        Self { rules, charges: Charges::new(), verdict, departure: None }
    }

    /// Whether the request is admitted and has to wait.
    pub(super) fn departs_later(&self) -> bool {
        self.verdict.denial.is_none() && self.departure.is_some()
    }

    /// Asks a rule's limits. `false`: the request is refused. So it is with the other verbs.
    pub(super) fn ask(&mut self, rule: usize, limits: &'l Limits, asked: Asked<'_>) -> bool {
        let (max_wait, shadow) = (self.rules.rules[rule].max_wait, self.rules.rules[rule].shadow);
        if limits.queue.is_some() && !shadow {
            // Not charged and given back: who came in between would stand behind a place that nobody takes.
            let seen = limits.look(asked);
            if seen.delay() > max_wait {
                return self.too_late(rule, limits, asked, &seen, max_wait);
            }
        }
        let decision = limits.engine.check(asked.key, asked.cost);
        match decision.outcome() {
            Outcome::Allowed => {}
            Outcome::Denied => {
                let retry_after = decision.retry_after();
                return self.refused(rule, limits, asked, &decision, Reason::Limited, retry_after);
            }
            Outcome::Never => return self.refused(rule, limits, asked, &decision, Reason::Never, None),
        }
        if limits.queue.is_some() && !shadow {
            let delay = decision.delay();
            if delay > max_wait {
                let goes_on = self.too_late(rule, limits, asked, &decision, max_wait);
                limits.engine.refund(decision);
                return goes_on;
            }
            if !delay.is_zero() {
                self.departure = self.departure.max(Some(limits.engine.now() + delay));
            }
        }
        self.tell(rule, Told::Allowed, asked.cost);
        self.charges.push(Charge { rule, shadow, of: Of::Here(limits, decision) });
        true
    }

    fn too_late(
        &mut self,
        rule: usize,
        limits: &'l Limits,
        asked: Asked<'_>,
        decision: &Ruled<'_>,
        max_wait: Duration,
    ) -> bool {
        let retry_after = decision.delay().saturating_sub(max_wait);
        self.refused(rule, limits, asked, decision, Reason::Limited, Some(retry_after))
    }

    fn refused(
        &mut self,
        rule: usize,
        limits: &'l Limits,
        asked: Asked<'_>,
        decision: &Ruled<'_>,
        reason: Reason,
        retry_after: Option<Duration>,
    ) -> bool {
        // A limit that refuses, or else the queue in which the wait is too long.
        let number = decision.refused_by().or(limits.queue).unwrap_or(0);
        let part = decision.parts().nth(number);
        let denial = Denial {
            rule,
            by: Some((asked.limits, number)),
            reason,
            cost: asked.cost,
            limit: part.map_or(0, |(_, numbers)| numbers.limit),
            remaining: part.map_or(0, |(_, numbers)| numbers.remaining),
            retry_after,
        };
        self.deny(denial, limits.shown(decision), || limits.policy_of(decision))
    }

    /// Takes what a backend said.
    pub(super) fn reply(&mut self, rule: usize, reply: Reply, cost: u64) -> bool {
        let (name, shadow) = (&*self.rules.rules[rule].name, self.rules.rules[rule].shadow);
        let (reason, retry_after) = match reply.outcome {
            Outcome::Allowed => {
                self.tell(rule, Told::Allowed, cost);
                self.charges.push(Charge { rule, shadow, of: Of::There(name, reply) });
                return true;
            }
            Outcome::Denied => (Reason::Limited, Some(reply.wait)),
            Outcome::Never => (Reason::Never, None),
        };
        let Reply { limit, remaining, .. } = reply;
        let denial = Denial { rule, by: None, reason, cost, limit, remaining, retry_after };
        self.deny(denial, [shown(name, reply)].into_iter(), || None)
    }

    /// The request has no key.
    pub(super) fn no_key(&mut self, rule: usize) -> bool {
        self.deny(Denial::by_nobody(rule, Reason::NoKey, 0), empty(), || None)
    }

    /// A rule's backend failed, which refuses the request.
    pub(super) fn unavailable(&mut self, rule: usize, cost: u64) -> bool {
        self.deny(Denial::by_nobody(rule, Reason::Unavailable, cost), empty(), || None)
    }

    /// A rule's backend failed, which does not decide the request.
    pub(super) fn failed(&mut self, rule: usize, cost: u64) {
        self.tell(rule, Told::Failed, cost);
    }

    fn tell(&mut self, rule: usize, told: Told, cost: u64) {
        self.verdict.tales.push(rule, told, cost);
    }

    fn deny<'s>(
        &mut self,
        denial: Denial,
        shown: impl Iterator<Item = Shown<'s>>,
        policy: impl FnOnce() -> Option<HeaderValue>,
    ) -> bool {
        let Denial { rule, cost, reason, .. } = denial;
        self.tell(rule, reason.told(), cost);
        let shadow = self.rules.rules[rule].shadow;
        if !shadow {
            self.verdict.denial = Some(Box::new(denial));
            self.verdict.note = Note::of(self.rules.styles, shown, policy);
        }
        shadow
    }

    /// Completes the verdict. The charges stay where they are, and are given back with them unless the request is
    /// admitted.
    #[inline]
    pub(super) fn end(&mut self) {
        if self.verdict.denial.is_none() {
            self.verdict.note = self.charges.note(self.rules.styles);
            self.charges.settle();
        }
    }
}
