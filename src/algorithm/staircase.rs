//! What the refunds of a bucket's key remember, so that a request that comes back out of order
//! gives back what it still causes.
//!
//! A request of cost `c`, charged at `s`, still causes `min(c, least debt since s)`: wherever the
//! debt was less, the bucket would have been full without the request, and would have lost refill.
//! The least debt since each instant is a staircase that never falls, and no word has room for it.
//! But *refunds alone* can keep a lower bound: each notes the instant `x` at which it lowered the
//! debt, and the debt that it left. Between two refunds the debt falls by at most the time between
//! them, with any charges. So no check reads or writes anything.
//!
//! ```text
//!   debt                     x1: the first refund      S(x) = least debt after x
//!    |\      /\                                        a step (x, L) says  L <= S(x)
//!    | \    /  \   |\
//!    |  \  /    \  | \  |\                             request charged at s, s <= x:
//!    |   \/      \ |  \ | \ S(x2)                        L of the last step before s
//!    |            \|   \|                                or, where no refund came between s
//!    |           S(x1)                                   and x:  min(L, charged - x)
//!    +-----------------------------> time
//!        s        x1    x2   now
//! ```
//!
//! All times are ticks of one version of the rule, and debts are in its grains, which are ticks.
//!
//! A refund of `back` at `now` lowers the steps after `s` by `back`. Before `s` only the least debt
//! after `s` changes: to that without the request. A step that is dropped costs precision, never
//! soundness: `proof/model/tests/refund_search.rs` compares every short sequence of charges and
//! refunds with the debt of the charges that remain.

use crate::algorithm::RefundOrder;

/// How many steps a key keeps.
pub(crate) const STEPS: usize = 23;

/// The instant of a refund, or that there was none.
///
/// One more than the tick, so that zeroed memory says: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

impl Instant {
    pub(crate) const NEVER: Self = Self(0);

    pub(crate) fn at(tick: u64) -> Self {
        Self(tick.saturating_add(1))
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn is_before(self, tick: u64) -> bool {
        self.0 <= tick
    }

    /// Ticks from here to `tick`.
    fn until(self, tick: u64) -> u64 {
        Self::at(tick).0.saturating_sub(self.0)
    }
}

/// A refund, and what is known of the debt since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    at: Instant,
    /// The refund before it.
    before: Instant,
    /// A lower bound of the least debt after it.
    least: u64,
}

/// What a request left and still causes, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    /// When it was charged.
    pub(crate) since: u64,
    /// What it took.
    pub(crate) cost: u64,
    /// The TAT that it left.
    pub(crate) charged: u64,
    /// When it comes back.
    pub(crate) now: u64,
    /// The key's debt.
    pub(crate) debt: u64,
}

impl Owed {
    /// What comes back; the least debt since the charge, without the request; and at most how much
    /// more the request may still cause.
    ///
    /// Until `charged` the bucket was never full, unless refunds lowered the debt. What holds in
    /// any case: it cannot have been full for longer than since the charge.
    pub(crate) fn back(self, order: RefundOrder) -> (u64, u64, u64) {
        let Self { since, cost, charged, now, debt } = self;
        let kept = charged.saturating_sub(now);
        let least = match order {
            RefundOrder::Kept | RefundOrder::KeptAndBooked => kept,
            RefundOrder::Lost { least } => least.max((since + cost).saturating_sub(now)),
            RefundOrder::LostAndBooked => 0,
        };
        let (least, most) = (least.min(debt), kept.min(cost).min(debt));
        let back = least.min(cost);
        (back, least - back, most.saturating_sub(back))
    }
}

/// A request that has come back, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    /// When it was charged.
    pub(crate) since: u64,
    /// When the refund takes effect.
    pub(crate) now: u64,
    /// The ticks that come back.
    pub(crate) back: u64,
    /// A lower bound of the least debt since the charge, without the request.
    pub(crate) rest: u64,
    /// The debt afterwards.
    pub(crate) debt: u64,
}

/// What a key's refunds remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staircase {
    /// The latest refund.
    latest: Instant,
    /// The debt that it left.
    debt: u64,
    /// Oldest first, and then those that are not in use.
    steps: [Step; STEPS],
}

impl Staircase {
    /// A staircase as memory holds it: the latest refund first.
    pub(crate) const WORDS: usize = 2 + 3 * STEPS;

    /// Nothing is known but that no refund came after `latest`.
    pub(crate) fn unknown_until(latest: Instant) -> Self {
        Self { latest, debt: 0, steps: [Step::default(); STEPS] }
    }

    pub(crate) fn latest(&self) -> Instant {
        self.latest
    }

