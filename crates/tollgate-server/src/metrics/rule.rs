//! The counters of one rule.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_net::counts::{Buckets, Histogram};
use tollgate_net::workers::PerWorker;
use tollgate_rules::{Line, Rule, Ruling};

use super::distinct::DistinctKeys;
use super::top::{MostRefused, Top};

/// The bounds of a limit's remaining share after an admission, in millionths. The share of no
/// limit comes after the last.
pub(super) const HEADROOM: [u64; 8] = [0, 50_000, 100_000, 250_000, 500_000, 750_000, 900_000, 1_000_000];

/// The bounds of the time until a refused request would be admitted, in milliseconds.
pub(super) const WAITS: [u64; 9] = [100, 500, 1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000];

/// The refusals, in the order of the counters.
pub(super) const REFUSALS: [&str; 5] = ["limited", "cost_above_limit", "no_key", "blocked", "unavailable"];

/// The counters of a rule. Generations of rules share them, as long as the rule keeps its name and
/// its mode.
pub(crate) struct RuleCounts {
    pub(super) name: Box<str>,
    pub(super) mode: &'static str,
    stripes: PerWorker<Stripe>,
    seen: DistinctKeys,
    limited: DistinctKeys,
    most_refused: MostRefused,
    /// For keys that are shown as hashes: from these no key can be told without the secret.
    hasher: RandomState,
    /// For keys that are only counted.
    fast: ahash::RandomState,
    shows_keys: bool,
}

/// What threads add to. A rule that admits a request of cost 1 adds to two of them.
#[derive(Default)]
struct Stripe {
    /// Remaining shares after admissions; the last: no limit. Together they count the admissions.
    headroom: Buckets<9>,
    /// Admissions by this rule of requests that another one refused: they were not charged.
    overruled: AtomicU64,
    /// Decisions in which limits of requests in flight were not asked.
    unasked: AtomicU64,
    refused: [AtomicU64; REFUSALS.len()],
    /// What admitted and limited requests cost beyond 1 each, which may be below 0. It wraps.
    extra_cost: [AtomicU64; 2],
    waits: Buckets<10>,
    /// Times of the rules' clock, in nanoseconds; 0: never.
    concerned_at: AtomicU64,
    limited_at: AtomicU64,
}

/// The sums of a rule's counters.
pub(crate) struct RuleSums {
    pub(super) headroom: Histogram<9>,
    pub(super) waits: Histogram<10>,
    /// The admissions, also of requests that another rule refused.
    pub(crate) allowed: u64,
    pub(super) refused: [u64; REFUSALS.len()],
    pub(super) unasked: u64,
    /// The cost of admitted and charged requests, and of refused ones.
    pub(super) cost: [u64; 2],
    pub(crate) concerned_at: Option<u64>,
    pub(crate) limited_at: Option<u64>,
}

impl RuleCounts {
    pub(super) fn new(rule: &Rule, mode: &'static str, hasher: &RandomState, shows_keys: bool) -> Self {
        Self {
            name: rule.name.clone(),
            mode,
            stripes: PerWorker::counters(),
            seen: DistinctKeys::new(),
            limited: DistinctKeys::new(),
            most_refused: MostRefused::default(),
            fast: ahash::RandomState::new(),
            hasher: hasher.clone(),
            shows_keys,
        }
    }

    /// Counts what the rule says of a request. `is_charged`: no other rule refuses it.
    #[inline]
    pub(super) fn count(&self, line: &Line, is_charged: bool, key: &[u8], now: u64) {
        let own = self.stripes.here();
        own.concerned_at.store(now, Relaxed);
        let hash = self.fast.hash_one(key);
        self.seen.add(hash, now);
        // It is counted when the store has decided.
        if line.is_pending {
            return;
        }
        if line.ruling != Ruling::Admitted {
            self.count_refusal(own, line, (hash, key), now);
            return;
        }
        if !is_charged {
            own.overruled.fetch_add(1, Relaxed);
            return;
        }
        match line.limit {
            u64::MAX => own.headroom.add_unlimited(),
            limit => own.headroom.add(share(line.remaining, limit), &HEADROOM),
        }
        if line.cost != 1 {
            own.extra_cost[0].fetch_add(line.cost.wrapping_sub(1), Relaxed);
        }
    }

    /// Counts a decision in which the rule's limits of requests in flight were not asked.
    pub(super) fn count_unasked(&self) {
        self.stripes.here().unasked.fetch_add(1, Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn count_refusal(&self, own: &Stripe, line: &Line, (hash, key): (u64, &[u8]), now: u64) {
        let kind = match line.ruling {
            Ruling::Never => 1,
            Ruling::NoKey => 2,
            Ruling::Blocked => 3,
            Ruling::Unavailable => 4,
            Ruling::Admitted | Ruling::Refused => 0,
        };
        own.refused[kind].fetch_add(1, Relaxed);
        own.limited_at.store(now, Relaxed);
        self.limited.add(hash, now);
        self.most_refused.add(self.hasher.hash_one(key), self.shows_keys.then_some(key), now);
        if line.ruling == Ruling::Refused {
            own.extra_cost[1].fetch_add(line.cost.wrapping_sub(1), Relaxed);
            if let Some(wait) = line.retry_after {
                let millis = wait.as_nanos().div_ceil(1_000_000);
                own.waits.add(u64::try_from(millis).unwrap_or(u64::MAX), &WAITS);
            }
        }
    }

    pub(crate) fn sums(&self) -> RuleSums {
        let add = |of: &dyn Fn(&Stripe) -> &AtomicU64| {
            self.stripes.all().fold(0, |sum: u64, own| sum.wrapping_add(of(own).load(Relaxed)))
        };
        let latest = |of: &dyn Fn(&Stripe) -> &AtomicU64| {
            self.stripes.all().map(|own| of(own).load(Relaxed)).max().filter(|at| *at > 0)
        };
        let headroom = Histogram::of(self.stripes.all().map(|own| &own.headroom));
        let charged = headroom.count();
        let refused = std::array::from_fn(|kind| add(&|own| &own.refused[kind]));
        RuleSums {
            headroom,
            waits: Histogram::of(self.stripes.all().map(|own| &own.waits)),
            allowed: charged + add(&|own| &own.overruled),
            refused,
            unasked: add(&|own| &own.unasked),
            cost: [
                charged.wrapping_add(add(&|own| &own.extra_cost[0])),
                refused[0].wrapping_add(add(&|own| &own.extra_cost[1])),
            ],
            concerned_at: latest(&|own| &own.concerned_at),
            limited_at: latest(&|own| &own.limited_at),
        }
    }

    pub(crate) fn mode(&self) -> &'static str {
        self.mode
    }

    /// About how many distinct keys there were in the last five minutes, and of these how many were
    /// refused.
    pub(crate) fn keys(&self, now: u64) -> (f64, f64) {
        (self.seen.estimate(now).round(), self.limited.estimate(now).round())
    }

    pub(crate) fn top(&self, now: u64) -> Top {
        self.most_refused.top(now)
    }
}

impl RuleSums {
    pub(crate) fn refusals(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// The requests that were refused for want of a key.
    pub(crate) fn without_key(&self) -> u64 {
        self.refused[2]
    }
}

/// A share in millionths, rounded down.
#[inline]
fn share(part: u64, whole: u64) -> u64 {
    match part.checked_mul(1_000_000) {
        Some(millionths) => millionths.checked_div(whole).unwrap_or(0),
        None => part.checked_div((whole / 1_000_000).max(1)).unwrap_or(0).min(1_000_000),
    }
}
