//! What each rule says of a request.

use std::cmp::Reverse;
use std::time::Duration;

use crate::store::StoreReply;
use tollgate::{AcquireError, Outcome, Part};

use crate::set::allowance::Current;
use crate::set::queue::Queues;
use crate::set::ruling::Ruling;

/// What one rule says of a request: see [`Verdict::lines`](crate::Verdict::lines).
///
/// Of several limits of the rule, the numbers are those of the limit that refuses longest, or else
/// of the one with the least left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// The rule's index in [`Rules::rules`](crate::Rules::rules).
    pub rule: usize,
    /// The index in [`Rule::tiers`](crate::Rule::tiers) of the tier whose limits apply.
    pub tier: Option<usize>,
    /// Whether the rule is in shadow mode. What it says concerns no client.
    pub is_shadow: bool,
    /// What it says.
    pub ruling: Ruling,
    /// What the request costs.
    pub cost: u64,
    /// The number of the limit among the limits by time of the rule, or of its tier. `None` for
    /// requests in flight, and where nothing is limited.
    pub number: Option<usize>,
    /// The most that the limit admits at once; `u64::MAX` where nothing is limited.
    pub limit: u64,
    /// What the limit could still admit now: after the request if all rules admit it, else without
    /// it. Of a queue it is how many requests of cost 1 would depart within the rule's `max_wait`.
    pub remaining: u64,
    /// How long until this rule would admit the request. `None` if it does, never will, or if that
    /// depends on when requests in flight end.
    pub retry_after: Option<Duration>,
    /// How long until more of the limit comes back, if no request comes. Zero if it is whole, and
    /// for requests in flight.
    pub more_after: Duration,
    /// How long until the key is as good as new to the limit, if no request comes. Zero for
    /// requests in flight.
    pub reset_after: Duration,
    /// How long the request waits for its turn in the rule's queue.
    pub delay: Duration,
    /// Whether the rule's store decides later: of a rule in shadow mode, for which no request
    /// waits. `ruling` means nothing then.
    pub is_pending: bool,
    /// A bit for each limit by time that refuses the request, by its number.
    pub refusing: u64,
    /// For how long the key is banned still.
    pub(super) banned: Option<Duration>,
    /// Whether a limit by time is used up.
    pub(super) is_over: bool,
    /// Whether each of those that refuse does so for want of room in its table.
    pub(super) is_full: bool,
}

/// What limits by time tell together.
#[derive(Default)]
pub(super) struct Told<'d> {
    /// The limit that tells most: of those that refuse the one with the longest wait, or else the
    /// one that has least left.
    part: Option<Part<'d>>,
    refusing: u64,
    /// Whether one refuses by the key's own debt.
    is_in_debt: bool,
}

impl<'d> Told<'d> {
    #[inline]
    pub(super) fn by(parts: impl Iterator<Item = Part<'d>>) -> Self {
        let (mut refusing, mut is_in_debt) = (0, false);
        let noted = parts.inspect(|part| {
            refusing |= u64::from(part.refuses()) << part.number();
            is_in_debt |= part.refuses() && !part.refuses_full();
        });
        let part = telling(noted);
        Self { part, refusing, is_in_debt }
    }
}

/// The limit that tells most: of those that refuse the one with the longest wait, or else the one
/// that has least left; of equal ones, for the longest time.
#[inline]
fn telling<'d>(mut parts: impl Iterator<Item = Part<'d>>) -> Option<Part<'d>> {
    let first = parts.next()?;
    // Most rules have one limit, whose numbers are compared to none.
    let Some(second) = parts.next() else { return Some(first) };
    [first, second].into_iter().chain(parts).min_by_key(|part| {
        let remaining = if part.refuses() { 0 } else { part.remaining() };
        let wait = (Reverse(part.retry_after()), remaining, Reverse(part.more_after()));
        (!part.refuses(), wait, part.number())
    })
}

impl Line {
    /// A rule that admits, so far.
    pub(super) fn new(rule: usize, tier: Option<usize>, is_shadow: bool, cost: u64) -> Self {
        Self {
            rule,
            tier,
            is_shadow,
            ruling: Ruling::Admitted,
            cost,
            number: None,
            limit: u64::MAX,
            remaining: u64::MAX,
            retry_after: None,
            more_after: Duration::ZERO,
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
            is_pending: false,
            refusing: 0,
            banned: None,
            is_over: false,
            is_full: false,
        }
    }

    /// The line without the numbers of its limits; whether the key is banned or over stays.
    fn unlimited(&self) -> Self {
        let Self { banned, is_over, is_full, .. } = *self;
        Self { banned, is_over, is_full, ..Self::new(self.rule, self.tier, self.is_shadow, self.cost) }
    }