    /// The staircase as a rule may read it whose ticks begin at `floor`: earlier ones were another
    /// version's.
    pub(crate) fn since_version(self, floor: u64) -> Self {
        if self.latest.is_before(floor) { Self::unknown_until(self.latest) } else { self }
    }

    /// A lower bound of the least debt between `since`, when a request was charged and left the TAT
    /// `charged`, and `now`.
    pub(crate) fn least(&self, since: u64, charged: u64, now: u64) -> u64 {
        let now = self.debt.saturating_sub(self.latest.until(now));
        let at_most_before = |step: &&Step| step.at.is_before(since + 1);
        let before = self.in_use().rev().find(at_most_before).map_or(0, |step| step.least.min(now));
        let after = self.in_use().find(|step| !at_most_before(step));
        // Until that step no refund lowered the debt that the charge left.
        let after = after
            .filter(|step| step.before.is_before(since))
            .map_or(0, |step| step.least.min(now).min(charged.saturating_sub(step.at.0 - 1)));
        before.max(after)
    }

    /// Notes a request that came back.
    pub(crate) fn note(&mut self, returned: Returned) {
        let Returned { since, back, rest, debt, .. } = returned;
        // A refund at an old time counts as the latest known.
        let now = Instant::at(returned.now).max(self.latest);
        let debt = debt.saturating_sub(now.0 - Instant::at(returned.now).0);
        let kept = self.debt.saturating_sub(now.0 - self.latest.0);
        for step in self.steps.iter_mut().take_while(|step| step.at != Instant::NEVER) {
            let least = step.least.min(kept);
            let lowered =
                if step.at.is_before(since + 1) { least.min(rest) } else { least.saturating_sub(back) };
            step.least = lowered.min(debt);
        }
        let step = Step { at: now, before: self.latest, least: debt };
        match self.steps.iter().position(|step| step.at == Instant::NEVER) {
            Some(free) => self.steps[free] = step,
            None => self.replace(step),
        }
        (self.latest, self.debt) = (now, debt);
    }

    /// Drops the step whose loss tells least, and adds this one.
    fn replace(&mut self, step: Step) {
        let leasts = self.steps.iter().chain([&step]).map(|step| step.least);
        let below = std::iter::once(0).chain(self.steps.iter().map(|step| step.least));
        // By how much of its own height a step is above the one below it.
        let rise = |(least, below): (u64, u64)| {
            if least == 0 { 0 } else { (u128::from(least.saturating_sub(below)) << 32) / u128::from(least) }
        };
        let rises = leasts.zip(below).map(rise).enumerate();
        let Some((dropped, _)) = rises.min_by_key(|&(_, rise)| rise) else { return };
        if dropped == STEPS {
            return;
        }
        self.steps.copy_within(dropped + 1.., dropped);
        self.steps[STEPS - 1] = step;
    }

    fn in_use(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter().filter(|step| step.at != Instant::NEVER)
    }

    pub(crate) fn from_words(words: &[u64; Self::WORDS]) -> Self {
        let [latest, debt, steps @ ..] = words;
        let step = |nth: usize| Step {
            at: Instant(steps[3 * nth]),
            before: Instant(steps[3 * nth + 1]),
            least: steps[3 * nth + 2],
        };
        Self { latest: Instant(*latest), debt: *debt, steps: std::array::from_fn(step) }
    }

    pub(crate) fn words(&self) -> [u64; Self::WORDS] {
        let steps = self.steps.iter().flat_map(|step| [step.at.0, step.before.0, step.least]);
        let mut words = [self.latest.0, self.debt].into_iter().chain(steps);
        std::array::from_fn(|_| words.next().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A staircase that knows of one refund at 10, which left a debt of 20, and of nothing before
    /// another one at 5.
    fn one_step() -> Staircase {
        let mut staircase = Staircase::unknown_until(Instant::at(5));
        staircase.note(Returned { since: 7, now: 10, back: 1, rest: 0, debt: 20 });
        staircase
    }

    #[test]
    fn a_step_tells_nothing_of_charges_before_another_refund() {
        assert_eq!([3, 7].map(|since| one_step().least(since, 100, 10)), [0, 20]);
    }

    #[test]
    fn a_debt_that_was_left_is_paid_off_by_time() {
        assert_eq!([10, 29, 30].map(|now| one_step().least(7, 100, now)), [20, 1, 0]);
    }

    /// Charges have raised the debt meanwhile.
    #[test]
    fn later_steps_fall_by_what_comes_back() {
        let mut staircase = one_step();
        staircase.note(Returned { since: 8, now: 10, back: 5, rest: 0, debt: 35 });
        assert_eq!(staircase.least(9, 100, 10), 15);
    }
}
