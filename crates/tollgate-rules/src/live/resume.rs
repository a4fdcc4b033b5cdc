//! Rules in force over a restart.
//!
//! ```text
//!   magic: 8 | version: u32 | hash: 32 | path: text
//!   files: u32 | each: path, bytes || variables: u32 | each: name, value
//!   sections of all rules | rules that are gone | checksum: u64, of all bytes before it
//! ```
//!
//! A text, and bytes, are their length, a u32, and themselves. All numbers are little-endian. For
//! the sections see `set/saved`.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use tollgate::Clock;

use crate::file::{Source, read};
use crate::live::{LiveRules, ReloadError, tried};
use crate::set::saved::pieces::{read_array, read_number};
use crate::set::saved::{FilesRead, Summed};
use crate::set::{Conflict, NotRestored, Parked, RestoreError, RuleSet};

/// The first bytes of saved rules. No text file begins so, and a transfer that converts line ends
/// changes them.
const MAGIC: [u8; 8] = *b"\xA7rule\r\n\x1A";

/// The version written, and the only one read.
const VERSION: u32 = 2;

/// Rules that took over from others: see [`LiveRules::reload_forgetting`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// The generation in force.
    pub generation: u64,
    /// What could not be carried over, and is forgotten.
    pub forgotten: Vec<Conflict>,
}

