//! The versions of a limiter's quotas. A check loads one word, the *state*, and never waits;
//! writers take turns.
//!
//! ```text
//!   63            33     32       31             0
//!  +----------------+----------+------------------+
//!  | version number | observed | number of resets |   the state: what every check loads first
//!  +----------------+----------+------------------+
//! ```
//!
//! A version is never changed and is kept until the limiter is dropped, since decisions borrow from
//! it. The first lies in the limiter itself, at an address that needs no load. The others lie in
//! chunks, each twice as long as the one before.
//!
//! A change is one compare-exchange, which seals the old version's horizon when the new one is in
//! its place. A thread that is stopped by the seal goes on by the new version, and announces it for
//! the writer.
//!
//! A *reset* forgives charges, so it ends the [receipts](crate::Receipt) of its key and the permits
//! that leases hold. It does not know them: they keep the number of resets that was current before
//! they were charged. A lease compares it with the state's, so a reset of any key ends its permits;
//! a refund compares it with the key's mark (see `give_back`).
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | V1 | `announce`, after the version is in its place or the seal was seen (E1) | `state` | it |
//! | L1 | `count_reset`, while the reset holds the key's word | `state` | that the word is held |
//!
//! By L1 a charge that follows a load of the new count comes after the hold, so the reset that
//! forgives the charge counts again.
//!
//! A word of a later version was written by a thread that had loaded the later number. So a thread
//! that reads the word by an Acquire and then the number finds the same number or a later one: it
//! asks the later version again.

mod changes;

use std::array::from_fn;
use std::sync::{OnceLock, PoisonError};

use crate::algorithm::{Algorithm, Carry, Numbers, WithPast};
use crate::bits::Field;
use crate::clock::Clock;
use crate::error::BuildError;
use crate::limiter::decision::DecidedBy;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::table::validity::{Horizon, Validity};
use crate::table::versioned::{Versioned, VersionedRef};
use crate::time::{Shift, Timestamp};
use Ordering::{Acquire, Relaxed, Release};

/// Chunks of 1, 2, 4, ... versions.
const CHUNKS: usize = 32;

/// The latest start of a version that has a horizon: 292 years after the limiter's.
const LATEST_START: u64 = u64::MAX - Horizon::MOST;

/// The most tiers: decisions and receipts have 16 bits for the number of one.
pub(crate) const MOST_TIERS: usize = 1 << 16;

const RESETS: Field = Field::lowest(32);
const OBSERVED: Field = RESETS.above(1);
const NUMBER: Field = OBSERVED.above(31);
const _: () = assert!(NUMBER.end() == u64::BITS, "the fields must fill the word");

/// The state of a limiter, as a thread loaded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    /// Whether the first version is current and the limiter has no observer.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 <= RESETS.max()
    }

    /// Whether the limiter has an observer.
    #[inline]
    pub(crate) fn is_observed(self) -> bool {
        OBSERVED.get(self.0) == 1
    }

    /// How often the limiter was reset, modulo 2^32.
    #[inline]
    pub(crate) fn resets(self) -> u32 {
        RESETS.get(self.0) as u32
    }
}

/// The quotas of one tier: for each limit, in the order in which limits are charged, its rule with
/// the time for which that is current, and what decisions show of it. Places without a limit repeat
/// the first.
#[derive(Debug)]
pub(crate) struct Tier<R, const N: usize> {
    pub(crate) rules: [Versioned<R>; N],
    pub(crate) decided_by: [DecidedBy; N],
}

impl<R: Numbers, const N: usize> Tier<R, N> {
    /// The tier of a quota that comes with calls.
    #[inline]
    pub(crate) fn lent(rule: R) -> Self {
        let decided_by = |_| DecidedBy { any: rule.any(), version: DecidedBy::LENT, index: 0 };
        Self { rules: from_fn(|_| Versioned::endless(rule)), decided_by: from_fn(decided_by) }
    }

