//! What a request really cost is given back, or charged on top.

use tollgate::{
    CallQuota, DebitError, FixedWindow, Inherit, Limiter, ManualClock, Quota, Rate, SlidingLog, TokenBucket,
    WhenFull,
};

const DAY: Rate = Rate::per_day(100);

fn limiter(quota: impl Into<Quota>) -> Limiter<u64, Quota, 1, ManualClock> {
    Limiter::builder(quota.into()).per().clock(ManualClock::new()).build().unwrap()
}

/// What a request of 40 leaves of 100 when it really cost so many.
#[test]
fn a_settled_request_costs_what_it_really_cost() {
    for quota in tollgate_testing::limits::every(DAY) {
        let limiter = limiter(quota);
        for (key, (real, is_kept)) in (0..).zip([(0, true), (15, true), (40, true), (41, false), (95, false)])
        {
            let account = limiter.account(key);
            let settled = account.settle(account.check_n(40), real);
            if !is_kept && matches!(quota, Quota::SlidingLog(_)) {
                assert_eq!(settled, Err(DebitError::NoDebt));
                assert_eq!(account.peek_n(0).remaining(), 60, "it stays charged");
                continue;
            }
            let settled = settled.unwrap();
            let numbers = (settled.refunded, settled.debited);
            assert_eq!(numbers, (40_u64.saturating_sub(real), real.saturating_sub(40)), "{quota}");
            assert_eq!(account.peek_n(0).remaining(), 100 - real, "{quota}");
        }
    }
}

#[test]
fn more_than_the_limit_is_charged_as_a_debt() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(TokenBucket::new(Rate::per_second(10))).per::<u64>();
    let limiter = builder.clock(clock.clone()).build().unwrap();
    let account = limiter.account(1);
    assert_eq!(account.settle(account.check_n(10), 35).unwrap().debited, 25);
    clock.advance(std::time::Duration::from_millis(2_599));
    assert!(!account.check().is_allowed());
    clock.advance(std::time::Duration::from_millis(1));
    assert!(account.check().is_allowed());
}

#[test]
fn a_receipt_of_another_key_settles_nothing() {
    let (one, other) = (limiter(TokenBucket::new(DAY)), limiter(TokenBucket::new(DAY)));
    for real in [0, 5, 9] {
        assert_eq!(one.account(2).settle(one.check_n(1, 5), real), Err(DebitError::Foreign));
        assert_eq!(other.account(1).settle(one.check_n(1, 5), real), Err(DebitError::Foreign));
    }
    let left =
        |limiter: &Limiter<u64, Quota, 1, ManualClock>, key| limiter.account(key).peek_n(0).remaining();
    assert_eq!([left(&one, 1), left(&one, 2), left(&other, 1)], [70, 100, 100]);
}

/// Refused or admitted uncounted, it took nothing: all that it cost is missing.
#[test]
fn what_took_nothing_is_charged_in_whole() {
    let limiter = limiter(FixedWindow::new(DAY));
    let account = limiter.account(1);
    assert!(account.check_n(98).is_allowed());
    let refused = account.check_n(5);
    assert!(!refused.is_allowed());
    assert_eq!(account.settle(refused, 2).unwrap().debited, 2);
    assert_eq!(account.peek_n(0).remaining(), 0);

    let builder = Limiter::builder(Quota::from(TokenBucket::new(DAY))).per::<u64>().max_keys(1);
    let full = builder.when_full(WhenFull::Allow).clock(ManualClock::new()).build().unwrap();
    (0..2_000).for_each(|key| drop(full.check_n(key, 100)));
    let key = (2_000..).find(|&key| full.check(key).receipt().left() == 0).unwrap();
    assert_eq!(full.account(key).settle(full.check(key), 3), Err(DebitError::Full));
}

