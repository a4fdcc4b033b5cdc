//! The model of a keyed limiter: one state for each key.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::first_hit::FirstHit;
use crate::fixed_window::FixedWindow;
use crate::inherit::Debt;
use crate::leaky_bucket::LeakyBucket;
use crate::receipt::By;
use crate::rule::{self, Counted, Reserved, Rule};
use crate::sliding_log::SlidingLog;
use crate::sliding_window::SlidingWindow;
use crate::sub_windows::SubWindows;
use crate::token_bucket::TokenBucket;
use crate::{Algorithm, Answer, Booking, Inherit, NotReservable, Receipt, Reservation};

/// A keyed limiter that is always right and never fast.
pub struct Model {
    keys: Box<dyn Keys + Send + Sync>,
}

impl Model {
    /// A model that has seen no key.
    ///
    /// # Panics
    ///
    /// When a rate, period, window, number of sub-windows, granule or number of grains is zero, or
    /// a ceiling is below the limit. All other parameters are valid, as long as there is memory for
    /// a key's sub-windows.
    pub fn new(algorithm: Algorithm) -> Self {
        Self { keys: keys(algorithm) }
    }

    /// Decides whether `key` may spend `cost` at `now_ns`, and charges it if so.
    pub fn check(&mut self, key: &str, now_ns: u64, cost: u64) -> Answer {
        self.keys.check(key, now_ns, cost)
    }

    /// The answer that [`Model::check`] would give. Changes nothing.
    pub fn peek(&self, key: &str, now_ns: u64, cost: u64) -> Answer {
        self.keys.peek(key, now_ns, cost)
    }

    /// [`Model::check`] with a receipt if the request was allowed.
    pub fn admit(&mut self, key: &str, now_ns: u64, cost: u64) -> (Answer, Option<Receipt>) {
        self.keys.admit(key, now_ns, cost)
    }

    /// Takes what there is, at most `most`: the answer, how many units were taken, and their
    /// receipt. When nothing is there, it is a check of one unit.
    pub fn check_up_to(&mut self, key: &str, now_ns: u64, most: u64) -> (Answer, u64, Option<Receipt>) {
        let units = self.peek(key, now_ns, 0).remaining.max(1).min(most);
        let (answer, receipt) = self.admit(key, now_ns, units);
        (answer, units, receipt)
    }

    /// Charges `cost` over the limit if need be. The receipt's cost is how many units were counted.
    /// `None` for the log, which holds no more than its limit.
    pub fn debit(&mut self, key: &str, now_ns: u64, cost: u64) -> Option<Receipt> {
        self.keys.debit(key, now_ns, cost)
    }

    /// Gives back an unused admission; returns how many units came back. A bucket rounds part of a
    /// unit up.
    ///
    /// How much comes back depends on the algorithm; it may be 0, because time may have given it
    /// back already. A time before the admission counts as the time of the admission.
    ///
    /// # Panics
    ///
    /// When the receipt is from another algorithm's model.
    pub fn refund(&mut self, mut receipt: Receipt, now_ns: u64) -> u64 {
        self.refund_part(&mut receipt, u64::MAX, now_ns)
    }

    /// [`Model::refund`] of up to `units` of the request, the last ones. The others stay charged,
    /// as if they had been a request of their own.
    ///
    /// # Panics
    ///
    /// As there.
    pub fn refund_part(&mut self, receipt: &mut Receipt, units: u64, now_ns: u64) -> u64 {
        self.keys.refund(receipt, units, now_ns)
    }

    /// Gives `key` up to `units` without a receipt; returns how many were given. A bucket rounds
    /// part of a unit up.
    pub fn credit(&mut self, key: &str, now_ns: u64, units: u64) -> u64 {
        self.keys.credit(key, now_ns, units)
    }

    /// Charges `key` for a request that acts later, if it waits no longer than `max_wait_ns`.
    ///
    /// # Errors
    ///
    /// [`NotReservable`] when the algorithm counts in windows.
    pub fn reserve(
        &mut self,
        key: &str,
        now_ns: u64,
        cost: u64,
        max_wait_ns: u64,
    ) -> Result<Booking, NotReservable> {
        self.keys.reserve(key, now_ns, cost, max_wait_ns)
    }

