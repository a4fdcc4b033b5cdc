//! The decision on one request as it grows, rule by rule.

use std::time::Duration;

use http::HeaderValue;
use smallvec::SmallVec;
use tollgate::{Outcome, Timestamp};

use super::Rules;
use super::charges::{Charge, Charges, Of};
use crate::backend::Reply;
use crate::headers::{Note, Numbers, Showing};
use crate::rule::{Asked, Engine, Limits, MOST_RULES, Place, Ruled};
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
    /// In the order in which they were said, if anybody listens. A rule whose backend failed may say two things.
    pub(crate) tales: SmallVec<[Tale; MOST_RULES]>,
    pub(crate) note: Note,
    /// `None`: admitted.
    pub(crate) denial: Option<Box<Denial>>,
}

/// Why a request was refused.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    /// The rule, by its place.
    pub(crate) rule: usize,
    /// Which limits; `None` when no limit of ours refused.
    pub(crate) by: Option<By>,
    pub(crate) reason: Reason,
    pub(crate) cost: u64,
    /// Those of the limit that refuses for longest; `None` when no limit did.
    pub(crate) numbers: Option<Numbers>,
    pub(crate) retry_after: Option<Duration>,
}

/// Which limits of a rule refused a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    /// The rule's own, a tier's, or a key's: by their place.
    pub(crate) limits: usize,
    /// The number of the one that refuses for longest.
    pub(crate) number: usize,
    /// A bit for each that refuses, by its number.
    pub(crate) all: u64,
}

impl Denial {
    /// No limit decided it.
    fn by_nobody(rule: usize, reason: Reason, cost: u64) -> Self {
        Self { rule, by: None, reason, cost, numbers: None, retry_after: None }
    }
}

/// What a rule said.
pub(crate) struct Tale {
    /// By its place.
    pub(crate) rule: usize,
    pub(crate) told: Told,
    /// What the request costs by it.
    pub(crate) cost: u64,
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
    #[inline]
    pub(super) fn ask(&mut self, rule: usize, limits: &'l Limits, asked: Asked<'_>) -> bool {
        let Asked { key, cost, .. } = asked;
        match &limits.engine {
            _ if limits.may_queue() && !self.rules.rules[rule].shadow => {
                self.ask_a_queue(rule, limits, asked)
            }
            Engine::One(limiter) => {
                let decision = limiter.check_n(key, cost);
                self.take(rule, limits, asked, decision.is_allowed(), decision)
            }
            Engine::Several(limiter) => {
                let decision = limiter.check_n(key, cost);
                self.take(rule, limits, asked, decision.is_allowed(), decision)
            }
        }
    }

    fn ask_a_queue(&mut self, rule: usize, limits: &'l Limits, asked: Asked<'_>) -> bool {
        let max_wait = self.rules.rules[rule].max_wait;
        if let Some(place) = limits.vacant_place(asked, max_wait) {
            // Who left it was charged: of the queue as it is, nothing is taken.
            let seen = limits.engine.look(asked.key, 0);
            return self.wait_for(rule, limits, asked.cost, seen, place);
        }
        // Not charged and given back: who came in between would stand behind a place that nobody takes.
        let seen = limits.engine.look(asked.key, asked.cost);
        if seen.delay() > max_wait {
            return self.too_late(rule, limits, asked, &seen, seen.delay() - max_wait);
        }
        let era = limits.era();
        let decision = limits.engine.check(asked.key, asked.cost);
        let delay = decision.delay();
        if delay.is_zero() {
            return self.take(rule, limits, asked, decision.is_allowed(), decision);
        }
        let departure = limits.engine.now() + delay;
        let place = Place { key: asked.key.into(), departure, units: asked.cost, era };
        if delay > max_wait {
            let goes_on = self.too_late(rule, limits, asked, &decision, delay - max_wait);
            limits.give_back(decision, Some(place));
            return goes_on;
        }
        self.wait_for(rule, limits, asked.cost, decision, place)
    }

    /// Takes a place in a queue, which limits decided, or saw when another had left it.
    fn wait_for(
        &mut self,
        rule: usize,
        limits: &'l Limits,
        cost: u64,
        ruled: Ruled<'l>,
        place: Place,
    ) -> bool {
        self.departure = self.departure.max(Some(place.departure));
        self.tell(rule, Told::Allowed, cost);
        self.charges.push_waiting(Charge { rule, shadow: false, of: Of::Here(limits, ruled) }, place);
        true
    }

