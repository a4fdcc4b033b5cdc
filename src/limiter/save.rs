//! Writing down what is owed, for the next process.

use std::io::{self, Write};

use crate::algorithm::{Algorithm, Moment, Numbers, Settings};
use crate::clock::Clock;
use crate::key::{Key, KeyHasher};
use crate::limiter::versions::Version;
use crate::limiter::{Compiled, GlobalLimiter, Limiter};
use crate::saved::{END, Header, KEY, Kind, Naming, SHARED, Writer};
use crate::table::{Debt, Table};
use crate::time::{Reading, Timestamp, nanos};

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Writes down what every key owes, for [`Builder::restore`](crate::Builder::restore) in the next process. Returns
    /// how many keys that is.
    ///
    /// **The file is a secret.** No key can be read from it, but it holds the secret by which the limiter
    /// [names its keys](Key): whoever reads it can find out whether a key that he guesses is in it, and choose keys that
    /// share a bucket or, if they are longer than 8 bytes, a limit. Whoever writes it can forgive debts; the checksums in
    /// it detect accidents, not intent. Create it for its owner only.
    ///
    /// **Guarantee.** Nothing that was admitted before the call is forgotten, and no check waits for it. A request that
    /// is decided during the call may be in the file or not: what is admitted twice, before and after a restart, is at
    /// most what was admitted since the call began. Stop serving before it, and that is nothing.
    ///
    /// **Cost.** Reads the whole table, a bucket at a time, and writes about 21 bytes a key that owes something (and 8
    /// for each unit in its [log](crate::SlidingLog)) in pieces of 64 KiB. Allocates one such piece, and one log.
    ///
    /// Write to a new file and rename it when this has returned, so that a crash leaves the old one.
    ///
    /// # Errors
    ///
    /// Those of `out`. What has been written until then is no saved limiter, and will not be taken for one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(5));
    /// let limiter = Limiter::<str>::builder(quota).build()?;
    /// assert_eq!(limiter.check_n("alice", 4).remaining(), 1);
    /// let mut file = Vec::new();
    /// assert_eq!(limiter.save(&mut file)?, 1);
    ///
    /// // Another day, another process:
    /// let limiter = Limiter::<str>::builder(quota).restore(&file[..])?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        self.versions.read(|version, quotas| {
            let reading = reading(&self.clock);
            self.save_by(&Book::new(version, quotas, self.unix_at_zero, reading), reading, out)
        })
    }

    fn save_by(&self, book: &Book<'_, A::Rule>, reading: Reading, out: impl Write) -> io::Result<usize> {
        let naming = naming(&self.identity, &self.table);
        let mut out = Writer::begin(out)?;
        Header::write(&mut out, Kind::Keyed, self.unix_at_zero, reading, &book.tiers, &naming)?;
        let keys = debts(&mut out, &self.table, book, 0)?;
        out.finish()?;
        Ok(keys)
    }
}

impl<A: Algorithm, C: Clock> GlobalLimiter<A, C> {
    /// Writes down what is owed, for [`GlobalBuilder::restore`](crate::GlobalBuilder::restore) in the next process.
    ///
    /// **Guarantee.** As [`Limiter::save`]. There is no secret in it.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn save(&self, out: impl Write) -> io::Result<()> {
        self.versions.read(|version, quotas| {
            let reading = reading(&self.clock);
            self.save_by(&Book::new(version, quotas, self.unix_at_zero, reading), reading, out)
        })
    }

    fn save_by(&self, book: &Book<'_, A::Rule>, reading: Reading, out: impl Write) -> io::Result<()> {
        let mut out = Writer::begin(out)?;
        Header::write(&mut out, Kind::Global, self.unix_at_zero, reading, &book.tiers, &Naming::NONE)?;
        let mut times = Vec::new();
        let (word, name) = self.slot.debt(book.rule(0), self.ring(), book.at(0), &mut times);
        record(&mut out, book.anew(0, Debt::Key { name, payload: word.payload(), times: &times }))?;
        end(&mut out, 1)?;
        out.finish()
    }
}