    /// The rules of this tier's limits are `rules`; the number of the first among those of the
    /// version is `first`.
    fn new(mut rules: impl Iterator<Item = (R, Validity)>, version: u32, first: usize) -> Self {
        let Some((rule, validity)) = rules.next() else { unreachable!("a tier has at least one limit") };
        let mut rules = std::iter::once((rule, validity)).chain(rules);
        let rules = from_fn(|_| {
            let (rule, validity) = rules.next().unwrap_or_else(|| (rule, Validity::endless(u64::MAX)));
            Versioned { pure: rule, validity }
        });
        let decided_by = from_fn(|index| {
            let rule: &Versioned<R> = &rules[index];
            DecidedBy { any: rule.pure.any(), version, index: (first + index) as u16 }
        });
        Self { rules, decided_by }
    }

    /// Whether it came with a call: it is no tier of a version, and means the same in each of them.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        self.version() == DecidedBy::LENT
    }

    /// The number of the version.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.decided_by[0].version
    }

    /// Of the version, the number of the first limit's rule.
    #[inline]
    pub(crate) fn first_rule(&self) -> usize {
        self.decided_by[0].index.into()
    }

    /// The rule of a limit.
    #[inline]
    pub(crate) fn rule(&self, limit: usize) -> &R {
        &self.rules[limit].pure
    }

    /// The same as the table is handed it.
    #[inline]
    pub(crate) fn by_ref(&self, limit: usize) -> VersionedRef<'_, R> {
        self.rules[limit].by_ref()
    }

    /// Whether every rule still reads `now` exactly.
    #[inline]
    fn is_timely(&self, now: Timestamp) -> bool {
        self.rules.iter().all(|rule| rule.by_ref().is_timely(now))
    }

    /// The time at which it decides at `now`: `now`, unless its version has ended.
    pub(crate) fn within(&self, now: Timestamp) -> Timestamp {
        self.rules.iter().map(|rule| rule.validity.within(now)).min().unwrap_or(now)
    }

    /// Whether a request of this cost can be charged to all limits.
    #[inline(always)]
    pub(crate) fn has_room_for(&self, cost: u64) -> bool {
        // Every limit is at least 1: a check of cost 1 compares nothing here.
        cost == 1 || cost > 0 && self.rules.iter().all(|rule| cost <= rule.pure.limit())
    }
}

type Chunk<R, const N: usize> = OnceLock<Box<[OnceLock<Version<R, N>>]>>;

/// The quotas of a limiter at one time.
pub(crate) struct Version<R, const N: usize> {
    pub(crate) default: Tier<R, N>,
    tiers: Box<[Tier<R, N>]>,
    /// How many limits a tier has.
    limits: usize,
    /// When it began, on the limiter's clock.
    since: u64,
}

/// All versions of a limiter's quotas, and its state.
pub(crate) struct Versions<A: Algorithm, const N: usize> {
    state: AtomicU64,
    first: Version<A::Rule, N>,
    later: Box<[Chunk<A::Rule, N>]>,
    writer: Mutex<Writer<A>>,
}

/// What only writers need.
struct Writer<A> {
    /// The Unix time of the clock's zero to which the current version is aligned.
    origin: u64,
    /// The current quotas, as the user described them: tier by tier, each in the order in which
    /// limits are charged.
    quotas: Vec<A>,
    /// The largest number that a version has taken.
    last: u64,
}

/// What `of_table` makes of the tiers of each limit, which share a table. `all` has them tier by
/// tier, and so has the result.
fn by_table<T: Clone, U>(
    limits: usize,
    all: &[T],
    of_table: impl Fn(Vec<T>) -> Result<Vec<U>, BuildError>,
) -> Result<Vec<U>, BuildError> {
    let tiers = |limit| all.iter().skip(limit).step_by(limits).cloned().collect();
    let tables = (0..limits).map(|limit| Ok(of_table(tiers(limit))?.into_iter()));
    let mut tables: Vec<_> = tables.collect::<Result<_, BuildError>>()?;
    Ok((0..all.len()).filter_map(|number| tables[number % limits].next()).collect())
}

/// The rules of these quotas. Those of one limit share a table, of every tier.
pub(crate) fn compile<A: Algorithm>(
    limits: usize,
    quotas: &[A],
    origin: u64,
) -> Result<Vec<A::Rule>, BuildError> {
    by_table(limits, quotas, |tiers| A::compile(&tiers, origin))
}

