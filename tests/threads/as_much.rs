//! Threads that take as much as there is, and debit over the limit.
//!
//! Time stands still, so every sum is exact, in any order.

use std::rc::Rc;
use std::time::Duration;

use tollgate::{CountPolicy, FixedWindow, Limiter, ManualClock, Quota, Rate, SlidingWindow, TokenBucket};
use tollgate_testing::clocks::{Hooked, at_reading};
use tollgate_testing::limits;
use tollgate_testing::random::Random;

use crate::stress::crew::crew;

const THREADS: usize = 4;
const LIMIT: u64 = 20_000;

fn every() -> Vec<Quota> {
    limits::every(Rate::per_hour(LIMIT))
}

/// Takes one to seven units at a time, by either verb, until nothing is left.
fn exhaust(number: usize, take: impl Fn(bool, u64) -> Option<u64>) -> u64 {
    let (mut random, mut taken) = (Random::with_seed(number as u64), 0);
    loop {
        let (as_much, most) = (random.u64(..3) > 0, random.u64(1..=7));
        match take(as_much, most) {
            Some(units) => taken += units,
            None if as_much => return taken,
            None => {}
        }
    }
}

#[test]
fn threads_take_exactly_what_there_is() {
    for quota in every() {
        let keyed = Limiter::builder(quota).per::<u64>().clock(ManualClock::new()).max_keys(10);
        let (keyed, global) = (keyed.build().unwrap(), Limiter::builder(quota).clock(ManualClock::new()));
        let global = global.build().unwrap();
        let taken = crew(THREADS, |worker| {
            exhaust(worker.number, |as_much, most| {
                worker.count_operation();
                let alice = keyed.account(1);
                let decision = if as_much { alice.check_up_to(most) } else { alice.check_n(most) };
                decision.is_allowed().then(|| decision.cost())
            })
        });
        assert_eq!(taken.iter().sum::<u64>(), LIMIT, "{quota}");
        let taken = crew(THREADS, |worker| {
            exhaust(worker.number, |as_much, most| {
                worker.count_operation();
                let all = global.account(());
                let decision = if as_much { all.check_up_to(most) } else { all.check_n(most) };
                decision.is_allowed().then(|| decision.cost())
            })
        });
        assert_eq!(taken.iter().sum::<u64>(), LIMIT, "{quota}, without keys");
    }
}

/// A request that loses the race for a limit may be refused though a unit is left: what it was
/// charged before comes back.
#[test]
fn threads_take_the_same_of_several_limits() {
    let limits = [LIMIT + 100, LIMIT, LIMIT + 7].map(|count| TokenBucket::new(Rate::per_hour(count)));
    let limiter = Limiter::builder(limits).per::<u64>().clock(ManualClock::new()).build().unwrap();
    let taken = crew(THREADS, |worker| {
        exhaust(worker.number, |as_much, most| {
            worker.count_operation();
            let alice = limiter.account(1);
            let decision = if as_much { alice.check_up_to(most) } else { alice.check_n(most) };
            decision.is_allowed().then(|| decision.cost())
        })
    });
    let rest = limiter.account(1).check_up_to(LIMIT);
    let rest = if rest.is_allowed() { rest.cost() } else { 0 };
    assert_eq!(taken.iter().sum::<u64>() + rest, LIMIT);
    let refused = limiter.account(1).check_up_to(1);
    assert!(!refused.is_allowed());
    let left: Vec<u64> = refused.parts().map(|part| part.remaining()).collect();
    assert_eq!(left, [100, 0, 7]);
}

/// In any order, the debt is the sum of all that was charged and not given back, and checks
/// were admitted up to the limit.
#[test]
fn threads_that_debit_and_refund_lose_no_unit() {
    const ROOM: u64 = 500;
    let interval = Duration::from_secs(1);
    let quota = TokenBucket::new(Rate::new(1, interval)).burst(ROOM);
    for round in 0..20 {
        let limiter =
            Limiter::builder(quota).per::<u64>().clock(ManualClock::new()).max_keys(10).build().unwrap();
        let sums = crew(THREADS, |worker| {
            let mut random = Random::with_seed(100 * round + worker.number as u64);
            let (mut checked, mut charged) = (0, 0);
            for _ in 0..400 {
                let (alice, units) = (limiter.account(1), random.u64(1..=4));
                worker.count_operation();
                match random.u64(..8) {
                    0 => {
                        let debit = alice.debit(units).unwrap();
                        assert_eq!((debit.is_allowed(), debit.cost()), (true, units));
                        charged += units;
                    }
                    1 => {
                        let mut debit = alice.debit(units).unwrap().receipt();
                        charged += units - limiter.refund_part(&mut debit, random.u64(..5));
                    }
                    2 => {
                        let taken = alice.check_up_to(units);
                        if taken.is_allowed() {
                            let mut receipt = taken.receipt();
                            let cost = receipt.left();
                            charged += cost - limiter.refund_part(&mut receipt, random.u64(..5));
                        }
                    }
                    which => {
                        let taken =
                            if which % 2 == 0 { alice.check_up_to(units) } else { alice.check_n(units) };
                        if taken.is_allowed() {
                            (checked, charged) = (checked + taken.cost(), charged + taken.cost());
                        }
                    }
                }
            }
            (checked, charged)
        });
        let checked: u64 = sums.iter().map(|(checked, _)| checked).sum();
        let charged: u64 = sums.iter().map(|(_, charged)| charged).sum();
        assert!(checked <= ROOM && charged > ROOM, "{checked} were admitted of {ROOM}");
        let wait = limiter.check(1).retry_after();
        assert_eq!(wait, Some(interval * (charged + 1 - ROOM) as u32), "round {round}");
    }
}

/// Between the look and the charge of a request for three units, another one takes two of them.
#[test]
fn an_attempt_of_several_limits_that_lost_counts_nothing() {
    let minute = Rate::per_minute(3);
    for counting in [
        Quota::from(SlidingWindow::new(minute).count(CountPolicy::All)),
        FixedWindow::new(minute).count(CountPolicy::All).into(),
    ] {
        let other = Quota::from(TokenBucket::new(Rate::per_second(90)));
        // The reading of the look, and that of the charge.
        for nth in [1, 2] {
            let clock = Hooked::default();
            let builder = Limiter::builder([counting, other]).per::<u64>().clock(clock.clone());
            let limiter = Rc::new(builder.build().unwrap());
            let rival = limiter.clone();
            let take_two = move || assert!(rival.check_n(1, 2).is_allowed());
            let (taken, has_run) = at_reading(nth, take_two, || {
                let decision = limiter.account(1).check_up_to(3);
                (decision.is_allowed(), decision.cost())
            });
            assert_eq!((taken, has_run), ((true, 1), true), "{counting}: reading {nth}");
            // A counted refusal would last into the next window.
            clock.0.advance(Duration::from_secs(60));
            let left = match counting {
                Quota::SlidingWindow(_) => 0,
                _ => 3,
            };
            assert_eq!(
                limiter.account(1).at(limiter.now()).peek_n(0).parts().next().unwrap().remaining(),
                left
            );
            clock.0.advance(Duration::from_secs(20));
            assert!(limiter.account(1).peek().is_allowed(), "{counting}: reading {nth}");
        }
    }
}
