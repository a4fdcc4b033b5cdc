//! MultiModel limits on one key, all or nothing.
//!
//! "Ten a second, and fifteen a minute": a request passes if every limit admits it, and then every
//! limit is charged. If one refuses, none is charged. (A limit that counts refusals,
//! [`CountPolicy::All`](crate::CountPolicy::All), counts its own refusals, not those of other
//! limits.)
//!
//! All limits decide at the same time. A refusal has the longest wait and the number of its limit.

use crate::{Algorithm, Answer, Inherit, Model, Receipt};

/// Several limits, each with its own state for each key.
pub struct MultiModel {
    limits: Vec<Model>,
}

/// The answer of multi limits to one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiAnswer {
    /// The refusal with the longest wait; `None` when the request may pass.
    pub refusal: Option<Refusal>,
    /// How much more all limits would admit now, after this request.
    pub remaining: u64,
}

/// The limit that refuses with the longest wait; of equals, the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its number in the order of the limits, from 0.
    pub limit: usize,
    /// Its wait; `None` when no wait will ever help, which counts as the longest.
    pub retry_after_ns: Option<u64>,
}

impl MultiModel {
    /// Limits that have seen no key.
    ///
    /// # Panics
    ///
    /// Like [`Model::new`]; and when there are no limits at all.
    pub fn new(limits: &[Algorithm]) -> Self {
        assert!(!limits.is_empty(), "at least one limit is needed");
        Self { limits: limits.iter().copied().map(Model::new).collect() }
    }

    /// Decides whether `key` may spend `cost` of every limit at `now_ns`, and charges it if so.
    pub fn check(&mut self, key: &str, now_ns: u64, cost: u64) -> MultiAnswer {
        self.admit(key, now_ns, cost).0
    }

    /// [`MultiModel::check`] with the receipts of all limits; none if the request was refused.
    pub fn admit(&mut self, key: &str, now_ns: u64, cost: u64) -> (MultiAnswer, Vec<Receipt>) {
        let refuses = |limit: &Model| !limit.peek(key, now_ns, cost).allowed;
        let refused = self.limits.iter().any(refuses);
        // A request that can never pass changes nothing, even where refusals count.
        let never = self.limits.iter().any(|limit| limit.peek(key, now_ns, cost).never);
        let (mut refusals, mut receipts) = (Vec::new(), Vec::new());
        for (number, limit) in self.limits.iter_mut().enumerate() {
            // A limit that admits is not charged when another refuses.
            if refused && !refuses(limit) {
                continue;
            }
            let (answer, receipt) =
                if never { (limit.peek(key, now_ns, cost), None) } else { limit.admit(key, now_ns, cost) };
            receipts.extend(receipt);
            if refused && answer.never == never {
                refusals.push(Refusal { limit: number, retry_after_ns: answer.retry_after_ns });
            }
        }
        (MultiAnswer { refusal: longest(&refusals), remaining: self.remaining(key, now_ns) }, receipts)
    }

    /// What [`MultiModel::check`] would answer. Changes nothing.
    pub fn peek(&self, key: &str, now_ns: u64, cost: u64) -> MultiAnswer {
        let answers = self.limits.iter().map(|limit| limit.peek(key, now_ns, cost));
        let answers: Vec<Answer> = answers.collect();
        let never = answers.iter().any(|answer| answer.never);
        let refusals = answers.iter().enumerate().filter(|(_, answer)| !answer.allowed);
        let refusals = refusals.filter(|(_, answer)| answer.never == never);
        let refusals: Vec<Refusal> = refusals
            .map(|(limit, answer)| Refusal { limit, retry_after_ns: answer.retry_after_ns })
            .collect();
        // Of a refused request the limits that would have admitted it stand as they are.
        let left = answers.iter().zip(&self.limits).map(|(answer, limit)| {
            if !never && answer.allowed == refusals.is_empty() {
                answer.remaining
            } else {
                limit.peek(key, now_ns, 0).remaining
            }
        });
        MultiAnswer {
            remaining: left.min().expect("there is at least one limit"),
            refusal: longest(&refusals),
        }
    }

    /// Takes of every limit what all have, at most `most`: see [`Model::check_up_to`].
    pub fn check_up_to(&mut self, key: &str, now_ns: u64, most: u64) -> (MultiAnswer, u64, Vec<Receipt>) {
        let units = self.remaining(key, now_ns).max(1).min(most);
        let (answer, receipts) = self.admit(key, now_ns, units);
        (answer, units, receipts)
    }

