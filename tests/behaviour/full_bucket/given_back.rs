//! A full bucket in which a key is given back what it took: how long a new key waits then.

use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota, TokenBucket, WhenFull};
use tollgate_testing::keys::Fellow;

use super::{SLOTS, STRANGER, is_admitted_after, refusing, start};

/// How a key gets back what it took.
#[derive(Clone, Copy, Debug)]
enum Back {
    Refund,
    Part,
    Credit,
    Reset,
}

const WAYS: [Back; 4] = [Back::Refund, Back::Part, Back::Credit, Back::Reset];

/// Fifteen keys ask for seven each, and one of them gets it back. A millisecond lies between them,
/// so they are in one window.
fn filled(
    quota: Quota,
    when_full: WhenFull,
    (back, lucky): (Back, u64),
    clock: &ManualClock,
) -> Limiter<Fellow, Quota, 1, ManualClock> {
    let builder = Limiter::builder(quota).per::<Fellow>().max_keys(1).when_full(when_full);
    let limiter = builder.clock(clock.clone()).build().unwrap();
    let mut receipts = Vec::new();
    for key in 0..SLOTS {
        let taken = limiter.check_n(Fellow(key), 7);
        assert!(taken.is_allowed());
        receipts.push(taken.receipt());
        clock.advance(Duration::from_millis(1));
    }
    let mut receipt = receipts.remove(lucky as usize);
    let key = limiter.account(Fellow(lucky));
    match back {
        Back::Refund => drop(limiter.refund(receipt)),
        Back::Part => drop(limiter.refund_part(&mut receipt, 6)),
        Back::Credit => drop(key.credit(7)),
        Back::Reset => assert!(key.reset()),
    }
    limiter
}

#[test]
fn a_refusal_knows_the_next_vacant_slot_also_after_refunds() {
    for (quota, when_full) in refusing() {
        for (back, lucky) in WAYS.into_iter().flat_map(|back| [(back, 0), (back, 7), (back, 14)]) {
            let clock = start();
            let limiter = filled(quota, when_full, (back, lucky), &clock);
            let what = format!("{quota}, {when_full:?}, {back:?} of key {lucky}");
            let refused = limiter.peek(&STRANGER);
            if refused.is_allowed() {
                assert!(limiter.check(&STRANGER).is_allowed(), "{what}");
                continue;
            }
            let (wait, more) = (refused.retry_after().unwrap(), refused.more_after());
            assert_eq!(limiter.check(&STRANGER).retry_after(), Some(wait), "{what}");
            assert_eq!((refused.remaining(), more), (0, wait), "{what}");
            is_admitted_after(wait, &clock, &what, || limiter.check(&STRANGER).is_allowed());
        }
    }
}

#[test]
fn several_limits_know_the_next_vacant_slot_also_after_refunds() {
    for (quota, when_full) in refusing() {
        for back in [Back::Refund, Back::Credit, Back::Reset] {
            let clock = start();
            let roomy = Quota::from(TokenBucket::new(tollgate::Rate::per_second(1_000_000)).burst(1_000_000));
            let builder = Limiter::builder([quota, roomy]).per::<Fellow>().max_keys(1).when_full(when_full);
            let limiter = builder.clock(clock.clone()).build().unwrap();
            let mut receipts = Vec::new();
            for key in 0..SLOTS {
                receipts.push(limiter.check_n(Fellow(key), 7).receipt());
                clock.advance(Duration::from_millis(1));
            }
            match back {
                Back::Credit => drop(limiter.account(Fellow(14)).credit(7)),
                Back::Reset => assert!(limiter.account(Fellow(14)).reset()),
                _ => drop(limiter.refund(receipts.remove(14))),
            }
            let what = format!("{quota}, {when_full:?}, {back:?}");
            let refused = limiter.check(&STRANGER);
            let Some(wait) = refused.retry_after() else { continue };
            is_admitted_after(wait, &clock, &what, || limiter.check(&STRANGER).is_allowed());
        }
    }
}