    /// Gives back a reservation that has not departed yet; returns how many units came back, as for
    /// a refund. A reservation that has waited and departed gives back nothing.
    ///
    /// # Panics
    ///
    /// When the reservation is from another algorithm's model.
    pub fn cancel(&mut self, reservation: Reservation, now_ns: u64) -> u64 {
        let Reservation { receipt, departs_at } = reservation;
        let has_waited = departs_at > receipt.at();
        if has_waited && now_ns >= departs_at { 0 } else { self.refund(receipt, now_ns) }
    }

    /// Replaces the limit at `now_ns`, which must not be earlier than any time before; each key
    /// keeps what `inherit` says. Earlier receipts and reservations must not be used any more.
    ///
    /// # Panics
    ///
    /// When the limits are neither both buckets nor both fixed windows.
    pub fn change(&mut self, algorithm: Algorithm, inherit: Inherit, now_ns: u64) {
        let mut next = keys(algorithm);
        next.inherit(&self.keys.debts(now_ns), inherit, now_ns);
        self.keys = next;
    }

    /// Aligns the windows, or the intervals of a bucket, to another Unix time at `now_ns`, which
    /// must not be earlier than any time before. Other limits stay as they are. Earlier receipts
    /// and reservations must not be used any more.
    pub fn realign(&mut self, origin_ns: u64, now_ns: u64) {
        self.keys.realign(origin_ns, now_ns);
    }

    /// Removes the state of `key`.
    pub fn reset(&mut self, key: &str) {
        self.keys.reset(key);
    }
}

/// Prints the state of each key. Two models of one algorithm that print the same give the same
/// answers.
impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keys.fmt(f)
    }
}

/// The states of an algorithm, without keys.
fn keys(algorithm: Algorithm) -> Box<dyn Keys + Send + Sync> {
    match algorithm {
        Algorithm::TokenBucket { count, period_ns, burst, initial, grains } => {
            States::boxed(TokenBucket::new(count, period_ns, burst, initial, grains))
        }
        Algorithm::IntervalBucket { count, period_ns, origin_ns, burst, initial } => {
            States::boxed(TokenBucket::by_intervals(count, period_ns, origin_ns, burst, initial))
        }
        Algorithm::FirstHitWindow { limit, window_ns, tick_ns, count, ceiling } => {
            States::boxed(FirstHit::new(limit, window_ns, tick_ns, count, ceiling))
        }
        Algorithm::LeakyMeter { count, period_ns, capacity, grains } => {
            States::boxed(LeakyBucket::meter(count, period_ns, capacity, grains))
        }
        Algorithm::LeakyQueue { count, period_ns, capacity, grains } => {
            States::boxed(LeakyBucket::queue(count, period_ns, capacity, grains))
        }
        Algorithm::FixedWindow { limit, window_ns, origin_ns, count, ceiling } => {
            States::boxed(FixedWindow::new(limit, window_ns, origin_ns, count, ceiling))
        }
        Algorithm::SlidingWindow { limit, window_ns, origin_ns, count, ceiling, granule } => {
            States::boxed(SlidingWindow::new(limit, window_ns, origin_ns, count, ceiling, granule))
        }
        Algorithm::SubWindows { limit, window_ns, subwindows, origin_ns, count, ceiling, granule } => {
            States::boxed(SubWindows::new(limit, window_ns, subwindows, origin_ns, count, ceiling, granule))
        }
        Algorithm::SlidingLog { limit, window_ns, count } => {
            States::boxed(SlidingLog::new(limit, window_ns, count))
        }
    }
}