impl<C: Clock + Clone + 'static> LiveRules<C> {
    /// Writes down the rules in force with their files, all debts to limits by time, and all bans,
    /// for [`restore`](Self::restore) in the next process. Returns the number of debts and bans.
    ///
    /// **The file is a secret**, as that of [`tollgate::Limiter::save`] is, and it holds the lists
    /// and variables of the rules. Create it for its owner only. Checksums detect accidents, not
    /// intent.
    ///
    /// **Guarantee.** Nothing that a request was charged before the call is forgotten, and no
    /// request waits for it. A reload waits. Rules that are gone for less than an hour are written
    /// down, too. Requests in flight end with the process.
    ///
    /// **Cost.** Reads all tables and writes about 21 bytes a debt, in pieces of up to 64 KiB: use
    /// a [`BufWriter`](std::io::BufWriter).
    ///
    /// # Errors
    ///
    /// Those of `out`, and one of kind [`Unsupported`](io::ErrorKind::Unsupported) for rules that
    /// were not read from files. The part that has been written by then is not taken for saved
    /// rules.
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        // Locked, so that no reload changes a quota meanwhile.
        let parked = self.inner.parked();
        let (set, files, hash) = {
            let current = self.inner.current();
            (Arc::clone(&current.set), current.files.clone(), current.status.hash)
        };
        let Some(files) = files else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the rules were not read from files"));
        };
        let mut out = Summed::new(out);
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&hash)?;
        files.write(&mut out)?;
        let debts = set.save(&mut out)? + parked.save(set.clock(), &mut out)?;
        out.finish()?;
        Ok(debts)
    }

    /// The rules that [`save`](Self::save) wrote down, in force again with their debts. Returns
    /// what they begin without, too. A [reload](Self::reload_forgetting) then puts the rules of
    /// today in force.
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
    /// [`RestoreError`], and nothing is built.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{LiveRules, Memory, PlainRequest, Scratch};
    ///
    /// let text = "version = 1\nrule = [{ name = 'all', key = 'everyone', limits = '5/h' }]";
    /// let file = Memory::new("rules.toml", text);
    /// let live = LiveRules::open("rules.toml", &file, ManualClock::new())?;
    /// let _ = live.handle().check(&PlainRequest::default(), &mut Scratch::default());
    /// let mut saved = Vec::new();
    /// assert_eq!(live.save(&mut saved)?, 1);
    ///
    /// // The next process.
    /// let (live, forgotten) = LiveRules::restore(&saved[..], ManualClock::new())?;
    /// assert!(forgotten.is_empty());
    /// let (mut handle, mut scratch) = (live.handle(), Scratch::default());
    /// assert_eq!(handle.check(&PlainRequest::default(), &mut scratch).lines()[0].remaining, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(input: impl Read, clock: C) -> Result<(Self, Vec<NotRestored>), RestoreError> {
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
        let files = FilesRead::read(&mut input)?;
        let rules = files.reading().into_rules();
        let rules = rules.map_err(|reading| RestoreError::Rules(ReloadError::File(Box::new(reading))))?;
        let set = RuleSet::new(rules, clock);
        let mut set = set.map_err(|error| RestoreError::Rules(ReloadError::Set(error)))?;
        let mut forgotten = set.restore(&mut input)?;
        let (parked, more) = Parked::restore(set.clock(), &mut input)?;
        forgotten.extend(more);
        if !input.is_right()? {
            return Err(RestoreError::Corrupt);
        }
        Ok((Self::of(set, hash, Some(files), parked), forgotten))
    }

    /// [`reload_file`](Self::reload_file) by which the rules of these names may forget debts that
    /// the change cannot keep, as if they said `forget = true`. It also reads a file that is in
    /// force.
    ///
    /// # Errors
    ///
    /// As [`reload_file`](Self::reload_file).
    pub fn reload_file_forget(
        &self,
        path: impl AsRef<Path>,
        source: &dyn Source,
        forget: &[&str],
    ) -> Result<u64, ReloadError> {
        let tried = tried(read(path, source)).inspect_err(|error| self.note(Some(error)));
        let (mut rules, hash, files) = tried?;
        for rule in &mut rules.rules {
            rule.forget |= forget.contains(&&*rule.name);
        }
        self.reload_from(rules, hash, Some(files))
    }

    /// [`reload_file`](Self::reload_file) that forgets what cannot be carried over, as if the rules
    /// that it concerns said `forget = true`: for the start of a process, where to refuse the file
    /// would forget everything.
    ///
    /// # Errors
    ///
    /// As [`reload_file`](Self::reload_file), but no [`ReloadError::Forgets`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{LiveRules, Memory, PlainRequest, Scratch};
    ///
    /// let file = |limits: &str| {
    ///     let rule = format!("{{ name = 'all', key = 'everyone', limits = '{limits}' }}");
    ///     Memory::new("rules.toml", format!("version = 1\nrule = [{rule}]"))
    /// };
    /// let live = LiveRules::open("rules.toml", &file("5/h"), ManualClock::new())?;
    /// let _ = live.handle().check(&PlainRequest::default(), &mut Scratch::default());
    /// let resumed = live.reload_forgetting("rules.toml", &file("sliding-log:5/h"))?;
    /// assert_eq!((&*resumed.forgotten[0].rule, resumed.forgotten[0].keys_in_debt), ("all", 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload_forgetting(
        &self,
        path: impl AsRef<Path>,
        source: &dyn Source,
    ) -> Result<Resumed, ReloadError> {
        let mut forgotten = Vec::new();
        loop {
            let reading = read(&path, source);
            let status = self.status();
            if reading.rules().is_some() && reading.hash() == status.hash {
                return Ok(Resumed { generation: status.generation, forgotten });
            }
            let (mut rules, hash, files) = tried(reading)?;
            for rule in &mut rules.rules {
                rule.forget |= forgotten.iter().any(|conflict: &Conflict| conflict.rule == rule.name);
            }
            match self.reload_from(rules, hash, Some(files)) {
                Ok(generation) => return Ok(Resumed { generation, forgotten }),
                Err(ReloadError::Forgets(conflicts)) => {
                    let is_new = |conflict: &Conflict| {
                        !forgotten.iter().any(|other: &Conflict| other.rule == conflict.rule)
                    };
                    if !conflicts.iter().any(is_new) {
                        return Err(ReloadError::Forgets(conflicts));
                    }
                    forgotten.extend(conflicts);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