    /// Forgets what the limits said.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.rule, self.tier, self.is_shadow, self.cost);
    }

    /// How long the line refuses: for good, for a known time, or for an unknown one.
    pub(super) fn severity(&self) -> (Ruling, Option<Duration>) {
        (self.ruling, self.retry_after)
    }

    /// Adds what a limit says: of two, the one that refuses longer shows, or has less left.
    fn add(&mut self, limit: Self) {
        let (own, other) = (self.severity(), limit.severity());
        if other > own || (other == own && limit.remaining <= self.remaining) {
            let delay = self.delay.max(limit.delay);
            *self = Self { delay, ..limit };
        }
    }

    /// Adds what the limits by time say. Returns whether they let the request depart in time.
    #[inline]
    pub(super) fn add_quotas<'d, C>(
        &mut self,
        outcome: Outcome,
        parts: impl Iterator<Item = Part<'d>>,
        current: &Current<C>,
        max_wait: Duration,
    ) -> bool {
        let mut shown = Self { delay: Duration::ZERO, ..*self };
        let mut queues = Queues::default();
        let parts = parts.inspect(|part| {
            if current.may_queue {
                queues.add(outcome, part, &current.quotas[part.number()], max_wait);
            }
        });
        shown.show(outcome, Told::by(parts));
        if current.may_queue {
            shown.wait_in_queue(outcome, queues, max_wait);
        }
        let Self { is_over, is_full, refusing, .. } = shown;
        let admits = shown.ruling == Ruling::Admitted;
        self.add(shown);
        (self.is_over, self.is_full, self.refusing) = (is_over, is_full, refusing);
        admits
    }

    /// Shows what the limits by time say, and nothing else: the one of them that tells most. None
    /// of them is a queue, or [`wait_in_queue`](Self::wait_in_queue) follows.
    #[inline]
    pub(super) fn show(&mut self, outcome: Outcome, told: Told<'_>) {
        (self.limit, self.remaining) = (u64::MAX, u64::MAX);
        if let Some(part) = told.part {
            (self.limit, self.remaining, self.number) = (part.limit(), part.remaining(), Some(part.number()));
            (self.more_after, self.reset_after) = (part.more_after(), part.reset_after());
            self.retry_after = part.retry_after();
        }
        self.ruling = outcome.into();
        self.is_over = outcome == Outcome::Denied;
        self.refusing = told.refusing;
        self.is_full = self.is_over && !told.is_in_debt;
    }

    /// Refuses a request that would wait too long in a queue, and names that. If it departs in
    /// time, shows how many more would.
    fn wait_in_queue(&mut self, outcome: Outcome, queues: Queues<'_>, max_wait: Duration) {
        let Some((time, longest)) = queues.longest else { return };
        let too_long_by = time.saturating_sub(max_wait);
        if too_long_by.is_zero() {
            self.delay = if outcome == Outcome::Allowed { time } else { Duration::ZERO };
            if let Some((remaining, more_after, part)) =
                queues.tightest.filter(|_| outcome == Outcome::Allowed)
                && (remaining < self.remaining || self.number == Some(part.number()))
            {
                (self.number, self.limit) = (Some(part.number()), part.limit());
                (self.remaining, self.more_after) = (remaining, more_after);
                self.reset_after = part.reset_after();
            }
        } else if outcome != Outcome::Never && self.retry_after.is_none_or(|wait| too_long_by > wait) {
            (self.number, self.limit) = (Some(longest.number()), longest.limit());
            (self.more_after, self.reset_after) = (longest.more_after(), longest.reset_after());
            (self.ruling, self.remaining) = (Ruling::Refused, 0);
            (self.retry_after, self.refusing) = (Some(too_long_by), 1 << longest.number());
            self.is_full = false;
        }
    }

    /// Adds a limit of requests in flight, by its state.
    pub(super) fn add_at_once(&mut self, (limit, remaining): (u64, u64), error: Option<AcquireError>) {
        let ruling = match error {
            None => Ruling::Admitted,
            Some(AcquireError::Never { .. }) => Ruling::Never,
            Some(_) => Ruling::Refused,
        };
        // What came back since it refused does not count.
        let remaining = if error.is_some() { remaining.min(self.cost.saturating_sub(1)) } else { remaining };
        self.add(Self {
            ruling,
            number: None,
            limit,
            remaining,
            retry_after: None,
            more_after: Duration::ZERO,
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
            ..*self
        });
    }

    /// Adds what the rule's store says.
    pub(super) fn add_stored(&mut self, said: &StoreReply) {
        self.add(Self {
            ruling: said.outcome.into(),
            number: said.number,
            limit: said.limit,
            remaining: said.remaining,
            retry_after: said.retry_after,
            more_after: said.reset_after,
            reset_after: said.reset_after,
            delay: Duration::ZERO,
            ..*self
        });
    }

    /// Adds that the rule's store does not answer, and may be asked again after this time.
    pub(super) fn add_unavailable(&mut self, retry_after: Option<Duration>) {
        let ruling = Ruling::Unavailable;
        self.add(Self { ruling, retry_after, remaining: 0, ..self.unlimited() });
    }

    /// Adds that the rule's store decides later.
    pub(super) fn add_pending(&mut self) {
        self.add(Self { is_pending: true, ..self.unlimited() });
    }

    /// Makes the line refuse until the ban of the key has ended, at least.
    pub(super) fn ban(&mut self, left: Duration) {
        self.banned = Some(left);
        if self.ruling <= Ruling::Refused {
            (self.ruling, self.remaining) = (Ruling::Refused, 0);
            self.retry_after = self.retry_after.max(Some(left));
        }
    }
}
