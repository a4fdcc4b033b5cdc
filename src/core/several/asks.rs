//! What a request asks of each limit: under which fingerprint, and what it costs.
//!
//! Every limit is asked once, in the order in which limits are charged. So no two asks of a request
//! meet in one word, and all requests charge in one order, for any keys.

use crate::algorithm::{AnyRule, Rule};
use crate::core::OnDecision;
use crate::core::several::MultiDecision;
use crate::core::several::tables::Several;
use crate::core::version::Version;
use crate::observe::Observer;
use crate::receipt::MOST;
use crate::table::Fingerprint;

/// The asks of a request. Two types implement it: [`OneKey`], which costs a check nothing, and a
/// list of an ask for each limit.
pub trait Asks: Copy {
    /// The key's fingerprint for the limit of this index.
    fn fingerprint(&self, index: usize) -> Fingerprint;

    /// The cost to the limit of this index.
    fn cost(&self, index: usize) -> u64;

    /// Whether a request can be charged to all limits of this version.
    fn fit(&self, version: &Version<AnyRule>) -> bool;

    /// Tells the observer of a decision.
    fn tell<'l>(
        observer: &Observer<OnDecision<Several>>,
        decision: MultiDecision<'l, Self>,
    ) -> MultiDecision<'l, Self>;
}

/// One key and one cost for all limits: what a [`MultiLimiter`](crate::MultiLimiter) asks.
#[derive(Clone, Copy)]
pub struct OneKey {
    pub(super) fingerprint: Fingerprint,
    pub(super) cost: u64,
}

impl Asks for OneKey {
    #[inline(always)]
    fn fingerprint(&self, _: usize) -> Fingerprint {
        self.fingerprint
    }

    #[inline(always)]
    fn cost(&self, _: usize) -> u64 {
        self.cost
    }

    #[inline(always)]
    fn fit(&self, version: &Version<AnyRule>) -> bool {
        version.has_room_for(self.cost)
    }

    fn tell<'l>(observer: &Observer<OnDecision<Several>>, decision: MultiDecision<'l>) -> MultiDecision<'l> {
        observer.tell(decision)
    }
}

/// A key and a cost for each limit, in the order in which they are charged.
impl Asks for [OneKey; MOST] {
    fn fingerprint(&self, index: usize) -> Fingerprint {
        self[index].fingerprint
    }

    fn cost(&self, index: usize) -> u64 {
        self[index].cost
    }

    fn fit(&self, version: &Version<AnyRule>) -> bool {
        self.iter().zip(version.all()).all(|(ask, limit)| ask.cost > 0 && ask.cost <= limit.rule().limit())
    }

