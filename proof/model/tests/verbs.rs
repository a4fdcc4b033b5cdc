//! Refunds, reservations and several limits against brute force. Checks are in `properties.rs`.

use tollgate_model::{
    Algorithm, Answer, Booking, CountPolicy, Model, MultiModel, Receipt, Refusal, Reservation,
};
use tollgate_testing::limits::{Kind, any_tiny, tiny};
use tollgate_testing::random::Random;

const SEQUENCES: u64 = 300;
const STEPS: usize = 120;
const KEYS: [&str; 2] = ["k", "l"];

/// A request that acts at a time, and how to undo it.
struct Act {
    at: u64,
    cost: u64,
    undo: Undo,
}

enum Undo {
    Refund(Receipt),
    Cancel(Reservation),
}

/// The most that acts within any half-open interval of this length.
fn most_within(acts: &[(u64, u64)], length: u64) -> u64 {
    let from = |start: u64| {
        let inside = acts.iter().filter(|(at, _)| (start..start + length).contains(at));
        inside.map(|(_, cost)| cost).sum()
    };
    acts.iter().map(|&(start, _)| from(start)).max().unwrap_or(0)
}

/// A bucket that is not a queue, with its count, period, burst and grains.
fn bucket(random: &mut Random) -> (Algorithm, u64, u64, u64, Option<u64>) {
    let algorithm = tiny(Kind::Bucket, random);
    let Algorithm::TokenBucket { count, period_ns, burst, grains, .. } = algorithm else { unreachable!() };
    let meter = Algorithm::LeakyMeter { count, period_ns, capacity: burst, grains };
    (if random.u64(..3) == 0 { meter } else { algorithm }, count, period_ns, burst, grains)
}

/// Times and costs of one key's requests that act, with random refunds, among requests of another
/// key.
fn acts_of_a_bucket(algorithm: Algorithm, random: &mut Random) -> Vec<(u64, u64)> {
    let mut model = Model::new(algorithm);
    let mut now = random.u64(..50);
    let mut acts: [Vec<Act>; KEYS.len()] = Default::default();
    // Some runs never reserve, some hardly ever refund, in some the time hardly moves.
    let (verbs, hurry) = (4 + random.u64(..7), random.u64(1..=4));
    for _ in 0..STEPS {
        now += if random.u64(..hurry) == 0 { random.u64(..7) } else { 0 };
        let (key, cost) = (random.usize(..KEYS.len()), random.u64(1..=5));
        let acts = &mut acts[key];
        match random.u64(..verbs) {
            0..=1 => {
                if let (_, Some(receipt)) = model.admit(KEYS[key], now, cost) {
                    acts.push(Act { at: now, cost, undo: Undo::Refund(receipt) });
                }
            }
            2..=4 if !acts.is_empty() => {
                let act = acts.swap_remove(random.usize(..acts.len()));
                match act.undo {
                    Undo::Refund(receipt) => assert!(model.refund(receipt, now) <= act.cost),
                    Undo::Cancel(reservation) if now < act.at => {
                        assert!(model.cancel(reservation, now) <= act.cost);
                    }
                    // It has departed.
                    Undo::Cancel(_) => acts.push(act),
                }
            }
            _ if verbs < 7 => {}
            _ => {
                if let Ok(Booking::Booked(reservation)) = model.reserve(KEYS[key], now, cost, 40) {
                    let at = reservation.departs_at_ns();
                    acts.push(Act { at, cost, undo: Undo::Cancel(reservation) });
                }
            }
        }
    }
    let [first, _] = acts;
    first.into_iter().map(|act| (act.at, act.cost)).collect()
}

