//! Random histories of all verbs, at times that the test chooses.
//!
//! `TOLLGATE_REDIS_VERBS` sets how many verbs each store decides, if not some thousand.

use std::time::Duration;

use tollgate::{Outcome, Quota};
use tollgate_redis::{Answer, Limiter, Receipt, Redis};
use tollgate_testing::random::Random;
use tollgate_testing::stores::{Server, Store};

use crate::quotas;
use crate::reference::{Charge, Reference, Told, numbers};
use crate::{Clock, run};

const VERBS: u64 = 4_000;
const VERBS_A_HISTORY: u64 = 60;
const KEYS: usize = 2;

fn verbs() -> u64 {
    let verbs = std::env::var("TOLLGATE_REDIS_VERBS");
    verbs.map_or(VERBS, |verbs| verbs.parse().expect("TOLLGATE_REDIS_VERBS is a number"))
}

#[test]
fn one_limit_decides_as_the_model() {
    for store in Store::ALL {
        let Some(server) = Server::start(store) else { continue };
        run(all_histories(&server, |random| vec![quotas::any(random)]));
    }
}

#[test]
fn several_limits_decide_as_the_model() {
    for store in Store::ALL {
        let Some(server) = Server::start(store) else { continue };
        run(all_histories(&server, |random| {
            let limits = 2 + random.u64(..4);
            (0..limits).map(|_| quotas::any(random)).collect()
        }));
    }
}

async fn all_histories(server: &Server, quotas: impl Fn(&mut Random) -> Vec<Quota>) {
    let clock = Clock::default();
    let redis = clock.connect(server).await;
    let (mut decided, mut refused, mut refunded, mut seed) = (0, 0, 0, 0);
    while decided < verbs() {
        seed += 1;
        let mut random = Random::with_seed(seed);
        let mut history = History::new(&redis, clock.clone(), seed, quotas(&mut random), random);
        for _ in 0..VERBS_A_HISTORY {
            history.step().await;
        }
        decided += VERBS_A_HISTORY;
        (refused, refunded) = (refused + history.refused, refunded + history.refunded);
    }
    println!(
        "{:?}: {decided} verbs in {seed} histories, {refused} refusals looked at again, {refunded} units refunded",
        server.store()
    );
    assert!(refused * 10 > decided && refunded * 50 > decided, "the histories have become tame");
}

struct History {
    limiter: Limiter,
    clock: Clock,
    random: Random,
    quotas: Vec<Quota>,
    name: String,
    now: u64,
    /// Whether the time goes back at times. Then nothing is reserved, and no bucket refunded: a
    /// refund at an old time is worth more, as the model says. A debt beyond the capacity is then
    /// beyond 2^53 in a large bucket: its verdicts are right, and its waits to the microsecond.
    goes_back: bool,
    keys: [(Reference, Vec<(Charge, Receipt)>); KEYS],
    refused: u64,
    refunded: u64,
}

impl History {
    fn new(redis: &Redis, clock: Clock, seed: u64, quotas: Vec<Quota>, mut random: Random) -> Self {
        let name = format!("{seed}-{}", quotas.len());
        let limiter = redis.limiter(&name, quotas.clone()).exact().build();
        let limiter = limiter.unwrap_or_else(|error| panic!("{quotas:?}: {error}"));
        let keys = [(); KEYS].map(|()| (Reference::new(&quotas), Vec::new()));
        let now = [10_000, 1_795_362_634_437_800][random.usize(..2)];
        let goes_back = random.u64(..4) == 0 && !quotas.iter().any(quotas::is_large_bucket);
        Self { limiter, clock, random, quotas, name, now, goes_back, keys, refused: 0, refunded: 0 }
    }

    /// A time that matters to one of the limits.
    fn stride(&mut self) -> u64 {
        let quota = self.quotas[self.random.usize(..self.quotas.len())];
        let period = quota.rate().period().as_micros() as u64;
        let unit = match quota {
            Quota::TokenBucket(_) | Quota::LeakyBucket(_) => (period / quota.rate().count()).max(1),
            _ => (period / 8).max(1),
        };
        match self.random.u64(..4) {
            0 => self.random.u64(1..=3),
            _ => self.random.u64(..4) * unit + self.random.u64(..unit + 1),
        }
    }

    fn cost(&mut self) -> u64 {
        let most = self.quotas.iter().map(Quota::limit).min().unwrap_or(1);
        match self.random.u64(..8) {
            0 => most + self.random.u64(..2),
            1 => self.random.u64(..2),
            2..=4 => self.random.u64(1..=3),
            _ => 1 + most / (2 + self.random.u64(..6)),
        }
    }

