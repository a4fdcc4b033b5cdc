//! Calls that bring their quotas: charged beside each other, inserted, reset and refunded.
#![cfg(loom)]

use std::sync::Arc;

use loom_tests::{Named, Run, X, Y, Z, admitted, explore};
use tollgate::{CallQuota, Lent, Limiter, ManualClock};

type Shared = Arc<Limiter<Named, CallQuota, 1, ManualClock>>;

/// A limiter of two slots a bucket.
fn limiter() -> Shared {
    let any = CallQuota::from_nanos(1, 1).expect("the model's quota is valid");
    let builder = Limiter::builder(any).per().max_keys(1).clock(ManualClock::new());
    Arc::new(builder.build().expect("one key fits"))
}

fn quota(emission: u64, tolerance: u64) -> Lent {
    CallQuota::from_nanos(emission, tolerance).expect("the model's quota is valid").lend()
}

/// Whether a request of a key that has a slot, or finds one, is admitted.
fn check(limiter: &Shared, key: Named, quota: &Lent) -> bool {
    let decision = limiter.account(&key).under(quota).check();
    assert!(!decision.is_full(), "there is room");
    decision.is_allowed()
}

fn debt(limiter: &Shared, key: Named) -> u64 {
    limiter.account(&key).peek_n(0).reset_after().as_nanos() as u64
}

/// Checks the key so many times: the nanoseconds that it was charged.
fn charge(limiter: &Shared, key: Named, times: usize, emission: u64, tolerance: u64) -> Run {
    let (limiter, quota) = (limiter.clone(), quota(emission, tolerance));
    let each = move |_| if check(&limiter, key, &quota) { emission } else { 0 };
    Box::new(move || (0..times).map(each).sum())
}

/// The one inserts the key, or both do.
#[test]
fn two_quotas_charge_one_key_exactly() {
    explore(Some(3), || {
        let limiter = limiter();
        let charged = admitted([charge(&limiter, X, 2, 2, 4), charge(&limiter, X, 1, 3, 6)]);
        assert_eq!(debt(&limiter, X), charged);
        assert!((3..=5).contains(&charged), "{charged}: the first, and what fits beside");
    });
}

/// Both slots are in debt. Two new keys, one of which may inherit, meet.
#[test]
fn a_full_bucket_forgets_no_debt_under_two_quotas() {
    explore(Some(2), || {
        let limiter = limiter();
        assert!(check(&limiter, Y, &quota(2, 2)));
        assert!(check(&limiter, Z, &quota(6, 6)));
        let taken = |key, emission: u64, tolerance| -> Run {
            let (limiter, quota) = (limiter.clone(), quota(emission, tolerance));
            Box::new(move || {
                let decision = limiter.account(&key).under(&quota).check();
                assert!(
                    decision.is_allowed() || decision.is_full(),
                    "the debt is not the key's: {decision:?}"
                );
                if decision.is_allowed() { decision.reset_after().as_nanos() as u64 } else { 0 }
            })
        };
        let [large, small] = [taken(X, 1, 4), taken(Named::new(3), 1, 3)];
        // X inherits two; the other has no room beside two, and none beside what X has.
        assert_eq!(admitted([large, small]), 3);
        let small = quota(1, 2);
        let lost = limiter.account(&Y).under(&small).check();
        assert!(!lost.is_allowed() && lost.is_full(), "it has lost its slot and owes two");
        assert!(!check(&limiter, Z, &quota(1, 6)), "it has its slot");
    });
}

/// Whichever comes second sees the first. The check after the reset stays charged.
#[test]
fn a_call_is_not_forgiven_and_refunded_by_two_threads() {
    explore(Some(3), || {
        let limiter = limiter();
        let two = quota(1, 2);
        let charged = limiter.account(&X).under(&two).check().receipt();
        let (refunder, resetter) = (limiter.clone(), limiter.clone());
        let refund: Run = Box::new(move || {
            refunder.refund(charged);
            0
        });
        let reset: Run = Box::new(move || {
            resetter.account(&X).reset();
            u64::from(check(&resetter, X, &two))
        });
        assert_eq!(admitted([refund, reset]), 1);
        assert_eq!(debt(&limiter, X), 1);
    });
}
