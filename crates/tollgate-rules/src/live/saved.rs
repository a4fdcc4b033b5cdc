//! Rules in force over a restart.
//!
//! ```text
//!   magic: 8 | version: u32 | hash: 32 | what they were read from: bytes
//!   sections of all rules | rules that are gone | checksum: u64, of all bytes before it
//! ```
//!
//! The parts are those of `saved`; for the sections see `set/saved`.

use std::io::{self, Read, Write};
use std::sync::Arc;

use tollgate::Clock;

use crate::live::{LiveRules, Origin};
use crate::rule::Rules;
use crate::saved::{NotRestored, RestoreError, Summed, read_array, read_bytes, read_number, write_bytes};
use crate::set::{Parked, RuleSet};

/// The first bytes of saved rules. No text file begins so, and a transfer that converts line ends
/// changes them.
const MAGIC: [u8; 8] = *b"\xA7rule\r\n\x1A";

/// The version written, and the only one read.
const VERSION: u32 = 3;

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
    /// **Cost.** Reads all tables and writes about 21 bytes a debt, in pieces of up to 64 KiB: use
    /// a [`BufWriter`](std::io::BufWriter).
    ///
    /// # Errors
    ///
    /// Those of `out`, and one of kind [`Unsupported`](io::ErrorKind::Unsupported) for rules
    /// without a [text](Origin::text). The part that has been written by then is not taken for
    /// saved rules.
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
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
        let mut out = Summed::new(out);
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&hash)?;
        write_bytes(&mut out, &text)?;
        let debts = set.save(&mut out)? + parked.save(set.clock(), &mut out)?;
        out.finish()?;
        Ok(debts)
    }

    /// The rules that [`save`](Self::save) wrote down, in force again with their debts. Returns
    /// what they begin without, too. `read` makes rules of their [text](Origin::text).
    ///
    /// **Guarantee.** As for [`tollgate::Builder::restore`]: each key is answered as the saved
    /// rules would answer it at the same Unix time, and no debt is forgiven. The time between
    /// counts as passed; if Unix time was set back, none does.
    ///
    /// **Cost.** Reads the input to the end of the saved rules, and no further. It reserves each
    /// table twice, one after the other, and 64 KiB, for any input. Many reads are of a few bytes:
    /// use a [`BufReader`](io::BufReader).
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built. `read` may return any; [`RestoreError::Rules`] says
    /// that the rules are not taken any more, and is no damage.
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
        let mut input = Summed::new(input);
        let mut magic = Vec::new();
        input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        if !MAGIC.starts_with(&magic) {
            return Err(RestoreError::Foreign);
        }
        let found = read_number(&mut input)?;
        if found != VERSION {
            return Err(RestoreError::Version { found, known: VERSION });
        }
        let hash: [u8; 32] = read_array(&mut input)?;
        let text = read_bytes(&mut input)?;
        let set = RuleSet::new(read(&text)?, clock);
        let mut set = set.map_err(|error| RestoreError::Rules(Box::new(error)))?;
        let mut forgotten = set.restore(&mut input)?;
        let (parked, more) = Parked::restore(set.clock(), &mut input, read)?;
        forgotten.extend(more);
        if !input.is_right()? {
            return Err(RestoreError::Corrupt);
        }
        Ok((Self::of(set, Origin { hash, text: Some(text.into()) }, parked), forgotten))
    }
}