    async fn step(&mut self) {
        if self.random.bool() {
            let stride = self.stride();
            let back = self.goes_back && self.random.u64(..3) == 0;
            self.now = if back { self.now.saturating_sub(stride).max(1) } else { self.now + stride };
        }
        let key = self.random.usize(..KEYS);
        let is_bucket = |quota: &Quota| matches!(quota, Quota::TokenBucket(_) | Quota::LeakyBucket(_));
        let (buckets, cost) = (self.quotas.iter().any(is_bucket), self.cost());
        let verb = match self.random.u64(..16) {
            9..=11 if self.goes_back && buckets => 0,
            12..=13 if self.goes_back || self.quotas.len() > 1 || !buckets => 0,
            verb => verb,
        };
        if !self.goes_back {
            for (reference, _) in &mut self.keys {
                self.now = reference.move_to(self.now, (9..=11).contains(&verb));
            }
        }
        self.clock.set(self.now);
        let context = format!("{} at {}: verb {verb}, cost {cost}, {:?}", self.name, self.now, self.quotas);
        match verb {
            7 => {
                let answer = self.limiter.peek(name(key), cost).await.expect("the store answers");
                self.compare(key, self.keys[key].0.peek(self.now, cost), answer, None, &context).await;
            }
            8 => {
                let answer = self.limiter.take(name(key), cost).await.expect("the store answers");
                let (told, charge) = self.keys[key].0.take(self.now, cost);
                self.compare(key, told, answer, charge, &context).await;
            }
            9..=11 => self.refund(key, &context).await,
            12..=13 => self.reserve(key, cost, &context).await,
            14 => {
                self.limiter.reset(name(key)).await.expect("the store answers");
                self.keys[key].0.reset(self.now);
            }
            15 => self.check_many(cost, &context).await,
            _ => {
                let answer = self.limiter.check_n(name(key), cost).await.expect("the store answers");
                let (told, charge) = self.keys[key].0.check(self.now, cost);
                self.compare(key, told, answer, charge, &context).await;
            }
        }
    }

    /// Compares all numbers of a decision, keeps its receipt, and looks at a refusal again.
    async fn compare(
        &mut self,
        key: usize,
        told: Told,
        answer: Answer,
        charge: Option<Charge>,
        context: &str,
    ) {
        let was = Told {
            outcome: answer.outcome(),
            cost: answer.cost(),
            refused_by: answer.refused_by(),
            retry_after: answer.retry_after(),
            limits: answer.limits().iter().map(numbers).collect(),
        };
        assert_eq!(was, told, "{context}");
        if let Some(wait) = answer.retry_after() {
            self.refused += 1;
            self.look_again(key, answer.cost(), wait, context).await;
        }
        let receipt = answer.into_receipt();
        assert_eq!(receipt.is_some(), charge.is_some(), "{context}");
        self.keys[key].1.extend(charge.zip(receipt));
    }

    /// The request passes after its wait, and not a microsecond earlier.
    async fn look_again(&mut self, key: usize, cost: u64, wait: Duration, context: &str) {
        let then = self.now + wait.as_micros() as u64;
        for (at, outcome) in [(then, Outcome::Allowed), (then - 1, Outcome::Denied)] {
            self.clock.set(at);
            let answer = self.limiter.peek(name(key), cost).await.expect("the store answers");
            assert_eq!(answer.outcome(), outcome, "{context}: again at {at}");
        }
        self.clock.set(self.now);
    }

    async fn refund(&mut self, key: usize, context: &str) {
        let receipts = &mut self.keys[key].1;
        if receipts.is_empty() {
            return;
        }
        // Often the newest, or one of the newest.
        let place = match self.random.u64(..3) {
            0 => receipts.len() - 1,
            _ => self.random.usize(..receipts.len()),
        };
        let (charge, receipt) = receipts.swap_remove(place);
        let back = self.limiter.refund(receipt).await.expect("the store answers");
        assert_eq!(back, self.keys[key].0.refund(charge, self.now), "{context}");
        self.refunded += u64::from(back > 0);
    }

    async fn reserve(&mut self, key: usize, cost: u64, context: &str) {
        // A large bucket waits no longer: its debts would be beyond 2^53.
        let patience = match self.quotas.iter().any(quotas::is_large_bucket) {
            true => self.random.u64(..2),
            false => self.stride() * self.random.u64(..4),
        };
        let answer = self.limiter.reserve(name(key), cost, Duration::from_micros(patience)).await;
        let answer = answer.expect("a bucket");
        let (outcome, wait, charge) = self.keys[key].0.reserve(self.now, cost, patience);
        let time = answer.retry_after().unwrap_or_else(|| answer.delay());
        assert_eq!((answer.outcome(), time.as_micros() as u64), (outcome, wait), "{context}, {patience}");
        let receipt = answer.into_receipt();
        assert_eq!(receipt.is_some(), charge.is_some(), "{context}");
        self.keys[key].1.extend(charge.zip(receipt));
    }

    /// The same key may occur in a batch more than once.
    async fn check_many(&mut self, cost: u64, context: &str) {
        let keys: Vec<usize> = (0..5).map(|_| self.random.usize(..KEYS)).collect();
        let answers = self.limiter.check_many(keys.iter().map(|&key| (name(key), cost))).await;
        assert_eq!(answers.len(), keys.len());
        for (answer, &key) in answers.into_iter().zip(&keys) {
            let answer = answer.expect("the store answers");
            let (told, charge) = self.keys[key].0.check(self.now, cost);
            let was: Vec<_> = answer.limits().iter().map(numbers).collect();
            assert_eq!((answer.outcome(), was), (told.outcome, told.limits), "{context}");
            self.keys[key].1.extend(charge.zip(answer.into_receipt()));
        }
    }
}

fn name(key: usize) -> String {
    format!("key {key}")
}
