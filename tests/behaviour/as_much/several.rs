//! Both verbs of several limits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{
    CountPolicy, DebitError, FixedWindow, Limiter, MOST_LIMITS, ManualClock, Outcome, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket, WhenFull,
};
use tollgate_testing::keys::Fellow;
use tollgate_testing::limits;

type Several = Limiter<u64, Quota, MOST_LIMITS, ManualClock>;

fn several(quotas: impl IntoIterator<Item = impl Into<Quota>>) -> (Several, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(limits::list(quotas)).per().clock(clock.clone()).max_keys(100).build().unwrap(), clock)
}

fn left(limiter: &Several, key: u64) -> Vec<u64> {
    limiter.account(key).at(limiter.now()).peek_n(0).parts().map(|part| part.remaining()).collect()
}

/// One tight limit at each place among others.
#[test]
fn several_limits_take_the_same_number() {
    let others = limits::every(Rate::per_second(20));
    for (tight, others) in limits::every(Rate::per_second(5))
        .into_iter()
        .flat_map(|tight| others.chunks(5).map(move |some| (tight, some)))
    {
        for place in 0..=others.len() {
            let mut all = others.to_vec();
            all.insert(place, tight);
            let (limiter, _) = several(all);
            let alice = limiter.account(1);
            assert_eq!((alice.check_up_to(3).cost(), alice.check_up_to(9).cost()), (3, 2), "{tight}");
            let expected: Vec<u64> =
                (0..=others.len()).map(|limit| if limit == place { 0 } else { 15 }).collect();
            assert_eq!(left(&limiter, 1), expected, "{tight}");
            let refused = alice.check_up_to(9);
            assert_eq!((refused.is_allowed(), refused.cost()), (false, 1), "{tight}");
            assert_eq!(refused.refused_by(), Some(place), "{tight}");
            assert_eq!(left(&limiter, 1), expected, "{tight}: a refusal charges none");
            assert_eq!(limiter.account(2).check_up_to(u64::MAX).cost(), 5, "{tight}");
        }
    }
}

#[test]
fn several_limits_give_back_what_was_taken() {
    let (limiter, _) = several([5, 8].map(|count| TokenBucket::new(Rate::per_minute(count))));
    let taken = limiter.account(1).check_up_to(100);
    assert_eq!(limiter.refund(taken), 5);
    assert_eq!(left(&limiter, 1), [5, 8]);
    assert!(limiter.account(1).check_up_to(0).is_allowed());
    assert_eq!(limiter.usage().live_keys, 0);
}

/// The same is left at each later time as after refused checks of cost 1.
#[test]
fn a_refusal_by_several_limits_counts_one() {
    let counted = |ask: &dyn Fn(&Several) -> bool| {
        let counting = SlidingWindow::new(Rate::per_minute(8)).count(CountPolicy::All);
        let (limiter, clock) =
            several([Quota::from(counting), TokenBucket::new(Rate::per_second(90)).into()]);
        assert!(limiter.check_n(1, 8).is_allowed() && !(0..3).any(|_| ask(&limiter)));
        let later = |_| {
            clock.advance(Duration::from_secs(2));
            left(&limiter, 1)
        };
        (0..60).map(later).collect::<Vec<_>>()
    };
    let of_many = counted(&|limiter| limiter.account(1).check_up_to(5).is_allowed());
    assert_eq!(of_many, counted(&|limiter| limiter.check(1).is_allowed()));
}

#[test]
fn several_limits_are_each_debited() {
    for first in limits::every(Rate::per_second(10)) {
        if matches!(first, Quota::SlidingLog(_)) {
            continue;
        }
        let (limiter, _) = several([first, TokenBucket::new(Rate::per_minute(10)).into()]);
        assert!(limiter.check_n(1, 4).is_allowed());
        let debit = limiter.account(1).debit(7).unwrap();
        assert_eq!((debit.is_allowed(), debit.cost(), debit.remaining()), (true, 7, 0), "{first}");
        let refused = limiter.check(1);
        assert!(refused.parts().all(|part| part.refuses()), "{first}: {refused:?}");
        // One of eleven is above the bucket's burst, and one more is asked for.
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(12)), "{first}");
        assert_eq!(limiter.refund(debit), 7, "{first}");
        assert_eq!(left(&limiter, 1), [6, 6], "{first}");
    }
}