#[test]
fn several_limits_and_lent_quotas_settle_alike() {
    let several = [TokenBucket::new(DAY), TokenBucket::new(Rate::per_hour(50))];
    let several = Limiter::builder(several).per::<u64>().clock(ManualClock::new()).build().unwrap();
    let account = several.account(1);
    assert_eq!(account.settle(account.check_n(20), 12).unwrap().refunded, 8);
    assert_eq!(account.settle(account.check_n(20), 32).unwrap().debited, 12);
    let left: Vec<u64> = account.peek_n(0).parts().map(|part| part.remaining()).collect();
    assert_eq!(left, [56, 6]);

    let calls = Limiter::builder(CallQuota::new(DAY, 1).unwrap()).per::<u64>();
    let calls = calls.clock(ManualClock::new()).build().unwrap();
    let quota = CallQuota::new(DAY, 100).unwrap().lend();
    let account = calls.account(1).under(&quota);
    assert_eq!(account.settle(account.check_n(20), 12).unwrap().refunded, 8);
    assert_eq!(account.settle(account.check_n(20), 130).unwrap().debited, 110);
    assert_eq!(account.credit(200), 142, "by its own price");
}

/// A change, a reset and a restart between a request and its end.
#[test]
fn settling_late_forgives_and_charges_by_what_is_current() {
    let limiter = limiter(TokenBucket::new(DAY));
    let account = limiter.account(1);
    let [less, more, reset, restart] = [10; 4].map(|cost| account.check_n(cost).receipt());
    limiter
        .change()
        .to(Quota::from(TokenBucket::new(Rate::per_day(50))))
        .inherit(Inherit::Additive)
        .apply()
        .unwrap();
    assert_eq!(account.settle(less, 4).unwrap().refunded, 6);
    assert_eq!(account.settle(more, 13).unwrap().debited, 3);
    assert_eq!(account.peek_n(0).remaining(), 50 - 37);
    assert!(account.reset());
    assert_eq!(account.settle(reset, 4).unwrap().refunded, 0, "it is forgiven already");
    let mut file = Vec::new();
    limiter.save(&mut file).unwrap();
    let again = Limiter::builder(Quota::from(TokenBucket::new(Rate::per_day(50)))).per::<u64>();
    let again = again.clock(ManualClock::new()).restore(&file[..]).unwrap();
    assert_eq!(again.account(1).settle(restart, 20), Err(DebitError::Foreign));
}

/// Threads settle one key while its quota changes: no debt is forgiven, and without a change each
/// request costs exactly its real cost.
#[test]
fn threads_settle_one_key_without_losing_a_unit() {
    const LIMIT: u64 = 1_000_000;
    for changes in [0, 200] {
        let limiter = limiter(FixedWindow::new(Rate::per_day(LIMIT)));
        let spend = |thread: u64| {
            let account = limiter.account(1);
            let each = (0..2_000_u64).map(|round| {
                let real = (round * 7 + thread * 5) % 21;
                account.settle(account.check_n(10), real).expect("a window keeps debts");
                real
            });
            each.sum::<u64>()
        };
        let real: u64 = std::thread::scope(|scope| {
            let spend = &spend;
            let threads: Vec<_> = (0..3).map(|thread| scope.spawn(move || spend(thread))).collect();
            for change in 0..changes {
                let quota = FixedWindow::new(Rate::per_day(LIMIT + change % 2));
                limiter.change().to(Quota::from(quota)).inherit(Inherit::Additive).apply().unwrap();
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let (current, left) = (limiter.peek(1).limit(), limiter.account(1).peek_n(0).remaining());
        let charged = current - left;
        assert!(
            charged >= real && (changes > 0 || charged == real),
            "{charged} of {real}, {changes} changes"
        );
    }
}

/// A log forgets nothing that it admitted, and keeps no debt.
#[test]
fn a_log_settles_what_came_to_less() {
    let limiter = limiter(SlidingLog::new(DAY));
    let account = limiter.account(1);
    assert_eq!(account.settle(account.check_n(9), 7).unwrap().refunded, 2);
    assert_eq!(account.settle(account.check_n(9), 10), Err(DebitError::NoDebt));
    assert_eq!(account.peek_n(0).remaining(), 84);
}