    /// Takes what limits decided.
    // Inlined, and made a `Ruled` only where it goes: a decision is then written where it stays, and not moved three times.
    #[inline(always)]
    fn take(
        &mut self,
        rule: usize,
        limits: &'l Limits,
        asked: Asked<'_>,
        is_allowed: bool,
        decision: impl Into<Ruled<'l>>,
    ) -> bool {
        if !is_allowed {
            return self.refuse(rule, limits, asked, decision.into());
        }
        self.tell(rule, Told::Allowed, asked.cost);
        if self.outlives(rule) {
            let shadow = self.rules.rules[rule].shadow;
            self.charges.push(Charge { rule, shadow, of: Of::Here(limits, decision.into()) });
        }
        true
    }

    /// Whether anybody may give back, or show, what this rule has just charged. If not, its decision need not be kept.
    #[inline]
    fn outlives(&self, rule: usize) -> bool {
        let rules = self.rules;
        let is_last = rule + 1 == rules.rules.len();
        !rules.styles.is_empty()
            || !is_last
            || self.departure.is_some()
            || rules.rules[rule].charge_if.is_some()
    }

    #[inline(never)]
    fn refuse(&mut self, rule: usize, limits: &'l Limits, asked: Asked<'_>, decision: Ruled<'l>) -> bool {
        let (reason, retry_after) = match decision.outcome() {
            Outcome::Never => (Reason::Never, None),
            _ => (Reason::Limited, decision.retry_after()),
        };
        if let (Some((_, queue)), Some(retry_after)) = (limits.longest_queue(&decision), retry_after) {
            // Whoever comes as soon as there is room finds the queue as long as it may be.
            let wait = queue.saturating_sub(self.rules.rules[rule].max_wait);
            if wait > retry_after {
                return self.too_late(rule, limits, asked, &decision, wait);
            }
        }
        // The limit that refuses for longest.
        let number = decision.refused_by().unwrap_or(0);
        let (numbers, all) = (decision.numbers(number), decision.refusing());
        let by = Some(By { limits: asked.limits, number, all });
        let denial = Denial { rule, by, reason, cost: asked.cost, numbers, retry_after };
        self.deny(denial, || limits.policy_of(all), |showing| limits.show(&decision, showing))
    }

    /// The wait in the queue would be longer than it may be, until this time has passed. However much room it has, nothing
    /// of it is left for such a request.
    fn too_late(
        &mut self,
        rule: usize,
        limits: &'l Limits,
        asked: Asked<'_>,
        decision: &Ruled<'_>,
        retry_after: Duration,
    ) -> bool {
        let number = limits.longest_queue(decision).map_or(0, |(number, _)| number);
        let limit = decision.numbers(number).map_or(0, |numbers| numbers.limit);
        let shown = Numbers { limit, remaining: 0, reset: retry_after };
        let all = 1 << number;
        let denial = Denial {
            rule,
            by: Some(By { limits: asked.limits, number, all }),
            reason: Reason::Limited,
            cost: asked.cost,
            numbers: Some(shown),
            retry_after: Some(retry_after),
        };
        self.deny(denial, || limits.policy_of(all), |showing| showing.limit(limits.name(number), shown))
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
        let numbers = reply.numbers();
        let denial = Denial { rule, by: None, reason, cost, numbers: Some(numbers), retry_after };
        self.deny(denial, || None, |showing| showing.limit(name, numbers))
    }

    /// The request has no key.
    pub(super) fn no_key(&mut self, rule: usize) -> bool {
        self.deny(Denial::by_nobody(rule, Reason::NoKey, 0), || None, |_| {})
    }

    /// A rule's backend failed, which refuses the request.
    pub(super) fn unavailable(&mut self, rule: usize, cost: u64) -> bool {
        self.deny(Denial::by_nobody(rule, Reason::Unavailable, cost), || None, |_| {})
    }

    /// A rule's backend failed, which does not decide the request.
    pub(super) fn failed(&mut self, rule: usize, cost: u64) {
        self.tell(rule, Told::Failed, cost);
    }

    fn tell(&mut self, rule: usize, told: Told, cost: u64) {
        if self.rules.hooks.listen() {
            self.verdict.tales.push(Tale { rule, told, cost });
        }
    }

    fn deny(
        &mut self,
        denial: Denial,
        policy: impl FnOnce() -> Option<HeaderValue>,
        show: impl FnOnce(&mut Showing<'_>),
    ) -> bool {
        let Denial { rule, cost, reason, numbers, .. } = denial;
        self.tell(rule, reason.told(), cost);
        let shadow = self.rules.rules[rule].shadow;
        if !shadow {
            self.verdict.denial = Some(Box::new(denial));
            self.verdict.note = Note::of(self.rules.styles, policy, show).in_short(numbers);
        }
        shadow
    }

    /// Completes the verdict. The charges stay where they are, and are given back with them unless the request is
    /// admitted.
    #[inline]
    pub(super) fn end(&mut self) {
        if self.verdict.denial.is_none() {
            if !self.rules.styles.is_empty() {
                self.verdict.note = self.charges.note(self.rules.styles);
            }
            self.charges.settle();
        }
    }
}