/// The window's word has room for fewer than the bucket's.
#[test]
fn a_debit_says_the_least_that_all_limits_charged() {
    let window = FixedWindow::new(Rate::new(10, Duration::from_nanos(100)));
    let ceiling = tollgate::Limiter::builder(window).build().unwrap().resolution().ceiling;
    let (limiter, _) =
        several([Quota::from(window), TokenBucket::new(Rate::per_second(1_000)).burst(10).into()]);
    let debit = limiter.account(1).debit(ceiling + 30).unwrap();
    assert_eq!((debit.cost(), debit.receipt().left()), (ceiling, ceiling));
    let waits: Vec<_> = limiter.check(1).parts().map(|part| part.retry_after()).collect();
    assert_eq!(waits[1], Some(Duration::from_millis(ceiling + 30 - 10 + 1)));
    let none = limiter.account(1).debit(5).unwrap();
    assert_eq!((none.is_allowed(), none.cost(), none.receipt().left()), (true, 0, 0));
    let waits: Vec<_> = limiter.check(1).parts().map(|part| part.retry_after()).collect();
    assert_eq!(waits[1], Some(Duration::from_millis(ceiling + 35 - 10 + 1)), "the bucket is debited");
}

#[test]
fn a_log_among_several_limits_debits_none() {
    let log = SlidingLog::new(Rate::per_second(9));
    for quotas in [[log.into(), Quota::from(TokenBucket::new(Rate::per_second(9)))], [log.into(), log.into()]]
    {
        let (limiter, _) = several(quotas);
        for cost in [0, 4] {
            assert_eq!(limiter.account(1).debit(cost).map(|debit| debit.cost()), Err(DebitError::NoDebt));
        }
        assert_eq!((left(&limiter, 1), limiter.usage().live_keys), (vec![9, 9], 0));
    }
}

#[test]
fn several_limits_tell_of_both_verbs_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let limiter = Limiter::builder([5, 8].map(|count| TokenBucket::new(Rate::per_hour(count))))
        .per::<u64>()
        .on_decision(move |decision| tell.lock().unwrap().push((decision.outcome(), decision.cost())))
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let alice = limiter.account(1);
    let _ = (alice.check_up_to(3), alice.check_up_to(3), alice.check_up_to(3), alice.debit(2));
    let (allowed, denied) = (Outcome::Allowed, Outcome::Denied);
    assert_eq!(*told.lock().unwrap(), [(allowed, 3), (allowed, 2), (denied, 1), (allowed, 2)]);
}

#[test]
fn a_full_table_of_several_limits_debits_none() {
    let of = |per| TokenBucket::new(Rate::new(1, Duration::from_secs(per))).burst(4);
    for when_full in [WhenFull::Deny, WhenFull::Allow] {
        let builder = Limiter::builder([of(1), of(100)]).per::<Fellow>().max_keys(1).when_full(when_full);
        let clock = ManualClock::new();
        let limiter = builder.clock(clock.clone()).build().unwrap();
        assert!((0..15).all(|key| limiter.check_n(Fellow(key), 2).is_allowed()));
        // The first limit's table has room again.
        clock.advance(Duration::from_secs(5));
        let stranger = limiter.account(Fellow(99));
        assert_eq!(stranger.debit(3).map(|debit| debit.cost()), Err(DebitError::Full), "{when_full:?}");
        assert_eq!(limiter.usage().live_keys, 15, "{when_full:?}");
        let parts: Vec<u64> = stranger.peek_n(0).parts().map(|part| part.remaining()).collect();
        assert_eq!(parts[0], 4, "{when_full:?}: the first limit was not charged");
    }
}
