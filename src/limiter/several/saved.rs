//! Several limits from one process to the next.

use std::io::{self, Read, Write};

use crate::algorithm::{Algorithm, Each, Settings};
use crate::clock::Clock;
use crate::key::Key;
use crate::limiter::restore::{Past, identity, saved_rules, shift};
use crate::limiter::save::{Book, debts, naming, reading};
use crate::limiter::several::{MultiBuilder, MultiLimiter};
use crate::saved::{Header, Kind, Naming, Reader, RestoreError, Writer};

impl<K: Key + ?Sized, C: Clock> MultiLimiter<K, C> {
    /// Writes down what every key owes to every limit, for [`MultiBuilder::restore`] in the next process. Returns how many
    /// debts that is: of each limit, the keys that owe something to it.
    ///
    /// **The file is a secret**, and everything else is as it is for [`Limiter::save`](crate::Limiter::save), limit by limit:
    /// what was admitted before the call is in the file for every limit, and a request that is decided during the call may be
    /// in it for all of them, some, or none.
    ///
    /// # Errors
    ///
    /// Those of `out`. What has been written until then is no saved limiter, and will not be taken for one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{MultiLimiter, Rate, TokenBucket};
    ///
    /// let settings = || MultiLimiter::<str>::builder([Rate::per_hour(5), Rate::per_day(7)].map(TokenBucket::new));
    /// let limiter = settings().build()?;
    /// assert!(limiter.check_n("alice", 5).is_allowed());
    /// let mut file = Vec::new();
    /// assert_eq!(limiter.save(&mut file)?, 2);
    ///
    /// // Another day, another process:
    /// let limiter = settings().restore(&file[..])?;
    /// assert_eq!(limiter.check("alice").refused_by(), Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        self.versions.read(|version, quotas| {
            let reading = reading(&self.clock);
            let book = Book::new(version, quotas, self.unix_at_zero, reading);
            let places = self.places();
            let tiers: Vec<(Settings, u64)> =
                places.iter().filter_map(|&place| book.tiers.get(place).cloned()).collect();
            // Their tables are of one size.
            let naming =
                self.limits.first().map_or(Naming::NONE, |limit| naming(&self.identity, &limit.table));
            let mut out = Writer::begin(out)?;
            Header::write(&mut out, Kind::Several, self.unix_at_zero, reading, &tiers, &naming)?;
            let owed = places.iter().map(|&place| debts(&mut out, &self.limits[place].table, &book, place));
            let owed = owed.sum::<io::Result<usize>>()?;
            out.finish()?;
            Ok(owed)
        })
    }

    /// Where each limit stands in the order of charging, in the order in which they were given to the builder.
    fn places(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.limits.len()).collect();
        places.sort_by_key(|&place| self.limits[place].number);
        places
    }
}

impl<K: Key + ?Sized, C: Clock> MultiBuilder<K, C> {
    /// [`build`](Self::build) for a limiter that begins with the debts that [`MultiLimiter::save`] wrote down.
    ///
    /// The quotas must be those of the saved limiter, in the same order. Everything else is as it is for
    /// [`Builder::restore`](crate::Builder::restore), limit by limit.
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built: the input is no saved limiter of several limits, is damaged or ends too soon,
    /// was saved under other settings, or needs more room.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{MultiLimiter, Rate, TokenBucket};
    ///
    /// let settings = |day| MultiLimiter::<str>::builder([Rate::per_hour(5), Rate::per_day(day)].map(TokenBucket::new));
    /// let mut file = Vec::new();
    /// settings(7).build()?.save(&mut file)?;
    ///
    /// let error = settings(8).restore(&file[..]).unwrap_err();
    /// assert_eq!(error.to_string(), "limit 1's rate.count is 8, but was 7 when the limiter was saved");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(self, input: impl Read) -> Result<MultiLimiter<K, C>, RestoreError> {
        let mut input = Reader::begin(input)?;
        let header = Header::read(&mut input)?;
        let quotas: Vec<Each> = self.quotas.iter().copied().map(Each).collect();
        let settings: Vec<Settings> = quotas.iter().map(Algorithm::settings).collect();
        header.is_of(Kind::Several, &settings)?;
        let (identity, max_keys) = (identity(&header, self.space.trusted_keys)?, self.space.max_keys);
        let mut limiter = self.build_as(identity)?;
        let (shift, now) = shift(&header, &limiter.clock);
        let saved = saved_rules(&header, &quotas)?;
        let in_turn: Vec<_> = limiter.limits.iter().map(|limit| saved[limit.number].clone()).collect();
        limiter.versions.resume(&in_turn, shift);
        let past = Past { header: &header, shift, now, max_keys };
        let version = limiter.versions.current();
        let mut room = Ok(());
        for place in limiter.places() {
            let (table, rule) = (&limiter.limits[place].table, version.rule(place));
            room = room.and(past.enter(&mut input, table, rule, &in_turn[place])?);
        }
        input.finish()?;
        room.map(|()| limiter)
    }
}