impl<R: Numbers, const N: usize> Version<R, N> {
    fn new(rules: Vec<WithPast<R>>, limits: usize, number: u64, since: u64) -> Self {
        let count = rules.len();
        let mut rules = Validity::all(rules, since).into_iter();
        let mut tiers = (0..count)
            .step_by(limits)
            .map(|first| Tier::new(rules.by_ref().take(limits), number as u32, first));
        let Some(default) = tiers.next() else { unreachable!("a limiter has at least one quota") };
        Self { default, tiers: tiers.collect(), limits, since }
    }

    /// The tier of this number, 0 being the default. `None` for a number that is no tier's.
    #[inline]
    pub(crate) fn tier(&self, number: usize) -> Option<&Tier<R, N>> {
        number.checked_sub(1).map_or(Some(&self.default), |later| self.tiers.get(later))
    }

    /// The tier that has the rule of this number.
    #[inline]
    pub(crate) fn tier_of(&self, rule: usize) -> &Tier<R, N> {
        // The default without a division.
        let later = || self.tier(rule / self.limits);
        if rule < self.limits { &self.default } else { later().unwrap_or(&self.default) }
    }

    /// The rule of this number, as the table is handed it: tier by tier, those of its limits.
    #[inline]
    pub(crate) fn by_ref(&self, number: usize) -> VersionedRef<'_, R> {
        self.tier_of(number).by_ref(number % self.limits)
    }

    /// When the next version begins, if that is made now: in nanoseconds on the limiter's clock.
    /// Not when so much time has passed that an earlier time would read as one after it: its
    /// difference wraps around to less than a horizon.
    fn end_at(&self, clock: &impl Clock) -> Result<u64, BuildError> {
        let since = clock.now().as_nanos().max(self.since);
        if since > LATEST_START && self.validity().is_some() {
            Err(BuildError::ChangedTooOften)
        } else {
            Ok(since)
        }
    }

    /// How long it lasts. All of its rules that have a horizon share one.
    fn validity(&self) -> Option<&Validity> {
        self.all().map(|(rule, _)| &rule.validity).find(|validity| validity.horizon().is_some())
    }

    /// All rules, by their numbers, and what decisions show of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Versioned<R>, &DecidedBy)> {
        let tiers = std::iter::once(&self.default).chain(&self.tiers);
        tiers.flat_map(|tier| tier.rules.iter().zip(&tier.decided_by).take(self.limits))
    }
}

impl<A: Algorithm, const N: usize> Versions<A, N> {
    /// The first.
    pub(crate) fn new(
        quotas: Vec<A>,
        rules: Vec<A::Rule>,
        limits: usize,
        observed: bool,
        origin: u64,
    ) -> Self {
        Self {
            state: AtomicU64::new(OBSERVED.of(observed.into())),
            first: Version::new(rules.into_iter().map(|rule| (rule, None)).collect(), limits, 0, 0),
            later: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            writer: Mutex::new(Writer { origin, quotas, last: 0 }),
        }
    }

    /// Goes on with what the `saved` rules began, before the limiter is shared.
    pub(crate) fn resume(&mut self, saved: &[A::Rule], shift: Shift) {
        let rules = self.first.all().zip(saved);
        let resumed = rules.map(|((old, _), saved)| (old.pure.resuming(saved, shift), None)).collect();
        self.first = Version::new(resumed, self.first.limits, 0, 0);
    }

    /// The first version. A check asks whether it is current.
    #[inline]
    pub(crate) fn first(&self) -> &Version<A::Rule, N> {
        &self.first
    }