#[test]
fn a_bucket_keeps_its_bound_with_any_refunds() {
    for seed in 1..=10 * SEQUENCES {
        let mut random = Random::with_seed(seed);
        let (algorithm, count, period_ns, burst, grains) = bucket(&mut random);
        let acts = acts_of_a_bucket(algorithm, &mut random);
        for interval in 0..100 {
            let most = most_within(&acts, interval + 1);
            // At the start of the interval a coarse clock may show up to one grain too little.
            let (grains, slack) = grains.map_or((1, 0), |grains| (grains, period_ns));
            // A departure is rounded up to a nanosecond, so the first and the last may be that much
            // closer.
            let bound = grains * (burst * period_ns + (interval + 1) * count) + slack;
            assert!(most * period_ns * grains <= bound, "seed {seed}: {algorithm:?}, {interval}: {most}");
        }
    }
}

/// Times and costs of admissions that were not given back, with refunds in any order.
fn kept(algorithm: Algorithm, random: &mut Random) -> Vec<(u64, u64)> {
    let mut model = Model::new(algorithm);
    let mut now = random.u64(..50);
    let mut admitted: Vec<(u64, Receipt)> = Vec::new();
    let mut kept = Vec::new();
    for _ in 0..STEPS {
        now += random.u64(..7);
        if random.u64(..3) == 0 && !admitted.is_empty() {
            let (_, receipt) = admitted.swap_remove(random.usize(..admitted.len()));
            let cost = receipt.cost();
            assert!(model.refund(receipt, now) <= cost);
        } else if let (_, Some(receipt)) = model.admit("k", now, random.u64(..5)) {
            admitted.push((now, receipt));
        }
    }
    kept.extend(admitted.into_iter().map(|(at, receipt)| (at, receipt.cost())));
    kept
}

#[test]
fn no_window_exceeds_the_limit_with_any_refunds() {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        for algorithm in [tiny(Kind::Log, &mut random), tiny(Kind::SubWindows, &mut random)] {
            let (Algorithm::SlidingLog { limit, window_ns, .. }
            | Algorithm::SubWindows { limit, window_ns, .. }) = algorithm
            else {
                unreachable!()
            };
            let most = most_within(&kept(algorithm, &mut random), window_ns);
            assert!(most <= limit, "seed {seed}: {algorithm:?} kept {most}");
        }
    }
}

#[test]
fn no_aligned_window_exceeds_the_limit_with_any_refunds() {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        let (limit, window_ns, origin_ns) = (random.u64(1..=8), random.u64(1..=30), random.u64(..100));
        let (count, ceiling) =
            ([CountPolicy::Allowed, CountPolicy::All][random.usize(..2)], limit + random.u64(..9));
        let granule = random.u64(1..=4);
        for algorithm in [
            Algorithm::FixedWindow { limit, window_ns, origin_ns, count, ceiling },
            Algorithm::SlidingWindow { limit, window_ns, origin_ns, count, ceiling, granule },
        ] {
            let kept = kept(algorithm, &mut random);
            let window = |at: u64| (at + origin_ns) / window_ns;
            for &(at, _) in &kept {
                let same = kept.iter().filter(|(other, _)| window(*other) == window(at));
                assert!(same.map(|(_, cost)| cost).sum::<u64>() <= limit, "seed {seed}: {algorithm:?}");
            }
        }
    }
}

#[test]
fn a_refund_at_once_leaves_the_key_as_it_was() {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        let algorithm = any_tiny(&mut random);
        let mut model = Model::new(algorithm);
        let mut now = random.u64(..50);
        for _ in 0..STEPS {
            now += random.u64(..9);
            let (before, cost) = (model.peek("k", now, 0), random.u64(..5));
            if let (_, Some(receipt)) = model.admit("k", now, cost)
                && random.bool()
            {
                assert_eq!(model.refund(receipt, now), cost, "seed {seed}: {algorithm:?}");
                assert_eq!(model.peek("k", now, 0), before, "seed {seed}: {algorithm:?}");
            }
        }
    }
}

