//! Writing down every debt, for the next process.

use std::io::{self, Write};

use crate::algorithm::{Algorithm, Moment, Numbers, Rule};
use crate::clock::Clock;
use crate::key::KeyHasher;
use crate::limiter::core::Core;
use crate::limiter::version::{Version, compile};
use crate::saved::{END, Header, KEY, Naming, SHARED, Tier, Writer};
use crate::table::versioned::VersionedRef;
use crate::table::{Debt, Table};
use crate::time::{Reading, Timestamp, nanos};

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Writes down the debts of all keys to all limits: how many debts of keys that is.
    pub(crate) fn save(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        self.versions.read(|version, quotas, unix_at_zero| {
            let reading = reading(&self.clock);
            let limits = self.tables.limits();
            let book = Book::new(version, limits, quotas, unix_at_zero, reading);
            let tiers = book.tiers.chunks(limits);
            let given = tiers.flat_map(|tier| self.tables.as_given().filter_map(|place| tier.get(place)));
            let given: Vec<&Tier> = given.collect();
            // The tables of several limits are of one size.
            let has_keys = self.space.has_keys;
            let naming = if has_keys { naming(&self.hasher, &self.tables.first) } else { Naming::NONE };
            Header::write(out, (has_keys, limits), unix_at_zero, reading, &given, &naming)?;
            let mut keys = 0;
            for place in self.tables.as_given() {
                let (rule, at) = (book.rule(place), book.at(place));
                keys += debts(out, &self.tables[place], rule, at, |debt| book.anew(place, debt))?;
            }
            Ok(keys)
        })
    }
}

/// By which secret the keys of this table are hashed.
fn naming(hasher: &KeyHasher, table: &Table) -> Naming {
    let secret = hasher.secret().clone();
    Naming { secret, fingerprint: hasher.sample(), buckets: table.buckets() as u64 }
}

/// What the clock shows, and then the Unix time: if the thread is held up in between, debts last
/// longer.
fn reading(clock: &impl Clock) -> Reading {
    Reading { at: clock.now().as_nanos(), unix: nanos(clock.unix_now()) }
}

/// Converts debts to what a limiter would hold that was built with the current quotas. One that was
/// [changed](crate::Limiter::change) has other payloads.
struct Book<'l, R, const N: usize> {
    version: &'l Version<R, N>,
    /// The rules in a new limiter, tier by tier.
    fresh: Vec<R>,
    now: Timestamp,
    tiers: Vec<Tier>,
}

impl<'l, R: Numbers, const N: usize> Book<'l, R, N> {
    fn new<A: Algorithm<Rule = R>>(
        version: &'l Version<R, N>,
        limits: usize,
        quotas: &[A],
        unix_at_zero: u64,
        reading: Reading,
    ) -> Self {
        let now = Timestamp::from_nanos(reading.at);
        // Quotas are judged so before they become current.
        let fresh = compile(limits, quotas, unix_at_zero).unwrap_or_default();
        let olds = || version.all().map(|(old, _)| old.pure);
        let with_room = |(fresh, old): (R, R)| fresh.with_room(old.room()).unwrap_or(fresh);
        let fresh: Vec<R> = fresh.into_iter().zip(olds()).map(with_room).collect();
        let rules = olds().zip(&fresh).zip(quotas);
        let tier = |((old, fresh), quota): ((R, &R), &A)| Tier {
            quota: quota.saved_as(),
            origin: old.origin(fresh, now),
            room: old.room(),
        };
        let tiers = rules.map(tier).collect();
        Self { version, fresh, now, tiers }
    }

    /// The current rule that reads the words of a limit: tier 0's.
    fn rule(&self, number: usize) -> VersionedRef<'l, R> {
        self.version.by_ref(number)
    }

    fn at(&self, number: usize) -> Moment {
        self.rule(number).moment_to_read(self.now)
    }

    fn anew<'t>(&self, number: usize, debt: Debt<'t>) -> Debt<'t> {
        let rule = self.rule(number).pure;
        let fresh = self.fresh.get(number).unwrap_or(rule);
        let anew = |payload| rule.anew(payload, fresh, self.now);
        match debt {
            Debt::Key { fingerprint, payload, times } => {
                Debt::Key { fingerprint, payload: anew(payload), times }
            }
            Debt::Shared { ending, payload } => Debt::Shared { ending, payload: anew(payload) },
        }
    }
}

/// Writes down the debts of a table at `at`, each as `anew` makes it for the next process, and
/// their end. Returns how many keys that is.
fn debts<R: Rule, W: Write>(
    out: &mut Writer<W>,
    table: &Table,
    rule: VersionedRef<'_, R>,
    at: Moment,
    anew: impl Fn(Debt<'_>) -> Debt<'_>,
) -> io::Result<usize> {
    let mut keys = 0;
    Debt::each(table, rule, at, |debt| {
        keys += usize::from(matches!(debt, Debt::Key { .. }));
        record(out, anew(debt))
    })?;
    out.byte(END)?;
    out.word(keys as u64)?;
    Ok(keys)
}

/// Writes down a debt.
fn record<W: Write>(out: &mut Writer<W>, debt: Debt<'_>) -> io::Result<()> {
    match debt {
        Debt::Key { fingerprint, payload, times } => {
            out.byte(KEY)?;
            out.word(fingerprint.bits())?;
            out.word(payload.bits())?;
            out.half(times.len() as u32)?;
            times.iter().try_for_each(|when| out.word(*when))
        }
        Debt::Shared { ending, payload } => {
            out.byte(SHARED)?;
            out.word(ending)?;
            out.word(payload.bits())
        }
    }
}