    /// The state. Load it before the key's word.
    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Acquire)) // V1, L1
    }

    /// Whether a refusal by a tier of the first version, at `now`, is an answer: see `after`.
    #[inline]
    pub(crate) fn stands(&self, first: &Tier<A::Rule, N>, now: Timestamp) -> bool {
        // Relaxed: a later version is read by its number, which is loaded anew.
        State(self.state.load(Relaxed)).is_plain() && first.is_timely(now)
    }

    /// Ends the permits of all leases: the reset's number. Call it while the key's word is held,
    /// before it is lowered.
    pub(crate) fn count_reset(&self) -> u32 {
        // A carry would change the version.
        let next = |state| RESETS.set(state, (RESETS.get(state) + 1) & RESETS.max());
        let counted = self.state.fetch_update(Release, Relaxed, |state| Some(next(state))); // L1
        let (Ok(seen) | Err(seen)) = counted;
        State(next(seen)).resets()
    }

    /// The current version.
    #[inline]
    pub(crate) fn current(&self) -> &Version<A::Rule, N> {
        self.of(self.state())
    }

    /// The version that was current in this state.
    #[inline]
    pub(crate) fn of(&self, state: State) -> &Version<A::Rule, N> {
        self.numbered(NUMBER.get(state.0))
    }

    /// The version of this number, which has been current.
    #[inline]
    pub(crate) fn numbered(&self, number: u64) -> &Version<A::Rule, N> {
        if number == 0 { &self.first } else { self.later(number) }
    }

    #[inline]
    fn number(&self) -> u64 {
        NUMBER.get(self.state().0)
    }

    fn announce(&self, number: u64) {
        let later = |state| (number > NUMBER.get(state)).then(|| NUMBER.set(state, number));
        let _ = self.state.fetch_update(Release, Relaxed, later); // V1
    }

    /// Announces what follows the version of this tier, if the writer has not yet.
    fn announce_next(&self, validity: Option<&Validity>) {
        if let Some(next) = validity.and_then(Validity::horizon).and_then(Horizon::next) {
            self.announce(next);
        }
    }

    /// A version other than the first.
    #[inline]
    fn later(&self, number: u64) -> &Version<A::Rule, N> {
        let find = || {
            let chunk = number.checked_ilog2()?;
            self.later.get(chunk as usize)?.get()?.get(number as usize - (1 << chunk))?.get()
        };
        let Some(version) = find() else { unreachable!("a version is in its place before it is announced") };
        version
    }

    /// Puts a version other than the first into its place. `None`: there is none left.
    fn put(&self, number: u64, version: Version<A::Rule, N>) -> Option<()> {
        let chunk = number.checked_ilog2()?;
        let length = 1_usize << chunk;
        let chunk = self.later.get(chunk as usize)?;
        let chunk = chunk.get_or_init(|| (0..length).map(|_| OnceLock::new()).collect());
        chunk.get(number as usize - length)?.set(version).ok()
    }

    /// The same tier of the current version; a lent quota as it is.
    #[inline]
    pub(crate) fn renewed<'l>(&'l self, tier: &'l Tier<A::Rule, N>) -> &'l Tier<A::Rule, N> {
        if tier.is_lent() {
            return tier;
        }
        self.current().tier_of(tier.first_rule())
    }

    /// The tier that decides a request anew which `tier` refused at `now`. `None`: the refusal was
    /// an answer. It is none where a later version may be current: a word of that version reads as
    /// a refusal, and the clock of this one stands still where it ends.
    #[inline]
    pub(crate) fn after<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        now: Timestamp,
    ) -> Option<&'l Tier<A::Rule, N>> {
        let stands = self.number() == u64::from(tier.version()) && tier.is_timely(now);
        if stands { None } else { self.after_all(tier) }
    }

    /// The same at any time: a booking is also refused because the version ends before it.
    #[cold]
    #[inline(never)]
    pub(crate) fn after_all<'l>(&'l self, tier: &'l Tier<A::Rule, N>) -> Option<&'l Tier<A::Rule, N>> {
        let validities = tier.rules.iter().map(|rule| &rule.validity);
        self.announce_next(validities.into_iter().find(|validity| validity.horizon().is_some()));
        let renewed = self.renewed(tier);
        (renewed.version() != tier.version()).then_some(renewed)
    }

    /// Hands the current version to `read`, its quotas, and the Unix time of the clock's zero to
    /// which it is aligned. No change is made meanwhile.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Version<A::Rule, N>, &[A], u64) -> T) -> T {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        read(self.current(), &writer.quotas, writer.origin)
    }
}
