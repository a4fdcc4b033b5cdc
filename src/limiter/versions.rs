//! The versions of a limiter's quota, or of its quotas: callers load the number of the one in force and never wait,
//! writers take turns.
//!
//! A version is never changed and is kept until the limiter is dropped, since decisions borrow from it. The first lies in
//! the limiter itself, at an address that needs no load; the others in chunks, each twice as long as the one before.
//!
//! A change is one compare-exchange, which seals the old version's reach when the new one is in its place. Whoever is
//! stopped by the seal goes there, and announces it for the writer.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | V1 | the number's `fetch_max`, after the place was filled or the seal was seen (E1) | its load | the version |
//!
//! A word of a later version was written by somebody who had loaded the later number. So whoever reads the word by an
//! Acquire and then the number finds that one or a later: a refusal on such a word is found out.

use std::sync::{OnceLock, PoisonError};

use crate::algorithm::{Algorithm, Carry, Change, Inherit, Numbers, Rule, Term};
use crate::bits::Field;
use crate::clock::Clock;
use crate::error::BuildError;
use crate::limiter::Compiled;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::time::{Shift, Timestamp};
use Ordering::{Acquire, Relaxed, Release};

/// Chunks of 1, 2, 4, ... versions.
const CHUNKS: usize = 32;

// What every check asks first, in one word: whether anything is not as it was built.
const OBSERVED: Field = Field::lowest(1);
const NUMBER: Field = OBSERVED.above(63);
const _: () = assert!(NUMBER.end() == u64::BITS, "the fields must fill the word");

type Chunk<R> = OnceLock<Box<[OnceLock<Version<R>>]>>;

/// The quotas of a limiter at one time.
pub(super) struct Version<R> {
    pub(super) default: Compiled<R>,
    tiers: Box<[Compiled<R>]>,
    /// When it began, on the limiter's clock.
    since: u64,
}

/// All that there were.
pub(super) struct Versions<A: Algorithm> {
    /// The number of the one in force, and whether decisions are told to somebody.
    current: AtomicU64,
    first: Version<A::Rule>,
    later: Box<[Chunk<A::Rule>]>,
    writer: Mutex<Writer<A>>,
}

/// What only writers need.
struct Writer<A> {
    /// The quotas in force as they were described.
    quotas: Vec<A>,
    /// The last place that is taken.
    last: u64,
}

impl<R: Numbers> Version<R> {
    fn new(rules: Vec<R>, number: u64, since: u64) -> Self {
        let mut compiled =
            rules.into_iter().enumerate().map(|(tier, rule)| Compiled::new(rule, number, tier));
        let Some(default) = compiled.next() else { unreachable!("a limiter has at least one quota") };
        Self { default, tiers: compiled.collect(), since }
    }

    /// The tier of this number, 0 being the default. `None` for a number that is no tier's.
    #[inline]
    pub(super) fn tier(&self, number: usize) -> Option<&Compiled<R>> {
        number.checked_sub(1).map_or(Some(&self.default), |later| self.tiers.get(later))
    }

    /// The rule of the tier of this number, which there is.
    #[inline]
    pub(super) fn rule(&self, number: usize) -> &R {
        &self.tiers.get(number.wrapping_sub(1)).unwrap_or(&self.default).rule
    }

    /// How long it lasts. All of its rules that tell share one reach.
    fn term(&self) -> Option<&Term> {
        self.all().find_map(|compiled| compiled.rule.term())
    }

    /// Whether a request of this cost can be charged to all of them.
    #[inline]
    pub(super) fn has_room_for(&self, cost: u64) -> bool {
        // Every limit is at least 1: a check of cost 1 compares nothing here.
        cost == 1 || cost > 0 && self.all().all(|compiled| cost <= compiled.rule.limit())
    }

    /// All tiers, the default first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Compiled<R>> {
        std::iter::once(&self.default).chain(&self.tiers)
    }
}

impl<A: Algorithm> Versions<A> {
    /// The first.
    pub(super) fn new(quotas: Vec<A>, rules: Vec<A::Rule>, observed: bool) -> Self {
        Self {
            current: AtomicU64::new(OBSERVED.of(observed.into())),
            first: Version::new(rules, 0, 0),
            later: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            writer: Mutex::new(Writer { quotas, last: 0 }),
        }
    }

    /// Goes on with what the `saved` rules began, before anybody has seen the limiter.
    pub(super) fn resume(&mut self, saved: &[A::Rule], shift: Shift) {
        let resumed =
            |(compiled, saved): (&Compiled<A::Rule>, _)| compiled.rule.clone().resuming(saved, shift);
        self.first = Version::new(self.first.all().zip(saved).map(resumed).collect(), 0, 0);
    }

