//! The model against brute force: its promises are checked one nanosecond after the other.
//!
//! Limits are tiny, so that sequences meet every boundary often. Clocks go back now and then.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate_model::{Algorithm, Answer, CountPolicy, Model};
use tollgate_testing::limits::{Kind, any_tiny, tiny};
use tollgate_testing::random::Random;

const SEQUENCES: u64 = 300;
const STEPS: usize = 60;

/// One check of a sequence: the model before and after it, and the answer.
struct Step<'a> {
    before: &'a Model,
    after: &'a Model,
    now: u64,
    cost: u64,
    answer: Answer,
}

/// Runs pseudo-random sequences of checks on pseudo-random algorithms; `judge` sees every step.
fn for_each_step(random_algorithm: fn(&mut Random) -> Algorithm, judge: fn(&Algorithm, &Step)) {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        let algorithm = random_algorithm(&mut random);
        // Two models, one check apart, so that `judge` sees the state before and after.
        let (mut before, mut after) = (Model::new(algorithm), Model::new(algorithm));
        let mut now = random.u64(..50);
        for step in 0..STEPS {
            now = if random.u64(..8) == 0 {
                now.saturating_sub(random.u64(..30))
            } else {
                now + random.u64(..9)
            };
            let cost = random.u64(..9);
            let answer = after.check("k", now, cost);
            let seen = Step { before: &before, after: &after, now, cost, answer };
            let judged = catch_unwind(AssertUnwindSafe(|| judge(&algorithm, &seen)));
            assert!(judged.is_ok(), "seed {seed}, step {step}: {algorithm:?}, {cost} at {now}: {answer:?}");
            before.check("k", now, cost);
        }
    }
}

#[test]
fn a_wait_is_exact_to_the_nanosecond() {
    for_each_step(any_tiny, |_, step| {
        let possible = step.answer.allowed || step.answer.never;
        assert_eq!(step.answer.retry_after_ns.is_none(), possible);
        let Some(wait) = step.answer.retry_after_ns else { return };
        for earlier in 1..wait {
            assert!(!step.after.peek("k", step.now + earlier, step.cost).allowed, "passes after {earlier}");
        }
        assert!(step.after.peek("k", step.now + wait, step.cost).allowed, "refused after {wait}");
    });
}

#[test]
fn a_peek_says_what_the_check_says() {
    for_each_step(any_tiny, |_, step| {
        assert_eq!(step.before.peek("k", step.now, step.cost), step.answer);
    });
}

#[test]
fn remaining_is_the_largest_cost_that_would_pass() {
    for_each_step(any_tiny, |_, step| {
        let Answer { remaining, limit, .. } = step.answer;
        assert!(step.after.peek("k", step.now, remaining).allowed);
        let more = step.after.peek("k", step.now, remaining + 1);
        assert!(!more.allowed);
        assert_eq!(more.never, remaining == limit);
    });
}

#[test]
fn after_its_reset_a_key_equals_one_never_seen() {
    for_each_step(any_tiny, |algorithm, step| {
        let unseen = Model::new(*algorithm);
        let now = step.now + step.answer.reset_after_ns;
        for later in [now, now + 1, now + 7, now + 30] {
            for cost in 0..10 {
                assert_eq!(step.after.peek("k", later, cost), unseen.peek("k", later, cost));
            }
        }
    });
}

#[test]
fn only_a_queue_delays_and_its_departures_keep_their_distance() {
    for_each_step(any_tiny, |algorithm, step| {
        let Algorithm::LeakyQueue { .. } = algorithm else {
            assert_eq!(step.answer.delay_ns, 0);
            return;
        };
        // A queued request departs when the bucket before it would be empty.
        let empty = step.before.peek("k", step.now, 0).reset_after_ns;
        let queued = step.answer.allowed && step.cost > 0;
        assert_eq!(step.answer.delay_ns, if queued { empty } else { 0 });
    });
}

/// Times and costs of admissions, in the order of time.
fn admitted(algorithm: Algorithm, random: &mut Random) -> Vec<(u64, u64)> {
    let mut model = Model::new(algorithm);
    let mut now = random.u64(..50);
    let mut admitted = Vec::new();
    for _ in 0..STEPS * 4 {
        now += random.u64(..9);
        let cost = random.u64(..5);
        if model.check("k", now, cost).allowed {
            admitted.push((now, cost));
        }
    }
    admitted
}