    /// Charges every limit `cost`, over the limit if need be. The receipts are of the least that
    /// any of them counted. `None`, and nothing is charged: one of the limits is a log.
    pub fn debit(&mut self, key: &str, now_ns: u64, cost: u64) -> Option<Vec<Receipt>> {
        // A debit of nothing changes nothing.
        if self.limits.iter_mut().any(|limit| limit.debit(key, now_ns, 0).is_none()) {
            return None;
        }
        let receipts: Vec<Receipt> =
            self.limits.iter_mut().filter_map(|limit| limit.debit(key, now_ns, cost)).collect();
        let least = receipts.iter().map(Receipt::cost).min()?;
        Some(receipts.into_iter().map(|receipt| receipt.part(least)).collect())
    }

    /// Gives `key` up to `units` of every limit; returns the least that any of them gave.
    pub fn credit(&mut self, key: &str, now_ns: u64, units: u64) -> u64 {
        let given = self.limits.iter_mut().map(|limit| limit.credit(key, now_ns, units));
        given.min().expect("there is at least one limit")
    }

    /// Gives up to `units` of a request back to every limit; returns the least that came back.
    pub fn refund_part(&mut self, receipts: &mut [Receipt], units: u64, now_ns: u64) -> u64 {
        let back = self.limits.iter_mut().zip(receipts);
        back.map(|(limit, receipt)| limit.refund_part(receipt, units, now_ns)).min().unwrap_or(0)
    }

    /// Removes the state of `key`.
    pub fn reset(&mut self, key: &str) {
        self.limits.iter_mut().for_each(|limit| limit.reset(key));
    }

    /// Replaces one limit as [`Model::change`] does; the others are unchanged.
    ///
    /// # Panics
    ///
    /// Like [`Model::change`]; and when there is no limit with this number.
    pub fn change(&mut self, number: usize, algorithm: Algorithm, inherit: Inherit, now_ns: u64) {
        self.limits[number].change(algorithm, inherit, now_ns);
    }

    /// Aligns all limits to another Unix time: see [`Model::realign`].
    pub fn realign(&mut self, origin_ns: u64, now_ns: u64) {
        self.limits.iter_mut().for_each(|limit| limit.realign(origin_ns, now_ns));
    }

    fn remaining(&self, key: &str, now_ns: u64) -> u64 {
        let remaining = self.limits.iter().map(|limit| limit.peek(key, now_ns, 0).remaining);
        remaining.min().expect("there is at least one limit")
    }

    /// The limits in their order.
    pub fn limits(&self) -> &[Model] {
        &self.limits
    }
}

impl MultiAnswer {
    /// Whether the request may pass.
    pub fn allowed(&self) -> bool {
        self.refusal.is_none()
    }
}

