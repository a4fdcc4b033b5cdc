//! The slot protocol: charge, insert, recycle, publish, deny, in every interleaving.
#![cfg(loom)]

use loom_tests::{Named, Run, Shared, X, Y, Z, admitted, at, explore, limiter, tick};
use tollgate::{Rate, TokenBucket, WhenFull};

/// One token a second, two at most.
const TWO: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(2);
/// One token a second, one at most.
const ONE: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(1);
/// A fourth key.
const W: Named = Named::new(3);

/// Checks `keys` in order, and counts those of `counted` that were admitted.
fn check(limiter: &Shared<TokenBucket>, keys: &'static [Named], counted: Named) -> Run {
    let limiter = limiter.clone();
    let count = move |key: &Named| u64::from(limiter.check(key).is_allowed() && *key == counted);
    Box::new(move || keys.iter().map(count).sum())
}

/// One step refills the bucket and takes the tokens.
#[test]
fn two_charges_of_one_key_take_one_token_once() {
    explore(None, || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check_n(&X, 2).is_allowed());
        clock.set(at(1));
        assert_eq!(admitted([check(&limiter, &[X], X), check(&limiter, &[X], X)]), 1);
    });
}

/// The same with three threads and two tokens.
#[test]
fn three_charges_of_one_key_take_two_tokens() {
    explore(Some(3), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        clock.set(at(9));
        let threads = [check(&limiter, &[X], X), check(&limiter, &[X], X), check(&limiter, &[X], X)];
        assert_eq!(admitted(threads), 2);
    });
}

/// Two threads insert the same new key.
#[test]
fn a_key_inserted_twice_at_once_is_inserted_once() {
    explore(None, || {
        let (limiter, _) = limiter(ONE, WhenFull::Deny);
        assert_eq!(admitted([check(&limiter, &[Y], Y), check(&limiter, &[Y], Y)]), 1);
        assert_eq!(limiter.usage().live_keys, 1);
    });
}

/// The same with three threads: the paths are many, so one involuntary switch on each.
#[test]
fn a_key_inserted_three_times_at_once_is_inserted_once() {
    explore(Some(1), || {
        let (limiter, _) = limiter(ONE, WhenFull::Deny);
        let threads = [check(&limiter, &[Y], Y), check(&limiter, &[Y], Y), check(&limiter, &[Y], Y)];
        assert_eq!(admitted(threads), 1);
    });
}

/// A charge of the last owner is in flight while another key recycles the slot.
#[test]
fn a_recycled_slot_takes_no_charge_of_its_last_owner() {
    explore(Some(3), || {
        let (limiter, clock) = limiter(ONE, WhenFull::Deny);
        // Both slots expire; Y recycles one of them while X comes back.
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Z).is_allowed());
        clock.set(at(1));
        let (mine, theirs) = (check(&limiter, &[X], X), check(&limiter, &[Y], Y));
        assert_eq!(admitted([mine, theirs]), 2);
        assert!(!limiter.peek(&X).is_allowed() && !limiter.peek(&Y).is_allowed());
    });
}

/// X comes back in two threads while Y recycles a slot.
#[test]
fn a_revived_owner_and_a_recycler_never_share_a_slot() {
    explore(Some(1), || {
        let (limiter, clock) = limiter(ONE, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Z).is_allowed());
        clock.set(at(1));
        let threads = [check(&limiter, &[X, X], X), check(&limiter, &[Y, Y], X), check(&limiter, &[X], X)];
        assert_eq!(admitted(threads), 1, "X is admitted once at one moment");
    });
}

