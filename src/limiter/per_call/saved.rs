//! The debts of a limiter whose quotas come with the calls, for the next process.

use std::io::{self, Read, Write};

use crate::algorithm::{PerCallRule, Rule};
use crate::clock::Clock;
use crate::core::{SavedDebts, debts, hasher, naming, reading, shift};
use crate::key::Key;
use crate::limiter::per_call::{PerCallBuilder, PerCallLimiter};
use crate::saved::{Header, Kind, Reader, RestoreError, Writer};
use crate::time::Timestamp;

impl<K: Key + ?Sized, C: Clock> PerCallLimiter<K, C> {
    /// Writes down the debts of all keys, for [`PerCallBuilder::restore`] in the next process.
    /// Returns how many keys that is.
    ///
    /// **The file is a secret**, and everything else is as it is for
    /// [`Limiter::save`](crate::Limiter::save): every request that was admitted before the call is
    /// in the file, and no request waits for it.
    ///
    /// # Errors
    ///
    /// Those of `out`. The part that has been written by then is no saved limiter, and will not be
    /// taken for one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CallQuota, PerCallLimiter, Rate};
    ///
    /// let quota = CallQuota::new(Rate::per_hour(1), 1)?;
    /// let limiter = PerCallLimiter::<str>::builder().build()?;
    /// assert!(limiter.check("alice", quota, 1)?.is_allowed());
    /// let mut file = Vec::new();
    /// assert_eq!(limiter.save(&mut file)?, 1);
    ///
    /// // Another day, another process:
    /// let limiter = PerCallLimiter::<str>::builder().restore(&file[..])?;
    /// assert!(!limiter.check("alice", quota, 1)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        let (rule, reading) = (PerCallRule::ANY, reading(&self.state.clock));
        let mut out = Writer::begin(out)?;
        let naming = naming(Kind::PerCall, &self.state.hasher, Some(&self.state.table));
        Header::write(&mut out, Kind::PerCall, 0, reading, &[], &naming)?;
        let at = rule.moment(Timestamp::from_nanos(reading.at));
        let keys = debts(&mut out, &self.state.table, self.state.dated(&rule), at, |debt| debt)?;
        out.finish()?;
        Ok(keys)
    }
}

impl<K: Key + ?Sized, C: Clock> PerCallBuilder<K, C> {
    /// [`build`](Self::build) for a limiter that begins with the debts that
    /// [`PerCallLimiter::save`] wrote down.
    ///
    /// **Guarantee.** As for [`Builder::restore`](crate::Builder::restore): each key is answered as
    /// the saved limiter would answer it at the same Unix time, to the nanosecond, and no debt is
    /// forgiven. The time between counts as passed; if Unix time has been set back, none counts.
    ///
    /// **Cost.** Reads the input to the end of the saved limiter, and no further. It reserves as
    /// much as `build` does and 64 KiB, for any input.
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built: the input is no such limiter, is damaged or ends too
    /// soon, was saved with other [`trusted_keys`](Self::trusted_keys), or holds more debts than
    /// [`max_keys`](Self::max_keys).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{PerCallLimiter, RestoreError};
    ///
    /// let error = PerCallLimiter::<str>::builder().restore(&b"# my settings"[..]).unwrap_err();
    /// assert!(matches!(error, RestoreError::Foreign));
    /// ```
    pub fn restore(self, input: impl Read) -> Result<PerCallLimiter<K, C>, RestoreError> {
        let mut input = Reader::begin(input)?;
        let header = Header::read(&mut input)?;
        header.is_of(Kind::PerCall, &[])?;
        let hasher = hasher(&header, self.space.trusted_keys)?;
        let limiter = self.hashing_by(hasher)?;
        let state = &limiter.state;
        let (shift, now) = shift(&header, &state.clock);
        let debts = SavedDebts { header: &header, now, max_keys: state.max_keys };
        let carry = |payload| PerCallRule::carry(payload, shift);
        let dated = state.dated(&PerCallRule::ANY);
        let room = debts.enter(&mut input, &state.table, dated, carry, |_| None)?;
        input.finish()?;
        room.map(|()| limiter)
    }
}