/// The first refusal with the longest wait.
fn longest(refusals: &[Refusal]) -> Option<Refusal> {
    let wait = |refusal: &Refusal| refusal.retry_after_ns.map_or(u128::MAX, u128::from);
    refusals.iter().copied().reduce(|first, next| if wait(&next) > wait(&first) { next } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CountPolicy;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;

    /// A bucket that a period fills.
    fn bucket(burst: u64, period_ns: u64) -> Algorithm {
        Algorithm::TokenBucket { count: burst, period_ns, burst, initial: burst, grains: None }
    }

    fn refused(answer: MultiAnswer, limit: usize, retry_after_ns: Option<u64>) -> bool {
        answer.refusal == Some(Refusal { limit, retry_after_ns })
    }

    fn remaining(multi: &MultiModel, now: u64) -> Vec<u64> {
        multi.limits().iter().map(|limit| limit.peek("k", now, 0).remaining).collect()
    }

    #[test]
    fn a_cost_above_one_limit_is_counted_by_none() {
        let counting = Algorithm::FixedWindow {
            limit: 5,
            window_ns: SECOND,
            origin_ns: 0,
            count: CountPolicy::All,
            ceiling: 100,
        };
        let mut multi = MultiModel::new(&[counting, bucket(3, SECOND)]);
        assert!(multi.check("k", 0, 3).allowed());
        assert!(refused(multi.check("k", 0, 4), 1, None));
        assert_eq!(remaining(&multi, 0), [2, 0]);
        let once_more = multi.limits()[0].peek("k", 0, 2);
        assert!(once_more.allowed, "the refused four were not counted");
    }

    #[test]
    fn a_request_that_one_limit_refuses_is_charged_by_none() {
        let mut multi = MultiModel::new(&[bucket(10, SECOND), bucket(15, MINUTE)]);
        assert!((0..10).all(|_| multi.check("k", 0, 1).allowed()));
        assert!(refused(multi.check("k", 0, 1), 0, Some(SECOND / 10)));
        assert_eq!(remaining(&multi, 0), [0, 5]);

        assert!((0..5).all(|_| multi.check("k", SECOND, 1).allowed()));
        let answer = multi.check("k", SECOND, 1);
        assert!(refused(answer, 1, Some(3 * SECOND)));
        assert_eq!(answer.remaining, 0);
        // The first has five left, the second a quarter; its next token comes in 3/4 of four
        // seconds.
        assert_eq!(remaining(&multi, SECOND), [5, 0]);
        assert_eq!(multi.limits()[1].peek("k", SECOND, 1).retry_after_ns, Some(3 * SECOND));
    }

    #[test]
    fn twelve_idle_hours_overflow_nothing() {
        let mut multi =
            MultiModel::new(&[bucket(700_000, HOUR), bucket(14_500, MINUTE), bucket(300, SECOND)]);
        let later = 12 * HOUR;
        assert!(multi.check("k", 0, 1).allowed());
        assert!((0..300).all(|_| multi.check("k", later, 1).allowed()));
        assert!(refused(multi.check("k", later, 1), 2, Some(3_333_334)));
        assert_eq!(remaining(&multi, later), [699_700, 14_200, 0]);
    }

    #[test]
    fn replacing_one_limit_leaves_the_others_unchanged() {
        let mut multi = MultiModel::new(&[bucket(10, SECOND), bucket(15, MINUTE)]);
        assert!(multi.check("k", 0, 8).allowed());
        multi.change(1, bucket(30, MINUTE), Inherit::Additive, 0);
        assert_eq!(remaining(&multi, 0), [2, 22]);
        multi.change(0, bucket(100, SECOND), Inherit::Proportional, 0);
        assert_eq!(remaining(&multi, 0), [20, 22]);
    }

    #[test]
    fn the_first_of_the_longest_waits_is_named() {
        let mut multi = MultiModel::new(&[bucket(9, 9), bucket(1, 20), bucket(1, 20)]);
        assert!(multi.check("k", 0, 1).allowed());
        assert!(refused(multi.check("k", 0, 1), 1, Some(20)));
    }

    #[test]
    fn never_is_longer_than_any_wait() {
        let mut multi = MultiModel::new(&[bucket(2, HOUR), bucket(1, 1)]);
        assert!(multi.check("k", 0, 1).allowed());
        let answer = multi.check("k", 0, 2);
        assert!(refused(answer, 1, None));
        assert_eq!(answer.remaining, 0);
    }

    #[test]
    fn a_limit_counts_only_its_own_refusals() {
        let log = |limit| Algorithm::SlidingLog { limit, window_ns: 10, count: CountPolicy::All };
        let mut multi = MultiModel::new(&[log(1), log(2)]);
        assert!(multi.check("k", 0, 1).allowed());
        assert!(refused(multi.check("k", 5, 1), 0, Some(10)));
        assert_eq!(remaining(&multi, 5), [0, 1]);
        assert_eq!(remaining(&multi, 10), [0, 2]);
    }

    #[test]
    fn a_part_comes_back_to_every_limit() {
        let mut multi = MultiModel::new(&[bucket(5, SECOND), bucket(9, MINUTE)]);
        let (answer, units, mut receipts) = multi.check_up_to("k", 0, 7);
        assert_eq!((answer.allowed(), units, remaining(&multi, 0)), (true, 5, vec![0, 4]));
        assert_eq!((multi.refund_part(&mut receipts, 2, 0), remaining(&multi, 0)), (2, vec![2, 6]));
        assert_eq!((multi.refund_part(&mut receipts, 9, 0), remaining(&multi, 0)), (3, vec![5, 9]));
        assert!(multi.debit("k", 0, 6).is_some());
        assert_eq!((multi.credit("k", 0, 8), remaining(&multi, 0)), (6, vec![5, 9]));
    }

    #[test]
    fn a_cost_of_zero_passes_every_limit() {
        let mut multi = MultiModel::new(&[bucket(1, 10), bucket(2, 10)]);
        assert!(multi.check("k", 0, 1).allowed());
        assert_eq!(multi.check("k", 0, 0), MultiAnswer { refusal: None, remaining: 0 });
    }
}