/// One slot is free: both threads end, and no key is admitted twice.
#[test]
fn two_keys_for_one_slot_both_get_an_answer() {
    explore(Some(3), || {
        let (limiter, _) = limiter(ONE, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        let threads = [check(&limiter, &[Y, Z], Y), check(&limiter, &[Z, Y], Y)];
        assert!(admitted(threads) <= 1);
    });
}

/// A charge meets a committed, unpublished word.
#[test]
fn a_charge_on_an_unpublished_word_is_counted_once() {
    explore(Some(3), || {
        let (limiter, _) = limiter(TWO, WhenFull::Deny);
        let threads = [check(&limiter, &[Y, Y], Y), check(&limiter, &[Y, Y], Y)];
        assert_eq!(admitted(threads), 2);
    });
}

/// A late thread asks for the new owner of a recycled slot.
#[test]
fn a_denial_speaks_of_the_key_that_was_asked_about() {
    explore(Some(3), || {
        let (limiter, clock) = limiter(ONE, WhenFull::Deny);
        // X's slot runs out and Y takes it, while a late thread asks for Y: only Y's own debt may
        // refuse Y.
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Z).is_allowed());
        clock.set(at(1));
        let threads = [check(&limiter, &[X], Y), check(&limiter, &[Y], Y)];
        assert_eq!(admitted(threads), 1, "nobody else asked for Y");
    });
}

/// The clock moves during an insertion: an outdated time mints no token.
#[test]
fn a_moving_clock_mints_no_token() {
    explore(Some(2), || {
        let (limiter, clock) = limiter(ONE, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Z).is_allowed());
        clock.set(at(1));
        let threads = [check(&limiter, &[Y, Y], Y), check(&limiter, &[Y], Y), tick(&clock, &[2])];
        assert!(admitted(threads) <= 2, "one at each of two moments");
    });
}

/// The clock steps back during an insertion.
#[test]
fn a_clock_that_steps_back_mints_no_token() {
    explore(Some(2), || {
        let (limiter, clock) = limiter(ONE, WhenFull::Deny);
        clock.set(at(5));
        assert!(limiter.check(&Y).is_allowed());
        let threads = [check(&limiter, &[Y, Y], Y), check(&limiter, &[Y], Y), tick(&clock, &[4, 5])];
        assert_eq!(admitted(threads), 0);
    });
}

/// A reset and a charge at once: no more than the debt is forgiven.
#[test]
fn a_reset_forgives_once() {
    explore(Some(3), || {
        let (limiter, _) = limiter(ONE, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        let reset = limiter.clone();
        let forgive: Run = Box::new(move || {
            assert!(reset.account(&X).reset());
            0
        });
        let threads = [check(&limiter, &[X, X], X), forgive];
        assert!(admitted(threads) <= 1);
    });
}

/// A charge of X, read while the slot was X's, meets the very same word under the slot's third
/// owner. It is not X's: or X would be admitted once for it, and once more in the slot that empties
/// meanwhile.
#[test]
fn a_charge_of_a_third_owners_word_does_not_count() {
    explore(Some(2), || {
        let (limiter, clock) = limiter(ONE, WhenFull::Deny);
        // X is in its home slot and recovers; W is in the other and is in debt again.
        assert!(limiter.check(&X).is_allowed() && limiter.check(&W).is_allowed());
        clock.set(at(1));
        assert!(limiter.check(&W).is_allowed());
        let others = limiter.clone();
        let others: Run = Box::new(move || {
            for key in [Y, Z] {
                let _ = others.check(&key);
                others.account(&key).reset();
            }
            others.account(&W).reset();
            u64::from(others.check(&X).is_allowed())
        });
        assert_eq!(admitted([check(&limiter, &[X], X), others]), 1, "X is admitted once at one moment");
    });
}

/// Y comes back to its slot while W takes it and drains it: W's word refuses W only.
#[test]
fn a_refusal_does_not_speak_of_the_owner_after() {
    explore(Some(3), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check(&Y).is_allowed() && limiter.check(&Z).is_allowed());
        clock.set(at(1));
        let taker = limiter.clone();
        let taker: Run = Box::new(move || {
            assert!(taker.check_n(&W, 2).is_allowed());
            0
        });
        assert_eq!(admitted([check(&limiter, &[Y], Y), taker]), 1, "there is room for both");
    });
}