#[test]
fn a_reservation_departs_when_the_same_check_would_pass() {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        let (algorithm, ..) = bucket(&mut random);
        let mut model = Model::new(algorithm);
        let mut now = random.u64(..50);
        for _ in 0..STEPS {
            now = if random.u64(..8) == 0 { now.saturating_sub(9) } else { now + random.u64(..9) };
            let (cost, patience) = (random.u64(..9), random.u64(..30));
            let before = model.peek("k", now, cost);
            let wait = before.retry_after_ns.unwrap_or(0);
            match model.reserve("k", now, cost, patience).expect("a bucket") {
                Booking::Never => assert!(before.never),
                Booking::Booked(reservation) => {
                    assert!(!before.never && wait <= patience);
                    assert_eq!(reservation.departs_at_ns(), now + wait);
                    continue;
                }
                Booking::Refused { wait_ns } => {
                    assert!(wait_ns > patience);
                    assert_eq!(wait_ns, wait);
                }
            }
            assert_eq!(model.peek("k", now, cost), before);
        }
    }
}

#[test]
fn several_limits_are_charged_all_or_none() {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        let limits: Vec<_> = (0..3).map(|_| any_tiny(&mut random)).collect();
        let mut multi = MultiModel::new(&limits);
        // Each limit also has a model of its own, which is charged where the rule charges it.
        let mut alone: Vec<_> = limits.iter().copied().map(Model::new).collect();
        let mut now = random.u64(..50);
        for _ in 0..STEPS {
            now += random.u64(..9);
            let cost = random.u64(..5);
            let would: Vec<_> = alone.iter().map(|limit| limit.peek("k", now, cost)).collect();
            let joint = multi.check("k", now, cost);
            assert_eq!(joint.allowed(), would.iter().all(|answer| answer.allowed));
            let never = would.iter().any(|answer| answer.never);
            for (limit, answer) in alone.iter_mut().zip(&would) {
                if !never && (joint.allowed() || !answer.allowed) {
                    assert_eq!(limit.check("k", now, cost), *answer);
                }
            }
            let remaining = |limit: &Model| limit.peek("k", now, 0).remaining;
            assert_eq!(Some(joint.remaining), alone.iter().map(remaining).min());
            assert_eq!(joint.refusal, expected_refusal(&would));
        }
    }
}

fn expected_refusal(answers: &[Answer]) -> Option<Refusal> {
    if let Some(limit) = answers.iter().position(|answer| answer.never) {
        return Some(Refusal { limit, retry_after_ns: None });
    }
    let longest = answers.iter().filter_map(|answer| answer.retry_after_ns).max()?;
    let limit = answers.iter().position(|answer| answer.retry_after_ns == Some(longest))?;
    Some(Refusal { limit, retry_after_ns: Some(longest) })
}

#[test]
fn no_number_is_too_large() {
    let extremes = [1, 2, 1 << 32, u64::MAX - 1, u64::MAX];
    let mut random = Random::with_seed(1);
    for _ in 0..20_000 {
        let mut pick = || extremes[random.usize(..5)];
        let (count, period_ns, capacity, initial, granule) = (pick(), pick(), pick(), pick(), pick());
        let (limit, window_ns, origin_ns, ceiling) = (pick(), pick(), pick(), u64::MAX);
        let grains = [None, Some(pick())][(pick() % 2) as usize];
        let policy = [CountPolicy::Allowed, CountPolicy::All][(pick() % 2) as usize];
        for algorithm in [
            Algorithm::TokenBucket { count, period_ns, burst: capacity, initial, grains },
            Algorithm::LeakyQueue { count, period_ns, capacity, grains },
            Algorithm::FixedWindow { limit, window_ns, origin_ns, count: policy, ceiling },
            Algorithm::SlidingWindow { limit, window_ns, origin_ns, count: policy, ceiling, granule },
            Algorithm::SlidingLog { limit, window_ns, count: policy },
        ] {
            let mut model = Model::new(algorithm);
            let receipts = [(); 2].map(|()| model.admit("k", pick(), pick()).1);
            let booking = model.reserve("k", pick(), pick(), pick());
            for receipt in receipts.into_iter().flatten() {
                let cost = receipt.cost();
                assert!(model.refund(receipt, pick()) <= cost);
            }
            if let Ok(Booking::Booked(reservation)) = booking {
                model.cancel(reservation, pick());
            }
        }
    }
}
