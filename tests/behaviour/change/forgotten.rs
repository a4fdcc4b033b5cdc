//! A full bucket over many changes of the quota, at one time: no key gets more than its burst.
//!
//! Debts of several versions meet in a bucket: in its slots, and in the overflow word of the keys
//! that lost theirs. Each must be read by the version that wrote it.

use tollgate::Inherit::Additive;
use tollgate::{Decision, Limiter, ManualClock, Rate, TokenBucket, WhenFull};
use tollgate_testing::keys::Fellow;
use tollgate_testing::random::Random;

const BURST: u64 = 20;

type Subject = Limiter<Fellow, TokenBucket, 1, ManualClock>;

fn quota() -> TokenBucket {
    TokenBucket::new(Rate::per_day(1)).burst(BURST)
}

/// A limiter with room for so many keys; restored from `saved` unless that is empty.
fn limiter(max_keys: usize, saved: &[u8]) -> Subject {
    let builder = Limiter::builder(quota()).per().max_keys(max_keys).when_full(WhenFull::Share);
    let builder = builder.clock(ManualClock::new());
    let limiter = if saved.is_empty() { builder.build() } else { return builder.restore(saved).unwrap() };
    limiter.unwrap()
}

/// Checks and refunds keys at random, and now and then changes to the same quota. Adds what each
/// key took to `taken`, and asserts that no key holds more than its burst.
fn play(limiter: &Subject, random: &mut Random, taken: &mut [u64], seed: u64) {
    let mut held: Vec<(usize, u64, Decision<'_>)> = Vec::new();
    for turn in 0..400 {
        let (key, cost) = (random.u64(..taken.len() as u64), random.u64(1..=12));
        match random.u64(..20) {
            0 => limiter.change().to(quota()).inherit(Additive).apply().unwrap(),
            1..=4 if !held.is_empty() => {
                let (key, cost, decision) = held.swap_remove(random.usize(..held.len()));
                let back = limiter.refund(decision);
                assert!(back <= cost);
                taken[key] -= back;
            }
            _ => {
                let decision = limiter.check_n(Fellow(key), cost);
                if decision.is_allowed() {
                    taken[key as usize] += cost;
                    held.push((key as usize, cost, decision));
                }
            }
        }
        let most = taken.iter().max();
        assert!(most <= Some(&BURST), "seed {seed}, turn {turn}: a key got {most:?} of {BURST}");
    }
}

/// If the new quota's number read a debt in the overflow word, the debt would be worth nothing.
#[test]
fn a_debt_outlives_every_change_in_a_full_bucket() {
    let (mut shared, mut evicted) = (0, 0);
    for seed in 0..300 {
        let (limiter, mut random) = (limiter(1, &[]), Random::with_seed(seed));
        let mut taken = [0; 24];
        play(&limiter, &mut random, &mut taken, seed);
        (shared, evicted) = (shared + limiter.stats().shared, evicted + limiter.stats().evicted_with_debt);
    }
    assert!(shared > 300 && evicted > 300, "{shared} shared, {evicted} evicted");
}

/// The same, but the bucket is restored into a larger table. Its splits copy the overflow word.
#[test]
fn a_debt_outlives_changes_and_the_splits_of_its_bucket() {
    for seed in 0..60 {
        let (small, mut random) = (limiter(1, &[]), Random::with_seed(seed));
        let mut taken = vec![0; 24];
        play(&small, &mut random, &mut taken, seed);
        let mut saved = Vec::new();
        small.save(&mut saved).unwrap();
        let large = limiter(20_000, &saved);
        // More keys come, and the bucket is split for them.
        for _ in 0..3 {
            taken.extend([0; 20]);
            play(&large, &mut random, &mut taken, seed);
        }
        assert_eq!(large.stats().shared, 0, "a full bucket is split instead");
    }
}
