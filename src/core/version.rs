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

use std::sync::{OnceLock, PoisonError};

use crate::algorithm::{Algorithm, AnyRule, Carry, Change, Inherit, Numbers, Past, WithPast};
use crate::bits::Field;
use crate::clock::Clock;
use crate::decision::Shown;
use crate::error::BuildError;
use crate::receipt::ChargedBy;
use crate::sync::{AtomicU64, Mutex, Ordering, Tally, TallyOrdering};
use crate::table::dated::{Current, Dated};
use crate::table::term::{Horizon, Term};
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

    /// How often the limiter was reset, modulo 2^32.
    #[inline]
    pub(crate) fn resets(self) -> u32 {
        RESETS.get(self.0) as u32
    }
}

/// A rule, the time for which it is current, what decisions show of it, and which rule of its
/// version it is.
#[derive(Debug)]
pub struct Compiled<R> {
    pub(crate) current: Current<R>,
    pub(crate) shown: Shown,
}

impl<R> Compiled<R> {
    /// Whether it came with a call: it is no tier of a version, and means the same in each of them.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        self.shown.version == Shown::LENT
    }

    /// The rule as the table is handed it.
    #[inline]
    pub(crate) fn dated(&self) -> Dated<'_, R> {
        self.current.dated()
    }

    #[inline]
    pub(crate) fn rule(&self) -> &R {
        &self.current.rule
    }
}

type Chunk<R> = OnceLock<Box<[OnceLock<Version<R>>]>>;

/// The quotas of a limiter at one time.
pub struct Version<R> {
    pub(crate) default: Compiled<R>,
    tiers: Box<[Compiled<R>]>,
    /// The limiter's number among all of this process: receipts carry it.
    pub(crate) limiter: u64,
    /// When it began, on the limiter's clock.
    since: u64,
}

/// All versions of a limiter's quotas, and its state.
pub struct Versions<A: Algorithm> {
    state: AtomicU64,
    first: Version<A::Rule>,
    later: Box<[Chunk<A::Rule>]>,
    writer: Mutex<Writer<A>>,
}

/// What only writers need.
struct Writer<A> {
    /// The current quotas, as the user described them.
    quotas: Vec<A>,
    /// The largest number that a version has taken.
    last: u64,
}

impl<R: Numbers> Version<R> {
    fn new(rules: Vec<WithPast<R>>, limiter: u64, number: u64, since: u64) -> Self {
        let mut compiled = Term::all(rules, since).into_iter().enumerate().map(|(index, (rule, term))| {
            let (version, index) = (number as u32, index as u16);
            let shown = Shown { any: rule.any(), version, index };
            Compiled { current: Current { rule, term }, shown }
        });
        let Some(default) = compiled.next() else { unreachable!("a limiter has at least one quota") };
        Self { default, tiers: compiled.collect(), limiter, since }
    }

    /// The tier of this number, 0 being the default. `None` for a number that is no tier's.
    #[inline]
    pub(crate) fn tier(&self, number: usize) -> Option<&Compiled<R>> {
        number.checked_sub(1).map_or(Some(&self.default), |later| self.tiers.get(later))
    }

    /// The rule of the tier of this number, which there is.
    #[inline]
    pub(crate) fn rule(&self, number: usize) -> &R {
        self.compiled(number).rule()
    }

    /// The same as the table is handed it.
    #[inline]
    pub(crate) fn dated(&self, number: usize) -> Dated<'_, R> {
        self.compiled(number).dated()
    }

    #[inline]
    pub(crate) fn compiled(&self, number: usize) -> &Compiled<R> {
        self.tiers.get(number.wrapping_sub(1)).unwrap_or(&self.default)
    }

    /// How receipts say that all of its rules have charged a request.
    #[inline]
    pub(crate) fn charged_by(&self) -> ChargedBy {
        ChargedBy::Version { number: self.default.shown.version, rule: 0 }
    }

    /// When the next version begins, if that is made now: in nanoseconds on the limiter's clock.
    /// Not when so much time has passed that an earlier time would read as one after it: its
    /// difference wraps around to less than a horizon.
    fn end_at(&self, clock: &impl Clock) -> Result<u64, BuildError> {
        let since = clock.now().as_nanos().max(self.since);
        if since > LATEST_START && self.term().is_some() {
            Err(BuildError::ChangedTooOften)
        } else {
            Ok(since)
        }
    }

    /// How long it lasts. All of its rules that have a horizon share one.
    fn term(&self) -> Option<&Term> {
        self.all().map(|compiled| &compiled.current.term).find(|term| term.horizon().is_some())
    }

    /// The time at which it decides at `now`: `now`, unless it has ended.
    pub(crate) fn within(&self, now: Timestamp) -> Timestamp {
        self.term().map_or(now, |term| term.within(now))
    }

    /// Whether a request of this cost can be charged to all of them.
    #[inline]
    pub(crate) fn has_room_for(&self, cost: u64) -> bool {
        // Every limit is at least 1: a check of cost 1 compares nothing here.
        cost == 1 || cost > 0 && self.all().all(|compiled| cost <= compiled.rule().limit())
    }

    /// All tiers, the default first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Compiled<R>> {
        std::iter::once(&self.default).chain(&self.tiers)
    }
}

