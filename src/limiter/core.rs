//! What a limiter is made of: the versions of its quotas, the tables, the clock, the observer and
//! the key hasher. Each verb is written once, for one limit or several:
//!
//! | file | verb |
//! |------|------|
//! | `version` | which quotas are current; how often the limiter was reset |
//! | `decide` | a request is decided and charged, where the home slots suffice |
//! | `charge` | the same anywhere, all or nothing |
//! | `as_much` | what there is, up to a number; a debit over the limit |
//! | `give_back` | a receipt gives back what its request took; a credit; a reset |
//! | `reserve`, `lease` | permits that are charged before they are used |
//! | `change`, `save`, `restore` | another quota; the next process |

use std::fmt;

use crate::algorithm::{Algorithm, Carry, Inherit, Resolution, Ringed, Rule, ToAny};
use crate::clock::Clock;
use crate::error::{BuildError, within};
use crate::key::{Key, KeyHasher};
use crate::limiter::decision::Decision;
use crate::limiter::space::Space;
use crate::limiter::tables::{Tables, in_order};
use crate::limiter::version::{MOST_TIERS, Tier, Versions, compile};
use crate::observe::Observer;
use crate::receipt::MOST_LIMITS;
use crate::table::{Fingerprint, Stats, Table};
use crate::time::nanos;