/// The states of all keys, of any algorithm.
trait Keys {
    fn check(&mut self, key: &str, now: u64, cost: u64) -> Answer;
    fn peek(&self, key: &str, now: u64, cost: u64) -> Answer;
    fn admit(&mut self, key: &str, now: u64, cost: u64) -> (Answer, Option<Receipt>);
    fn credit(&mut self, key: &str, now: u64, units: u64) -> u64;
    fn debit(&mut self, key: &str, now: u64, cost: u64) -> Option<Receipt>;
    fn refund(&mut self, receipt: &mut Receipt, units: u64, now: u64) -> u64;
    fn reserve(&mut self, key: &str, now: u64, cost: u64, max_wait: u64) -> Result<Booking, NotReservable>;
    fn reset(&mut self, key: &str);
    fn debts(&self, now: u64) -> Debts;
    fn inherit(&mut self, debts: &Debts, inherit: Inherit, now: u64);
    fn realign(&mut self, origin: u64, now: u64);
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The debts of all keys at one time.
struct Debts {
    limit: u64,
    unseen: Debt,
    counted: Option<Counted>,
    keys: HashMap<String, Debt>,
}

/// A rule and the state of each key.
struct States<R: Rule> {
    rule: R,
    /// The state of a key that was never seen.
    unseen: R::State,
    states: HashMap<String, R::State>,
}

impl<R: Rule> States<R> {
    fn boxed(rule: R) -> Box<Self> {
        Box::new(Self { unseen: rule.unseen(), rule, states: HashMap::new() })
    }

    fn state(&self, key: &str) -> R::State {
        self.states.get(key).cloned().unwrap_or_else(|| self.unseen.clone())
    }

    fn decide(&self, key: &str, now: u64, cost: u64) -> (R::State, Answer) {
        rule::check(&self.rule, &self.state(key), now, cost)
    }
}

impl<R: Rule> Keys for States<R> {
    fn check(&mut self, key: &str, now: u64, cost: u64) -> Answer {
        let (next, answer) = self.decide(key, now, cost);
        self.states.insert(key.to_owned(), next);
        answer
    }

    fn peek(&self, key: &str, now: u64, cost: u64) -> Answer {
        let (_, answer) = self.decide(key, now, cost);
        answer
    }

    fn admit(&mut self, key: &str, now: u64, cost: u64) -> (Answer, Option<Receipt>) {
        let before = self.state(key);
        let answer = self.check(key, now, cost);
        let receipt =
            answer.allowed.then(|| Receipt::new(By::Check, key, now, cost, (before, self.state(key))));
        (answer, receipt)
    }

    fn credit(&mut self, key: &str, now: u64, units: u64) -> u64 {
        let (next, given) = self.rule.credited(&self.state(key), &self.unseen, now, units);
        self.states.insert(key.to_owned(), next);
        given
    }

    fn debit(&mut self, key: &str, now: u64, cost: u64) -> Option<Receipt> {
        let before = self.state(key);
        let (next, units) = self.rule.debited(&before, now, cost)?;
        // As a check of cost 0 changes nothing.
        if units > 0 {
            self.states.insert(key.to_owned(), next);
        }
        Some(Receipt::new(By::Debit, key, now, units, (before, self.state(key))))
    }

    fn refund(&mut self, receipt: &mut Receipt, units: u64, now: u64) -> u64 {
        let (state, units) = (self.state(&receipt.key), units.min(receipt.cost()));
        let (next, back) = rule::refund(&self.rule, &state, &receipt.charge(units), now);
        self.states.insert(receipt.key.clone(), next);
        receipt.spend(&self.rule, units);
        back
    }

    fn reserve(&mut self, key: &str, now: u64, cost: u64, max_wait: u64) -> Result<Booking, NotReservable> {
        let before = self.state(key);
        // Until when the refunds of other requests have to be careful.
        let careful = |state: &R::State, wait| {
            let wait = if self.rule.refills_by_steps() { wait } else { max_wait };
            if wait > 0 { self.rule.booked(state, now.saturating_add(wait)) } else { state.clone() }
        };
        Ok(match rule::reserve(&self.rule, &before, now, cost, max_wait)? {
            Reserved::Booked { wait, charged } => {
                let charged = if cost > 0 { careful(&charged, wait) } else { charged };
                self.states.insert(key.to_owned(), charged.clone());
                let receipt = Receipt::new(By::Turn, key, now, cost, (before, charged));
                Booking::Booked(Reservation { receipt, departs_at: now.saturating_add(wait) })
            }
            Reserved::Refused { wait } => {
                let state = careful(&before, 0);
                self.states.insert(key.to_owned(), state);
                Booking::Refused { wait_ns: wait }
            }
            Reserved::Never => Booking::Never,
        })
    }

    fn reset(&mut self, key: &str) {
        self.states.remove(key);
    }

