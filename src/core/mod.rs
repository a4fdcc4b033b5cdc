//! What every limiter is made of. A [`Core`] holds the quotas' versions, the words, the clock, the
//! observer and the key hasher, and writes each verb once. The limiters of
//! [`limiter`](crate::limiter) are faces of it.
//!
//! | file | verb |
//! |------|------|
//! | `version` | which quotas are current; how often the limiter was reset |
//! | `one` | a request of one limit is decided and charged |
//! | `several` | a request of several limits is decided and charged, all or nothing |
//! | `as_much` | what there is, up to a number; a debit over the limit |
//! | `give_back` | a receipt gives back what its request took; a credit; a reset |
//! | `reserve`, `lease` | permits that are charged before they are used |
//! | `reconfigure`, `save`, `restore` | another quota; the next process |

mod as_much;
mod give_back;
mod lease;
mod one;
mod reconfigure;
mod reserve;
mod restore;
mod save;
mod several;
mod space;
mod version;

use std::fmt;

use crate::algorithm::{Algorithm, Carry, Numbers, Resolution};
use crate::clock::Clock;
use crate::decision::Outcome;
use crate::error::BuildError;
use crate::key::KeyHasher;
use crate::observe::Observer;
use crate::saved::Kind;
use crate::table::{Fingerprint, Stats, Table};
use crate::time::{Timestamp, nanos};

pub use as_much::DebitError;
pub use lease::{Lease, Leased};
pub use one::{Global, Keyed, One};
pub use reserve::{Reservation, ReserveError};
pub use several::{Glance, LimitDecision, MultiDecision, Refusal, Several};
pub(crate) use several::{recall, recall_refusal};
pub(crate) use space::Space;
pub(crate) use version::Compiled;

use version::{Version, Versions};

/// The limits that a limiter decides together: [`One`] for each key or for everything, or
/// [`Several`] for each key.
///
/// Sealed: the verbs rely on what the engine's own limits promise.
pub trait Limits: sealed::Sealed + Sized + 'static {
    /// A limit as the user describes it.
    #[doc(hidden)]
    type Quota: Algorithm;
    /// The tables of all limits.
    #[doc(hidden)]
    type Places;
    /// Which of the quotas a key is decided by.
    #[doc(hidden)]
    type Tier<'l>: Copy;
    /// The answer to a request.
    type Decision<'l>: Answer;
    /// What gives back what an admitted request took.
    type Receipt: for<'l> From<Self::Decision<'l>> + Send + 'static;

    /// What the limiter is called in a saved file.
    #[doc(hidden)]
    const KIND: Kind;

    /// The quotas in the order in which they are charged, and of each its number as the user gave
    /// it.
    #[doc(hidden)]
    fn in_order(quotas: Vec<Self::Quota>) -> (Vec<Self::Quota>, Vec<usize>);

    /// The bytes that the words of these rules need.
    #[doc(hidden)]
    fn bytes(space: &Space, rules: &[RuleOf<Self>]) -> Result<usize, BuildError>;

    /// Reserves the words.
    #[doc(hidden)]
    fn reserve_memory(
        space: &Space,
        rules: &[RuleOf<Self>],
        numbers: &[usize],
        is_observed: bool,
    ) -> Result<Self::Places, BuildError>;

    /// The table of each limit, in the order in which they are charged.
    #[doc(hidden)]
    fn each(places: &Self::Places) -> &[Table];

    /// Which rule of a version each quota has that the user gave, in that order.
    #[doc(hidden)]
    fn as_given(places: &Self::Places, rules: usize) -> Vec<usize>;

    /// The quota of this tier. `None` for a number that is no tier's.
    #[doc(hidden)]
    fn tier(versions: &Versions<Self::Quota>, number: usize) -> Option<Self::Tier<'_>>;

    /// The quota of a key that has no tier of its own.
    #[doc(hidden)]
    fn default_tier(versions: &Versions<Self::Quota>) -> Self::Tier<'_>;

    /// The rule of this limit under this tier, in a version.
    #[doc(hidden)]
    fn compiled<'v>(
        version: &'v Version<RuleOf<Self>>,
        tier: Self::Tier<'v>,
        index: usize,
    ) -> &'v Compiled<RuleOf<Self>>;

    /// The largest cost that can be admitted at once.
    #[doc(hidden)]
    fn limit<C: Clock>(core: &Core<Self, C>, tier: Self::Tier<'_>) -> u64;

    /// Decides a request and charges it, and tells the observer.
    #[doc(hidden)]
    fn check<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Self::Decision<'l>;

    /// Decides a request and writes nothing.
    #[doc(hidden)]
    fn peek<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        cost: u64,
        now: Timestamp,
    ) -> Self::Decision<'l>;

    /// Charges a request that may wait for its turn. The observer is not told.
    #[doc(hidden)]
    fn reserve<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        request: Patient,
    ) -> Result<Turn<Self::Decision<'l>>, ReserveError>;

    /// Charges permits ahead of the requests that spend them. The observer is not told. `None` in a
    /// queue.
    #[doc(hidden)]
    fn take_ahead<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        permits: u64,
        time: impl Fn() -> Timestamp,
    ) -> Option<Self::Decision<'l>>;

    /// Charges as many units as the limits have left, at most `most`. The observer is not told.
    #[doc(hidden)]
    fn take_up_to<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        most: u64,
        time: impl Fn() -> Timestamp,
    ) -> Self::Decision<'l>;

    /// Charges units that were used already, over the limit if need be. The observer is not told.
    #[doc(hidden)]
    fn debit<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> Result<Self::Decision<'l>, DebitError>;

    /// Gives back up to `units` of what the receipt's request took. Returns how many came back.
    #[doc(hidden)]
    fn give_back<C: Clock>(
        core: &Core<Self, C>,
        receipt: &mut Self::Receipt,
        units: u64,
        time: impl Fn() -> Timestamp,
    ) -> u64;
}