/// The most that was admitted within any half-open interval of this length.
fn most_within(admitted: &[(u64, u64)], length: u64) -> u64 {
    let from = |(first, &(start, _)): (usize, &(u64, u64))| {
        admitted[first..].iter().take_while(|(at, _)| *at < start + length).map(|(_, cost)| cost).sum()
    };
    admitted.iter().enumerate().map(from).max().unwrap_or(0)
}

#[test]
fn a_bucket_admits_at_most_its_burst_and_its_rate() {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        let algorithm = tiny(Kind::Bucket, &mut random);
        let Algorithm::TokenBucket { count, period_ns, burst, grains, .. } = algorithm else {
            unreachable!()
        };
        let admitted = admitted(algorithm, &mut random);
        for interval in 0..100 {
            // Both ends count: from t to t + interval.
            let most = most_within(&admitted, interval + 1);
            let bound = burst * period_ns + interval * count;
            match grains {
                None => assert!(most * period_ns <= bound, "seed {seed}: {algorithm:?}"),
                // At the start a coarse clock may show up to one grain too little.
                Some(grains) => {
                    let bound = grains * bound + period_ns;
                    assert!(most * period_ns * grains <= bound, "seed {seed}: {algorithm:?}");
                }
            }
        }
    }
}

#[test]
fn an_exact_bucket_equals_one_that_counts_its_tokens() {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        let (count, period_ns, burst) = (random.u64(1..=9), random.u64(1..=30), random.u64(1..=9));
        let initial = random.u64(..burst + 1);
        let mut model = Model::new(Algorithm::TokenBucket { count, period_ns, burst, initial, grains: None });
        // In units of 1/period tokens, of which `count` are added in each nanosecond.
        let (mut tokens, mut now) = (initial * period_ns, 0);
        for _ in 0..STEPS * 4 {
            let (pause, cost) = (random.u64(..9), random.u64(..5));
            now += pause;
            tokens = (burst * period_ns).min(tokens + pause * count);
            let fits = cost <= burst && tokens >= cost * period_ns;
            if fits {
                tokens -= cost * period_ns;
            }
            let answer = model.check("k", now, cost);
            assert_eq!((answer.allowed, answer.remaining), (fits || cost == 0, tokens / period_ns));
        }
    }
}

#[test]
fn no_window_of_a_log_or_sub_windows_exceeds_it() {
    for seed in 1..=SEQUENCES {
        let mut random = Random::with_seed(seed);
        for algorithm in [tiny(Kind::Log, &mut random), tiny(Kind::SubWindows, &mut random)] {
            let (Algorithm::SlidingLog { limit, window_ns, .. }
            | Algorithm::SubWindows { limit, window_ns, .. }) = algorithm
            else {
                unreachable!()
            };
            let most = most_within(&admitted(algorithm, &mut random), window_ns);
            assert!(most <= limit, "seed {seed}: {algorithm:?} admitted {most}");
        }
    }
}

#[test]
fn no_number_is_too_large() {
    let extremes = [1, 2, 1 << 32, u64::MAX - 1, u64::MAX];
    let mut random = Random::with_seed(1);
    for _ in 0..20_000 {
        let mut pick = || extremes[random.usize(..5)];
        let (count, period_ns, capacity, limit) = (pick(), pick(), pick(), pick());
        let (window_ns, origin_ns, granule, initial) = (pick(), pick(), pick(), pick());
        let grains = [None, Some(pick())][(pick() % 2) as usize];
        let policy = [CountPolicy::Allowed, CountPolicy::All][(pick() % 2) as usize];
        let (ceiling, burst) = (u64::MAX, capacity);
        let algorithms = [
            Algorithm::TokenBucket { count, period_ns, burst, initial, grains },
            Algorithm::LeakyMeter { count, period_ns, capacity, grains },
            Algorithm::LeakyQueue { count, period_ns, capacity, grains },
            Algorithm::FixedWindow { limit, window_ns, origin_ns, count: policy, ceiling },
            Algorithm::SlidingWindow { limit, window_ns, origin_ns, count: policy, ceiling, granule },
            Algorithm::SubWindows {
                limit,
                window_ns,
                subwindows: 3,
                origin_ns,
                count: policy,
                ceiling,
                granule,
            },
            Algorithm::SlidingLog { limit, window_ns, count: policy },
        ];
        for algorithm in algorithms {
            let mut model = Model::new(algorithm);
            for (now, cost) in [(pick(), pick()), (pick(), pick()), (0, 1), (u64::MAX, 1)] {
                let answer = model.check("k", now, cost);
                assert_ne!(answer.retry_after_ns, Some(0), "{algorithm:?}");
            }
        }
    }
}
