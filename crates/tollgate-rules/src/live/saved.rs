//! Rules in force over a restart.
//!
//! ```text
//!   hash: bytes | what they were read from: bytes | sections of all rules | rules that are gone
//! ```
//!
//! The form is that of [`tollgate::saved`]; for the sections see `set/saved`.

use std::io::{self, Read, Write};
use std::sync::Arc;

use tollgate::saved::{Format, Reader, Writer};
use tollgate::{Clock, RestoreError};

use crate::forgotten::NotRestored;
use crate::live::{LiveRules, Origin};
use crate::rule::Rules;
use crate::set::{Parked, RuleSet};

const RULES: Format = Format { magic: *b"\xA7rule\r\n\x1A", name: "a file of saved rules" };

impl<C: Clock + Clone + 'static> LiveRules<C> {
    /// Writes down the rules in force with their text, all debts to limits by time, and all bans,
    /// for [`restore`](Self::restore) in the next process. Returns the number of debts and bans.
    ///
    /// **The file is a secret**, as that of [`tollgate::Limiter::save`] is, and it holds all that
    /// the rules were read from. Create it for its owner only. Checksums detect accidents, not
    /// intent.
    ///
    /// **Guarantee.** Nothing that a request was charged before the call is forgotten, and no
    /// request waits for it. An exchange waits. Rules that are gone for less than an hour are
    /// written down, too. Requests in flight end with the process.
    ///
    /// **Cost.** Reads all tables and writes about 21 bytes a debt, in pieces of up to 64 KiB.
    ///
    /// # Errors
    ///
    /// Those of `out`, and one of kind [`Unsupported`](io::ErrorKind::Unsupported) for rules
    /// without a [text](Origin::text). The part that has been written by then is not taken for
    /// saved rules.
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        let mut out = Writer::begin(out, RULES)?;
        let debts = self.save_in(&mut out)?;
        out.finish()?;
        Ok(debts)
    }

    /// [`save`](Self::save) into a file of [several](tollgate::saved).
    ///
    /// # Errors
    ///
    /// As `save`.
    pub fn save_in(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        // Locked, so that no exchange changes a quota meanwhile.
        let parked = self.inner.parked();
        let (set, text, hash) = {
            let current = self.inner.current();
            (Arc::clone(&current.set), current.text.clone(), current.status.hash)
        };
        let Some(text) = text else {
            let why = "the rules were not read from files, or from one whose path is not UTF-8";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        };
        out.bytes(&hash)?;
        out.bytes(&text)?;
        Ok(set.save(out)? + parked.save(set.clock(), out)?)
    }

    /// The rules that [`save`](Self::save) wrote down, in force again with their debts. Returns
    /// what they begin without, too. `read` makes rules of their [text](Origin::text).
    ///
    /// **Guarantee.** As for [`tollgate::Builder::restore`]: each key is answered as the saved
    /// rules would answer it at the same Unix time, and no debt is forgiven. The time between
    /// counts as passed; if Unix time was set back, none does.
    ///
    /// **Cost.** Reads the input to the end of the saved rules, and no further. It reserves each
    /// table twice, one after the other, and 64 KiB, for any input.
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built. `read` may return any; [`RestoreError::Settings`]
    /// says that the rules are not taken any more, and is no damage.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{
    ///     Key, Limit, Limits, LiveRules, Origin, PlainRequest, Rule, Rules, Scratch,
    /// };
    ///
    /// // The text of these rules is the number of their only limit.
    /// let read = |text: &[u8]| {
    ///     let limit = format!("{}/h", String::from_utf8_lossy(text)).parse().unwrap();
    ///     let rule = Rule::new("all", Key::Everyone, Limits::Each(vec![Limit::Quota(limit)]));
    ///     Ok(Rules::of(vec![rule]))
    /// };
    /// let origin = Origin { hash: [1; 32], text: Some(b"5"[..].into()) };
    /// let live = LiveRules::new(read(b"5")?, origin, ManualClock::new())?;
    /// let _ = live.handle().check(&PlainRequest::default(), &mut Scratch::default());
    /// let mut saved = Vec::new();
    /// assert_eq!(live.save(&mut saved)?, 1);
    ///
    /// // The next process.
    /// let (live, forgotten) = LiveRules::restore(&saved[..], ManualClock::new(), read)?;
    /// assert!(forgotten.is_empty());
    /// let (mut handle, mut scratch) = (live.handle(), Scratch::default());
    /// assert_eq!(handle.check(&PlainRequest::default(), &mut scratch).lines()[0].remaining, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(
        input: impl Read,
        clock: C,
        read: impl Fn(&[u8]) -> Result<Rules, RestoreError>,
    ) -> Result<(Self, Vec<NotRestored>), RestoreError> {
        let mut input = Reader::begin(input, RULES)?;
        let restored = Self::restore_from(&mut input, clock, read)?;
        input.finish()?;
        Ok(restored)
    }

    /// [`restore`](Self::restore) from a file of [several](tollgate::saved): what
    /// [`save_in`](Self::save_in) wrote there.
    ///
    /// # Errors
    ///
    /// As `restore`. The file cannot be read on.
    pub fn restore_from(
        input: &mut Reader<impl Read>,
        clock: C,
        read: impl Fn(&[u8]) -> Result<Rules, RestoreError>,
    ) -> Result<(Self, Vec<NotRestored>), RestoreError> {
        let hash = input.bytes()?.try_into().map_err(|_| RestoreError::Corrupt)?;
        let text = input.bytes()?;
        let set = RuleSet::new(read(&text)?, clock);
        let mut set = set.map_err(|error| RestoreError::Settings(Box::new(error)))?;
        let mut forgotten = set.restore(input)?;
        let (parked, more) = Parked::restore(set.clock(), input, read)?;
        forgotten.extend(more);
        Ok((Self::of(set, Origin { hash, text: Some(text.into()) }, parked), forgotten))
    }
}