/// The rule of one of the limits.
pub(crate) type RuleOf<L> = <<L as Limits>::Quota as Algorithm>::Rule;

/// The function that an observer calls with each decision.
pub(crate) type OnDecision<L> = dyn Fn(&<L as Limits>::Decision<'_>) + Send + Sync;

/// What the verbs read from a decision, of one limit or of several.
pub trait Answer {
    #[doc(hidden)]
    fn outcome(&self) -> Outcome;
    #[doc(hidden)]
    fn cost(&self) -> u64;
    #[doc(hidden)]
    fn now(&self) -> Timestamp;
    #[doc(hidden)]
    fn remaining(&self) -> u64;
    /// The largest cost that could be admitted.
    #[doc(hidden)]
    fn limit(&self) -> u64;
}

/// A request for a turn.
#[derive(Clone, Copy)]
pub struct Patient {
    pub(crate) cost: u64,
    /// Nanoseconds.
    pub(crate) max_wait: u64,
    pub(crate) now: Timestamp,
}

/// The answer to a request for a turn.
pub struct Turn<D> {
    pub(crate) decision: D,
    /// Nanoseconds until the request may act. If it was refused: until its turn would come, or
    /// until a full queue has room.
    pub(crate) wait: u64,
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A key as the core asks for it.
pub struct Asked<'l, L: Limits> {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) tier: L::Tier<'l>,
}

impl<L: Limits> Clone for Asked<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Limits> Copy for Asked<'_, L> {}

/// The common part of all limiters that know the time.
pub struct Core<L: Limits, C> {
    pub(crate) versions: Versions<L::Quota>,
    pub(crate) places: L::Places,
    pub(crate) hasher: KeyHasher,
    pub(crate) clock: C,
    pub(crate) observer: Observer<OnDecision<L>>,
    pub(crate) max_keys: usize,
    pub(crate) unix_at_zero: u64,
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

impl<L: Limits, C: Clock> Core<L, C> {
    /// Judges the quotas, reserves the words and starts the clock. `rooms` is what the words of
    /// each quota have room for, where a saved limiter says so.
    pub(crate) fn new(
        quotas: Vec<L::Quota>,
        rooms: &[u64],
        space: &Space,
        hasher: KeyHasher,
        clock: impl FnOnce() -> C,
        observer: Observer<OnDecision<L>>,
    ) -> Result<Self, BuildError> {
        let (quotas, numbers) = L::in_order(quotas);
        let compile = |origin| -> Result<Vec<RuleOf<L>>, BuildError> {
            let mut rules = L::Quota::compile(&quotas, origin)?;
            for (index, rule) in rules.iter_mut().enumerate() {
                let number = numbers.get(index).copied().unwrap_or(index);
                *rule = rooms.get(number).and_then(|room| rule.with_room(*room)).unwrap_or(*rule);
            }
            Ok(rules)
        };
        // The clock's origin moves windows, not sizes.
        let needed = L::bytes(space, &compile(0)?)?;
        if needed > space.memory_budget {
            return Err(BuildError::OverBudget { needed, budget: space.memory_budget });
        }
        let clock = clock();
        let unix_at_zero = nanos(clock.unix_at_zero());
        let rules = compile(unix_at_zero)?;
        let places = L::reserve_memory(space, &rules, &numbers, observer.is_some())?;
        let versions = Versions::new(quotas, rules, observer.is_some());
        Ok(Self { versions, places, hasher, clock, observer, max_keys: space.max_keys, unix_at_zero })
    }

    /// The table of each limit, in the order in which they are charged.
    #[inline]
    pub(crate) fn each(&self) -> &[Table] {
        L::each(&self.places)
    }

    /// Asks for the cache lines that a check of this key looks at first.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: Fingerprint) {
        self.each().iter().for_each(|table| table.prefetch(fingerprint));
    }

    /// Decides a request and charges it. Every check comes here.
    #[inline(always)]
    pub(crate) fn check<'l>(
        &'l self,
        asked: Asked<'l, L>,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> L::Decision<'l> {
        L::check(self, asked, cost, time)
    }

    /// Decides a request and writes nothing.
    pub(crate) fn peek<'l>(&'l self, asked: Asked<'l, L>, cost: u64, now: Timestamp) -> L::Decision<'l> {
        L::peek(self, asked, cost, now)
    }

    /// How finely the first limit counts.
    pub(crate) fn resolution(&self) -> Resolution {
        self.versions.current().default.shown.any.resolution()
    }

    /// Reads all tables.
    pub(crate) fn usage(&self) -> Usage {
        let (version, now) = (self.versions.current(), self.clock.now());
        // The tables grow each by itself, but a key is in buckets of the same class.
        let classes = self.each().iter().map(Table::roots).min().unwrap_or(1);
        let mut fingerprints = Vec::new();
        let count = |class: usize| {
            fingerprints.clear();
            for (index, table) in self.each().iter().enumerate() {
                let rule = version.dated(index);
                fingerprints.extend(table.in_debt((class, classes), rule, rule.moment_to_read(now)));
            }
            fingerprints.sort_unstable();
            fingerprints.dedup();
            fingerprints.len()
        };
        let live_keys = (0..classes).map(count).sum();
        let memory_in_use = self.each().iter().map(Table::bytes).sum();
        Usage { live_keys, max_keys: self.max_keys, memory_in_use }
    }

    /// The counts of all limits' events.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.each().iter().for_each(|table| table.add_stats(&mut stats));
        stats
    }
}