impl<A: Algorithm> Versions<A> {
    /// The first.
    pub(crate) fn new(quotas: Vec<A>, rules: Vec<A::Rule>, observed: bool) -> Self {
        static LIMITERS: Tally = Tally::new(0);
        let limiter = LIMITERS.fetch_add(1, TallyOrdering::Relaxed);
        Self {
            state: AtomicU64::new(OBSERVED.of(observed.into())),
            first: Version::new(rules.into_iter().map(|rule| (rule, None)).collect(), limiter, 0, 0),
            later: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            writer: Mutex::new(Writer { quotas, last: 0 }),
        }
    }

    /// Goes on with what the `saved` rules began, before the limiter is shared.
    pub(crate) fn resume(&mut self, saved: &[A::Rule], shift: Shift) {
        let resumed =
            |(compiled, saved): (&Compiled<A::Rule>, _)| (compiled.rule().resuming(saved, shift), None);
        self.first = Version::new(self.first.all().zip(saved).map(resumed).collect(), self.limiter(), 0, 0);
    }

    /// The first version. A check asks whether it is current.
    #[inline]
    pub(crate) fn first(&self) -> &Version<A::Rule> {
        &self.first
    }

    /// The limiter's number among all of this process.
    pub(crate) fn limiter(&self) -> u64 {
        self.first.limiter
    }