/// How the keys of this table are named.
pub(super) fn naming(identity: &KeyHasher, table: &Table) -> Naming {
    let (secret, fingerprint) = (identity.secret().clone(), identity.sample());
    Naming { secret, fingerprint, buckets: table.buckets() as u64 }
}

/// What the clock shows, and then the Unix time: if the thread is held up in between, debts last longer.
pub(super) fn reading(clock: &impl Clock) -> Reading {
    Reading { at: clock.now().as_nanos(), unix: nanos(clock.unix_now()) }
}

/// Puts debts into the terms of a limiter that is built with the quotas in force: [reconfigured](Limiter::reconfigure)
/// ones have others.
pub(super) struct Book<'l, R> {
    version: &'l Version<R>,
    /// The rules in a new limiter, tier by tier.
    fresh: Vec<R>,
    now: Timestamp,
    /// The quotas, and what they count from.
    pub(super) tiers: Vec<(Settings, u64)>,
}

impl<'l, R: Numbers> Book<'l, R> {
    pub(super) fn new<A: Algorithm<Rule = R>>(
        version: &'l Version<R>,
        quotas: &[A],
        unix_at_zero: u64,
        reading: Reading,
    ) -> Self {
        let now = Timestamp::from_nanos(reading.at);
        // They were compiled before.
        let fresh = A::compile(quotas, unix_at_zero).unwrap_or_default();
        let rules = version.all().zip(&fresh).zip(quotas);
        let tier =
            |((old, fresh), quota): ((&Compiled<R>, &R), &A)| (quota.settings(), old.rule.origin(fresh, now));
        let tiers = rules.map(tier).collect();
        Self { version, fresh, now, tiers }
    }

    /// The rule in force that reads the words: tier 0's, or that of one of several limits.
    fn rule(&self, number: usize) -> &'l R {
        self.version.rule(number)
    }

    fn at(&self, number: usize) -> Moment {
        self.rule(number).moment(self.now)
    }

    fn anew<'t>(&self, number: usize, debt: Debt<'t>) -> Debt<'t> {
        let rule = self.rule(number);
        let fresh = self.fresh.get(number).unwrap_or(rule);
        let anew = |payload| rule.anew(payload, fresh, self.now);
        match debt {
            Debt::Key { name, payload, times } => {
                let times = &times[..times.len().min(fresh.ring_len() as usize)];
                Debt::Key { name, payload: anew(payload), times }
            }
            Debt::Shared { ending, payload } => Debt::Shared { ending, payload: anew(payload) },
        }
    }
}

/// Writes down what the keys of a table owe by the rule of this number: how many keys that is.
pub(super) fn debts<R: Numbers, W: Write>(
    out: &mut Writer<W>,
    table: &Table,
    book: &Book<'_, R>,
    number: usize,
) -> io::Result<usize> {
    let mut keys = 0;
    table.debts(book.rule(number), book.at(number), |debt| {
        keys += usize::from(matches!(debt, Debt::Key { .. }));
        record(out, book.anew(number, debt))
    })?;
    end(out, keys)?;
    Ok(keys)
}

fn record<W: Write>(out: &mut Writer<W>, debt: Debt<'_>) -> io::Result<()> {
    match debt {
        Debt::Key { name, payload, times } => {
            out.byte(KEY)?;
            out.word(name)?;
            out.word(payload)?;
            out.half(times.len() as u32)?;
            times.iter().try_for_each(|when| out.word(*when))
        }
        Debt::Shared { ending, payload } => {
            out.byte(SHARED)?;
            out.word(ending)?;
            out.word(payload)
        }
    }
}

fn end<W: Write>(out: &mut Writer<W>, keys: usize) -> io::Result<()> {
    out.byte(END)?;
    out.word(keys as u64)
}