    /// The first one: whether it is in force is asked at the check.
    #[inline]
    pub(super) fn first(&self) -> &Version<A::Rule> {
        &self.first
    }

    /// Whether the first version is in force and decisions are told to nobody.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        // Relaxed: what a change brought is read by its number, which is loaded anew.
        self.current.load(Relaxed) == 0
    }

    /// Whether a refusal by the first version's rule, at `now`, is an answer: see `after`.
    #[inline]
    pub(super) fn stands(&self, first: &Compiled<A::Rule>, now: Timestamp) -> bool {
        self.is_plain() && first.rule.is_timely(now)
    }

    /// The one in force.
    #[inline]
    pub(super) fn current(&self) -> &Version<A::Rule> {
        match self.number() {
            0 => &self.first,
            number => self.later(number),
        }
    }

    #[inline]
    fn number(&self) -> u64 {
        NUMBER.get(self.current.load(Acquire)) // V1
    }

    fn announce(&self, number: u64) {
        let observed = OBSERVED.get(self.current.load(Relaxed));
        self.current.fetch_max(NUMBER.of(number) | OBSERVED.of(observed), Release); // V1
    }

    /// Announces what follows a version of this term, if the writer has not yet.
    fn announce_next(&self, term: Option<&Term>) {
        if let Some(next) = term.and_then(|term| term.reach().next()) {
            self.announce(next);
        }
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

    /// The same tier of the version in force.
    #[inline]
    pub(super) fn renewed(&self, compiled: &Compiled<A::Rule>) -> &Compiled<A::Rule> {
        let current = self.current();
        current.tier(compiled.tier).unwrap_or(&current.default)
    }

    /// The rule that a request is to ask again which was refused at `now`, since that refusal may be no answer: a word of
    /// a later version reads as a refusal, and the clock stands still where a version ends. `None`: it was an answer.
    #[inline]
    pub(super) fn after<'l>(
        &'l self,
        compiled: &Compiled<A::Rule>,
        now: Timestamp,
    ) -> Option<&'l Compiled<A::Rule>> {
        let stands = self.number() == compiled.version && compiled.rule.is_timely(now);
        if stands { None } else { self.after_all(compiled) }
    }

    /// The same whatever the reason: a rule that books ahead is refused at the end of its version, too.
    #[cold]
    #[inline(never)]
    pub(super) fn after_all(&self, compiled: &Compiled<A::Rule>) -> Option<&Compiled<A::Rule>> {
        self.announce_next(compiled.rule.term());
        let renewed = self.renewed(compiled);
        (renewed.version != compiled.version).then_some(renewed)
    }

    /// The version that a request is to ask again which this one refused at `now`, by any of its rules: see `after`.
    pub(super) fn following(&self, version: &Version<A::Rule>, now: Timestamp) -> Option<&Version<A::Rule>> {
        let number = version.default.version;
        if self.number() == number && version.all().all(|compiled| compiled.rule.is_timely(now)) {
            return None;
        }
        self.announce_next(version.term());
        let current = self.current();
        (current.default.version != number).then_some(current)
    }

    /// What `read` makes of the version in force and its quotas; no other comes meanwhile.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Version<A::Rule>, &[A]) -> T) -> T {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        read(self.current(), &writer.quotas)
    }

    /// Puts the quotas that `renew` makes of the old ones in force, with what each tier inherits: that is returned.
    pub(super) fn change(
        &self,
        clock: &impl Clock,
        origin: u64,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<Vec<Inherit>, BuildError> {
        // A writer that panicked has changed nothing that is in force.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (quotas, inherits) = renew(&writer.quotas)?;
        let old = self.current();
        let olds: Vec<A::Rule> = old.all().map(|compiled| compiled.rule.clone()).collect();
        let since = clock.now().as_nanos().max(old.since);
        let term = old.term();
        loop {
            // The reach goes some way beyond the change, so that nobody is stopped by it who is not late.
            let until = term.map_or(0, |term| term.stretch(since - old.since));
            let rules = A::recompile(&quotas, origin, &olds, Change { inherits: &inherits, since, until })?;
            let number = writer.last + 1;
            self.put(number, Version::new(rules, number, since)).ok_or(BuildError::ChangedTooOften)?;
            writer.last = number;
            if term.is_none_or(|term| term.reach().seal(until, number, since)) {
                self.announce(number);
                writer.quotas = quotas;
                return Ok(inherits);
            }
            // The reach was raised meanwhile; the version that was built on less is never in force.
        }
    }
}