    /// The state. Load it before the key's word.
    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Acquire)) // V1, L1
    }

    /// Whether a refusal by the first version's rule, at `now`, is an answer: see `after`.
    #[inline]
    pub(crate) fn stands(&self, first: &Compiled<A::Rule>, now: Timestamp) -> bool {
        // Relaxed: a later version is read by its number, which is loaded anew.
        State(self.state.load(Relaxed)).is_plain() && first.dated().is_timely(now)
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
    pub(crate) fn current(&self) -> &Version<A::Rule> {
        self.of(self.state())
    }

    /// The version that was current in this state.
    #[inline]
    pub(crate) fn of(&self, state: State) -> &Version<A::Rule> {
        self.numbered(NUMBER.get(state.0))
    }

    /// The version of this number, which has been current.
    #[inline]
    pub(crate) fn numbered(&self, number: u64) -> &Version<A::Rule> {
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

    /// Announces what follows a version of this term, if the writer has not yet.
    fn announce_next(&self, term: Option<&Term>) {
        if let Some(next) = term.and_then(Term::horizon).and_then(Horizon::next) {
            self.announce(next);
        }
    }

    /// The rules after a change of the `old` ones, with what converts older payloads for them.
    fn remember(
        old: &Version<A::Rule>,
        rules: &[A::Rule],
        change: Change<'_>,
    ) -> Result<Vec<WithPast<A::Rule>>, BuildError> {
        let olds: Vec<WithPast<AnyRule>> =
            old.all().map(|compiled| (compiled.shown.any, compiled.current.term.past().cloned())).collect();
        // Those whose keys' debts are in one table.
        let together = if A::IS_SHARED { olds.len() } else { 1 };
        let tables = olds.chunks(together).zip(rules.chunks(together)).zip(change.inherits.chunks(together));
        let linked = tables
            .map(|((olds, rules), inherits)| Past::remember(olds, rules, Change { inherits, ..change }))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(linked.into_iter().flatten().collect())
    }

    /// A version other than the first.
    #[inline]
    fn later(&self, number: u64) -> &Version<A::Rule> {
        let find = || {
            let chunk = number.checked_ilog2()?;
            self.later.get(chunk as usize)?.get()?.get(number as usize - (1 << chunk))?.get()
        };
        let Some(version) = find() else { unreachable!("a version is in its place before it is announced") };
        version
    }

    /// Puts a version other than the first into its place. `None`: there is none left.
    fn put(&self, number: u64, version: Version<A::Rule>) -> Option<()> {
        let chunk = number.checked_ilog2()?;
        let length = 1_usize << chunk;
        let chunk = self.later.get(chunk as usize)?;
        let chunk = chunk.get_or_init(|| (0..length).map(|_| OnceLock::new()).collect());
        chunk.get(number as usize - length)?.set(version).ok()
    }

    /// The same tier of the current version; a lent quota as it is.
    #[inline]
    pub(crate) fn renewed<'l>(&'l self, compiled: &'l Compiled<A::Rule>) -> &'l Compiled<A::Rule> {
        if compiled.is_lent() {
            return compiled;
        }
        let current = self.current();
        current.tier(compiled.shown.index.into()).unwrap_or(&current.default)
    }

    /// The rule that decides a request anew which `compiled` refused at `now`. `None`: the refusal
    /// was an answer. It is none where a later version may be current: a word of that version reads
    /// as a refusal, and the clock of this one stands still where it ends.
    #[inline]
    pub(crate) fn after<'l>(
        &'l self,
        compiled: &'l Compiled<A::Rule>,
        now: Timestamp,
    ) -> Option<&'l Compiled<A::Rule>> {
        let stands = self.number() == u64::from(compiled.shown.version) && compiled.dated().is_timely(now);
        if stands { None } else { self.after_all(compiled) }
    }

    /// The same at any time: a booking is also refused because the version ends before it.
    #[cold]
    #[inline(never)]
    pub(crate) fn after_all<'l>(&'l self, compiled: &'l Compiled<A::Rule>) -> Option<&'l Compiled<A::Rule>> {
        self.announce_next(Some(&compiled.current.term));
        let renewed = self.renewed(compiled);
        (renewed.shown.version != compiled.shown.version).then_some(renewed)
    }

    /// The version that decides a request anew which a rule of this one refused at `now`: see
    /// `after`.
    pub(crate) fn following(&self, version: &Version<A::Rule>, now: Timestamp) -> Option<&Version<A::Rule>> {
        let number = version.default.shown.version;
        if self.number() == u64::from(number) && version.all().all(|compiled| compiled.dated().is_timely(now))
        {
            return None;
        }
        self.announce_next(version.term());
        let current = self.current();
        (current.default.shown.version != number).then_some(current)
    }

    /// Hands the current version and its quotas to `read`. No change is made meanwhile.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Version<A::Rule>, &[A]) -> T) -> T {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        read(self.current(), &writer.quotas)
    }

    /// Makes the quotas current that `renew` makes of the old ones, and returns what each tier
    /// inherits.
    pub(crate) fn change(
        &self,
        clock: &impl Clock,
        origin: u64,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<Vec<Inherit>, BuildError> {
        // A writer that panicked has changed nothing that is current.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (quotas, inherits) = renew(&writer.quotas)?;
        let old = self.current();
        let since = old.end_at(clock)?;
        let term = old.term();
        loop {
            // The horizon lies beyond the change: it stops only threads that are late.
            let until = term.map_or(0, |term| term.extend(since - old.since));
            let number = writer.last + 1;
            let change = Change { inherits: &inherits, since, until };
            let version = self.following_version(old, &quotas, origin, number, change)?;
            self.put(number, version).ok_or(BuildError::ChangedTooOften)?;
            writer.last = number;
            if term.and_then(Term::horizon).is_none_or(|horizon| horizon.seal(until, number, since)) {
                self.announce(number);
                writer.quotas = quotas;
                return Ok(inherits);
            }
            // Another thread raised the horizon: the version built on less never becomes current.
        }
    }

    /// Checks that a [`change`](Self::change) can be made now, and taken back in the next minute.
    /// No thread notices.
    pub(crate) fn check_change(
        &self,
        clock: &impl Clock,
        origin: u64,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<(), BuildError> {
        const MINUTE: u64 = 60_000_000_000;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (wanted, inherits) = renew(&writer.quotas)?;
        let old = self.current();
        let since = old.end_at(clock)?;
        let until = old.term().map_or(0, |term| term.extend(since - old.since));
        let number = writer.last + 1;
        let change = Change { inherits: &inherits, since, until };
        let next = self.following_version(old, &wanted, origin, number, change)?;
        let until = next.term().map_or(0, |term| term.extend(MINUTE));
        let inherits = vec![Inherit::Additive; inherits.len()];
        let back = Change { inherits: &inherits, since: since.saturating_add(MINUTE), until };
        self.following_version(&next, &writer.quotas, origin, number + 1, back).map(drop)
    }

    /// The version of these quotas after `old`.
    fn following_version(
        &self,
        old: &Version<A::Rule>,
        quotas: &[A],
        origin: u64,
        number: u64,
        change: Change<'_>,
    ) -> Result<Version<A::Rule>, BuildError> {
        // A limiter that was saved is built again with these quotas.
        A::compile(quotas, origin)?;
        let olds: Vec<A::Rule> = old.all().map(|compiled| *compiled.rule()).collect();
        let rules = A::recompile(quotas, origin, &olds, change)?;
        let rules = Self::remember(old, &rules, change)?;
        if number > NUMBER.max() {
            return Err(BuildError::ChangedTooOften);
        }
        Ok(Version::new(rules, self.limiter(), number, change.since))
    }
}