    fn debts(&self, now: u64) -> Debts {
        let debt = |state| self.rule.debt(state, now).expect("a bucket or a fixed window");
        let keys = self.states.iter().map(|(key, state)| (key.clone(), debt(state))).collect();
        let counted = self.rule.counted(&self.unseen, now);
        Debts { limit: self.rule.limit(), unseen: debt(&self.unseen), counted, keys }
    }

    fn inherit(&mut self, debts: &Debts, inherit: Inherit, now: u64) {
        let state = |debt: Debt| {
            let debt = debt.inherited(inherit, debts.limit, self.rule.limit());
            self.rule.with_debt(debt, now, debts.counted).expect("a bucket or a fixed window")
        };
        let states = debts.keys.iter().map(|(key, &debt)| (key.clone(), state(debt))).collect();
        (self.unseen, self.states) = (state(debts.unseen), states);
    }

    fn realign(&mut self, origin: u64, now: u64) {
        let Some(next) = self.rule.realigned(origin) else { return };
        let moved = |state: &R::State| self.rule.moved(&next, state, &self.unseen, now);
        let states = self.states.iter().map(|(key, state)| (key.clone(), moved(state))).collect();
        (self.unseen, self.states) = (moved(&self.unseen), states);
        self.rule = next;
    }

    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordered: BTreeMap<_, _> = self.states.iter().collect();
        f.debug_map().entries(ordered).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_A_SECOND: Algorithm =
        Algorithm::TokenBucket { count: 1, period_ns: 1_000_000_000, burst: 1, initial: 1, grains: None };

    #[test]
    fn keys_do_not_share() {
        let mut model = Model::new(ONE_A_SECOND);
        assert!(model.check("alice", 0, 1).allowed);
        assert!(!model.check("alice", 0, 1).allowed);
        assert!(model.check("bob", 0, 1).allowed);
    }

    #[test]
    fn a_request_takes_what_there_is() {
        let mut model = Model::new(Algorithm::TokenBucket {
            count: 1,
            period_ns: 1_000_000_000,
            burst: 5,
            initial: 5,
            grains: None,
        });
        assert_eq!(model.check_up_to("k", 0, 3).1, 3);
        assert_eq!(model.check_up_to("k", 0, 3).1, 2);
        let (refused, units, receipt) = model.check_up_to("k", 0, 3);
        assert_eq!((refused.retry_after_ns, units, receipt.is_none()), (Some(1_000_000_000), 1, true));
        assert!(model.check_up_to("k", 0, 0).0.allowed);
    }

    #[test]
    fn the_rest_of_a_receipt_comes_back_later() {
        let mut model =
            Model::new(Algorithm::SlidingLog { limit: 5, window_ns: 10, count: crate::CountPolicy::Allowed });
        let mut receipt = model.admit("k", 0, 4).1.expect("there is room");
        assert_eq!((model.refund_part(&mut receipt, 1, 0), receipt.cost()), (1, 3));
        assert_eq!(model.refund_part(&mut receipt, 2, 3), 2);
        assert_eq!(model.peek("k", 3, 0).remaining, 4);
        assert_eq!((model.refund_part(&mut receipt, 9, 3), model.refund(receipt, 3)), (1, 0));
    }

    #[test]
    fn a_debit_is_paid_by_time() {
        let mut model = Model::new(ONE_A_SECOND);
        assert_eq!(model.debit("k", 0, 3).map(|receipt| receipt.cost()), Some(3));
        assert_eq!(model.check("k", 0, 1).retry_after_ns, Some(3_000_000_000));
        assert!(model.check("k", 3_000_000_000, 1).allowed);
    }

    #[test]
    fn a_peek_is_a_check_that_changes_nothing() {
        let mut model = Model::new(ONE_A_SECOND);
        for expected in [true, false] {
            let peeked = model.peek("k", 0, 1);
            assert_eq!(peeked.allowed, expected);
            assert_eq!(peeked, model.peek("k", 0, 1));
            assert_eq!(peeked, model.check("k", 0, 1));
        }
    }

    #[test]
    fn a_reset_key_is_in_its_initial_state() {
        let mut model = Model::new(ONE_A_SECOND);
        assert!(model.check("k", 0, 1).allowed);
        model.reset("k");
        assert!(model.check("k", 0, 1).allowed);
    }
}