    /// An observer is told of decisions about one key only.
    fn tell<'l>(
        _: &Observer<OnDecision<Several>>,
        decision: MultiDecision<'l, Self>,
    ) -> MultiDecision<'l, Self> {
        decision
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::algorithm::{Each, Quota, TokenBucket};
    use crate::clock::{Clock, ManualClock};
    use crate::core::{Core, Space};
    use crate::key::KeyHasher;
    use crate::rate::Rate;

    type Rules = Core<Several, ManualClock>;

    /// A limit by address, and one by user. Nothing is refilled: the clock stands still.
    fn rules(by_address: u64, by_user: u64) -> Rules {
        let quotas =
            [by_address, by_user].map(|count| Each(Quota::from(TokenBucket::new(Rate::per_hour(count)))));
        let hasher = KeyHasher::random(false);
        Core::new(quotas.to_vec(), &[], &Space::default(), hasher, ManualClock::new, Observer::NONE).unwrap()
    }

    /// Asks both limits, each by its own key.
    fn asks(core: &Rules, address: u64, user: u64, costs: (u64, u64)) -> [OneKey; MOST] {
        let ask = |key, cost| OneKey { fingerprint: Fingerprint::from_bits(core.hasher.short(key)), cost };
        let mut asks = [ask(0, 0); MOST];
        (asks[0], asks[1]) = (ask(address, costs.0), ask(1_000 + user, costs.1));
        asks
    }

    fn check<'l>(core: &'l Rules, address: u64, user: u64) -> MultiDecision<'l, [OneKey; MOST]> {
        core.charge(asks(core, address, user, (1, 1)), || core.clock.now())
    }

    /// What is left for the address and for the user.
    fn left(core: &Rules, address: u64, user: u64) -> (u64, u64) {
        let decision = core.look(asks(core, address, user, (0, 0)), core.clock.now());
        let left: Vec<u64> = decision.parts().map(|part| part.remaining()).collect();
        (left[0], left[1])
    }

    #[test]
    fn limits_with_keys_of_their_own_decide_together() {
        let core = rules(3, 5);
        assert!((0..3).all(|_| check(&core, 1, 7).is_allowed()));
        assert_eq!(check(&core, 1, 7).refused_by(), Some(0));
        assert_eq!(left(&core, 1, 7), (0, 2));
        // The same user from another address: the user's limit refuses, the address pays nothing.
        assert!((0..2).all(|_| check(&core, 2, 7).is_allowed()));
        assert_eq!(check(&core, 2, 7).refused_by(), Some(1));
        assert_eq!(left(&core, 2, 7), (1, 0));
        // And the first address under another user.
        assert_eq!(check(&core, 1, 8).refused_by(), Some(0));
        assert_eq!(left(&core, 1, 8), (0, 5));
    }

    #[test]
    fn each_limit_gives_back_to_its_own_key() {
        let core = rules(10, 10);
        let mut receipt = core.charge(asks(&core, 1, 7, (2, 5)), || core.clock.now()).receipt();
        assert_eq!(left(&core, 1, 7), (8, 5));
        assert_eq!((left(&core, 7, 1), receipt.left()), ((10, 10), 5));
        core.give_back(&mut receipt, 1, || core.clock.now());
        assert_eq!(left(&core, 1, 7), (9, 6));
        core.give_back(&mut receipt, u64::MAX, || core.clock.now());
        assert_eq!((left(&core, 1, 7), receipt.left()), ((10, 10), 0));
        core.give_back(&mut receipt, u64::MAX, || core.clock.now());
        assert_eq!(left(&core, 1, 7), (10, 10));
    }

    #[test]
    fn an_overtaken_request_is_undone_under_each_key() {
        let core = rules(3, 5);
        let is_overtaken = Cell::new(false);
        // Between the charges of address and user, another request takes all that the user has.
        let time = || {
            if left(&core, 1, 7).0 < 3 && !is_overtaken.replace(true) {
                let other = core.charge(asks(&core, 2, 7, (1, 5)), || core.clock.now());
                assert!(other.is_allowed());
            }
            core.clock.now()
        };
        let decision = core.charge(asks(&core, 1, 7, (1, 1)), time);
        assert_eq!((is_overtaken.get(), decision.refused_by()), (true, Some(1)));
        assert_eq!((left(&core, 1, 7), left(&core, 2, 8)), ((3, 0), (2, 5)));
    }

    #[test]
    fn threads_whose_keys_cross_charge_each_key_once() {
        const LIMITS: (u64, u64) = (40, 50);
        let core = rules(LIMITS.0, LIMITS.1);
        // Each thread goes through the pairs in an order of its own.
        let pairs = |thread: u64| {
            (0..400).map(move |nth: u64| (nth * (2 * thread + 1) % 4, nth / 4 * (2 * thread + 1) % 4))
        };
        let admitted: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let run = |thread| {
                let core = &core;
                move || {
                    pairs(thread).filter(|&(address, user)| check(core, address, user).is_allowed()).collect()
                }
            };
            let threads: Vec<_> = (0..2).map(|thread| scope.spawn(run(thread))).collect();
            threads.into_iter().flat_map(|thread| -> Vec<_> { thread.join().unwrap() }).collect()
        });
        for key in 0..4 {
            let by_address = admitted.iter().filter(|(address, _)| *address == key).count() as u64;
            let by_user = admitted.iter().filter(|(_, user)| *user == key).count() as u64;
            assert_eq!(left(&core, key, key), (LIMITS.0 - by_address, LIMITS.1 - by_user));
        }
        // Who is refused is refused by a limit that has nothing left.
        assert!((0..4).all(|key| left(&core, key, 0).0 == 0));
    }
}