/// The function that an observer calls with each decision.
pub(crate) type OnDecision<const N: usize> = dyn Fn(&Decision<'_, N>) + Send + Sync;

/// The parts of a limiter.
pub(crate) struct Core<A: Algorithm, const N: usize, C> {
    pub(crate) versions: Versions<A, N>,
    pub(crate) tables: Tables<N>,
    pub(crate) hasher: KeyHasher,
    pub(crate) clock: C,
    pub(crate) observer: Observer<OnDecision<N>>,
    /// The settings of the tables.
    pub(crate) space: Space,
}

/// The quotas of all tiers, as a user gives them to a builder.
#[derive(Clone, Debug)]
pub(crate) struct Given<A> {
    /// Tier by tier, of each tier the quotas of all limits.
    pub(crate) all: Vec<A>,
    pub(crate) limits: usize,
    /// Whether each tier has as many.
    is_even: bool,
}

impl<A: Algorithm> Given<A> {
    /// As many others.
    pub(crate) fn with(&self, all: Vec<A>) -> Self {
        Self { all, ..*self }
    }

    /// The first tier's.
    pub(crate) fn new(quotas: Vec<A>) -> Self {
        Self { limits: quotas.len(), all: quotas, is_even: true }
    }

    pub(crate) fn add_tier(&mut self, quotas: Vec<A>) {
        self.is_even &= quotas.len() == self.limits;
        self.all.extend(quotas);
    }

    pub(crate) fn tiers(&self) -> usize {
        self.all.len() / self.limits.max(1)
    }

    /// The rules, if the quotas are right. The clock's origin moves windows, not sizes.
    fn judged(&self) -> Result<Vec<A::Rule>, BuildError> {
        within("limits", self.limits as u64, 1_u64, MOST_LIMITS as u64)?;
        within("tiers", self.tiers() as u64, 1_u64, (MOST_TIERS / self.limits) as u64)?;
        if !self.is_even {
            return Err(BuildError::TiersDiffer { field: "limits" });
        }
        compile(self.limits, &self.all, 0)
    }

    /// The bytes that the tables of these quotas can come to take.
    pub(crate) fn bytes(&self, space: &Space) -> Result<usize, BuildError> {
        let rules = self.judged()?;
        let bytes = |rule: &A::Rule| Ok(space.size(rule.ring_len())?.bytes());
        let add = |sum: usize, bytes: Result<usize, BuildError>| Ok(sum.saturating_add(bytes?));
        rules.iter().take(self.limits).map(bytes).try_fold(0, add)
    }

    /// The same with each tier in the order of `numbers`.
    fn in_order(&self, numbers: &[u8]) -> Vec<A> {
        let tiers = self.all.chunks(self.limits);
        tiers
            .flat_map(|tier| numbers.iter().filter_map(|&number| tier.get(usize::from(number)).copied()))
            .collect()
    }
}

/// What a limiter's tables hold, and what they may come to hold.
///
/// Those of several limiters can be [summed](Iterator::sum).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// About how many keys are in debt: exact while no other thread checks.
    pub live_keys: usize,
    /// How many keys the limiter was built for.
    pub max_keys: usize,
    /// How many bytes the tables use. They grow with the keys in debt, up to what
    /// [`Builder::memory`](crate::Builder::memory) says.
    pub memory_in_use: usize,
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |total, usage| Self {
            live_keys: total.live_keys + usage.live_keys,
            max_keys: total.max_keys + usage.max_keys,
            memory_in_use: total.memory_in_use + usage.memory_in_use,
        })
    }
}

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Judges the quotas, reserves the tables and starts the clock. `rooms` is what the words of
    /// each quota have room for, where a saved limiter says so.
    pub(crate) fn new(
        quotas: &Given<A>,
        rooms: &[u64],
        space: Space,
        hasher: KeyHasher,
        clock: impl FnOnce() -> C,
        observer: Observer<OnDecision<N>>,
    ) -> Result<Self, BuildError> {
        let limits = quotas.limits;
        space.judge()?;
        let needed = quotas.bytes(&space)?;
        if needed > space.memory_budget {
            return Err(BuildError::OverBudget { needed, budget: space.memory_budget });
        }
        let given: Vec<_> = quotas.judged()?.iter().take(limits).map(|rule| rule.any()).collect();
        let numbers = in_order::<N>(&given);
        let clock = clock();
        let unix_at_zero = nanos(clock.unix_at_zero());
        let quotas = quotas.in_order(&numbers);
        let mut rules = compile(limits, &quotas, unix_at_zero)?;
        for (index, rule) in rules.iter_mut().enumerate() {
            let given = index / limits * limits + usize::from(numbers[index % limits]);
            *rule = rooms.get(given).and_then(|room| rule.with_room(*room)).unwrap_or(*rule);
        }
        let ring_lens: Vec<u64> = rules.iter().take(limits).map(Ringed::ring_len).collect();
        let may_share = rules.iter().all(Rule::may_share);
        let when_full = if may_share { space.when_full } else { space.when_full.unshared() };
        let tables = Tables::new(&Space { when_full, ..space }, &ring_lens, numbers)?;
        let versions = Versions::new(quotas, rules, limits, observer.is_some(), unix_at_zero);
        Ok(Self { versions, tables, hasher, clock, observer, space })
    }

    /// The fingerprint of a key.
    #[inline(always)]
    pub(crate) fn fingerprint<K: ?Sized>(&self, key: &impl Key<K>) -> Fingerprint {
        Fingerprint::from_bits(key.fingerprint(&self.hasher))
    }

    /// The first version of the tier of a key that has no other.
    #[inline(always)]
    pub(crate) fn default_tier(&self) -> &Tier<A::Rule, N> {
        &self.versions.first().default
    }

    /// Prefetches the cache lines that a check of this key looks at first.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: Fingerprint) {
        self.tables.iter().for_each(|table| table.prefetch(fingerprint));
    }

    /// How finely the limit of this number counts.
    pub(crate) fn resolution(&self, number: usize) -> Resolution {
        self.versions.current().default.decided_by[self.tables.place(number)].any.resolution()
    }

    /// Reads all tables.
    pub(crate) fn usage(&self) -> Usage {
        let (tier, now) = (&self.versions.current().default, self.clock.now());
        // The tables grow each by itself, but a key is in buckets of the same class.
        let classes = self.tables.iter().map(Table::roots).min().unwrap_or(1);
        let mut fingerprints = Vec::new();
        let count = |class: usize| {
            fingerprints.clear();
            for (place, table) in self.tables.iter().enumerate() {
                let rule = tier.by_ref(place);
                fingerprints.extend(table.in_debt((class, classes), rule, rule.moment_to_read(now)));
            }
            fingerprints.sort_unstable();
            fingerprints.dedup();
            fingerprints.len()
        };
        let live_keys = (0..classes).map(count).sum();
        let memory_in_use = self.tables.iter().map(Table::bytes).sum();
        Usage { live_keys, max_keys: self.space.keys(), memory_in_use }
    }

    /// The counts of all limits' events.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.tables.iter().for_each(|table| table.add_stats(&mut stats));
        stats
    }
}

impl<A: Algorithm, const N: usize, C> Core<A, N, C> {
    /// For `Debug`: the rules, in the order in which they are charged.
    pub(crate) fn rules(&self) -> impl fmt::Debug {
        self.versions.current().all().map(|(_, by)| &by.any).collect::<Vec<_>>()
    }
}

/// The quota that follows `old`, by its number, and what keys inherit. One that stays keeps its
/// debts.
pub(crate) fn renew<A: Algorithm>(
    quotas: &[Option<A>],
    inherit: Inherit,
) -> impl Fn(usize, A) -> (A, Inherit) {
    move |number, old| match quotas[number] {
        Some(new) => (new, inherit),
        None => (old, Inherit::Additive),
    }
}