impl<L: Limits, C> Core<L, C> {
    /// For `Debug`: the rules, in the order in which they are charged.
    pub(crate) fn rules(&self) -> impl fmt::Debug {
        self.versions.current().all().map(|compiled| &compiled.shown.any).collect::<Vec<_>>()
    }
}

/// How a verb asks a rule.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// For a request that may wait for its turn.
    Patient(Patient),
    /// For a request at this time that departs so many nanoseconds later: the longest wait of
    /// several limits.
    Departing(Timestamp, u64),
    /// For permits that are charged ahead of their requests.
    Ahead,
    /// For an attempt that no limit counts when it is refused.
    Uncounted,
}

impl Manner {
    /// The rule for a verb. `None`: the algorithm has none.
    pub(crate) fn rule<R: Numbers>(self, rule: &R) -> Option<R> {
        match self {
            // Whether there are turns does not depend on the cost; a cost above the limit may be
            // too much to compute with.
            Self::Patient(Patient { cost, max_wait, now }) => {
                rule.patient(now, max_wait, cost.min(rule.limit()))
            }
            Self::Departing(now, wait) => rule.departing(now, wait),
            Self::Ahead => rule.ahead(),
            Self::Uncounted => Some(rule.ahead().unwrap_or(*rule)),
        }
    }

    /// When a request departs at the latest that may be booked ahead. `None`: it is not.
    fn departs_until(self) -> Option<Timestamp> {
        let (now, wait) = match self {
            Self::Patient(Patient { now, max_wait, .. }) => (now, max_wait),
            Self::Departing(now, wait) => (now, wait),
            Self::Ahead | Self::Uncounted => return None,
        };
        (wait > 0).then(|| Timestamp::from_nanos(now.as_nanos().saturating_add(wait)))
    }
}
