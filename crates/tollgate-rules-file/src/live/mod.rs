//! Rules of a file that are exchanged when the file changes.
//!
//! | file | what |
//! |------|------|
//! | `error` | why a file did not come into force |
//! | `text` | the files as one text, for the next process |
//! | `watch` | a thread that looks whether the files changed |

mod error;
mod text;
mod watch;

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate::saved::Reader;
use tollgate::{Clock, RestoreError, TscClock};
use tollgate_rules::{Conflict, ExchangeError, LiveRules, NotRestored, Origin, Rules};

use crate::file::{Problem, Reading, Source, read};
use crate::trial::run_tests;
pub use error::ReloadError;
pub use watch::Watched;

/// Rules that were read from a file, and are exchanged when it changes.
///
/// Clones share the rules. Threads decide requests by handles of [`live`](Self::live).
///
/// # Examples
///
/// ```
/// use tollgate::TscClock;
/// use tollgate_rules::{PlainRequest, Scratch};
/// use tollgate_rules_file::{LiveFile, Memory};
///
/// let limits = |limits: &str| {
///     let rule = format!("{{ name = 'per-client', key = 'client', limits = '{limits}' }}");
///     Memory::new("rules.toml", format!("version = 1\nrule = [{rule}]"))
/// };
/// let file = LiveFile::open("rules.toml", &limits("10/s,burst=20"), TscClock::new())?;
/// let (mut handle, mut scratch) = (file.live().handle(), Scratch::default()); // of each thread
/// let request = PlainRequest { client: Some([203, 0, 113, 9].into()), ..Default::default() };
/// assert!(handle.check(&request, &mut scratch).is_admitted());
///
/// assert_eq!(file.reload("rules.toml", &limits("20/s,burst=40"))?, 2);
/// assert!(file.reload("rules.toml", &limits("20/fortnight")).is_err());
/// assert!(file.last_error().unwrap().to_string().contains("20/fortnight"));
/// assert_eq!(handle.check(&request, &mut scratch).lines()[0].remaining, 38); // the debt remains
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LiveFile<C = TscClock> {
    live: LiveRules<C>,
    last_error: Arc<Mutex<Option<Arc<ReloadError>>>>,
}

/// Rules that took over from others: see [`LiveFile::reload_forgetting`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// The generation in force.
    pub generation: u64,
    /// What could not be carried over, and is forgotten.
    pub forgotten: Vec<Conflict>,
}

impl<C: Clock + Clone + 'static> LiveFile<C> {
    /// Reads a rules file, runs its tests, and puts its rules in force.
    ///
    /// # Errors
    ///
    /// [`ReloadError`]: the file is wrong, or a test of it fails.
    pub fn open(path: impl AsRef<Path>, source: &dyn Source, clock: C) -> Result<Self, ReloadError> {
        let (rules, origin) = tried(read(path, source))?;
        Ok(LiveRules::new(rules, origin, clock)?.into())
    }

    /// The rules that [`LiveRules::save`] wrote down, in force again with their debts. Returns what
    /// they begin without, too. A [reload](Self::reload_forgetting) then puts the file of today in
    /// force.
    ///
    /// **Guarantee** and **cost** are those of [`LiveRules::restore`].
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{PlainRequest, Scratch};
    /// use tollgate_rules_file::{LiveFile, Memory};
    ///
    /// let text = "version = 1\nrule = [{ name = 'all', key = 'everyone', limits = '5/h' }]";
    /// let source = Memory::new("rules.toml", text);
    /// let file = LiveFile::open("rules.toml", &source, ManualClock::new())?;
    /// let _ = file.live().handle().check(&PlainRequest::default(), &mut Scratch::default());
    /// let mut saved = Vec::new();
    /// assert_eq!(file.live().save(&mut saved)?, 1);
    ///
    /// // The next process.
    /// let (file, forgotten) = LiveFile::restore(&saved[..], ManualClock::new())?;
    /// assert!(forgotten.is_empty());
    /// let (mut handle, mut scratch) = (file.live().handle(), Scratch::default());
    /// assert_eq!(handle.check(&PlainRequest::default(), &mut scratch).lines()[0].remaining, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(input: impl Read, clock: C) -> Result<(Self, Vec<NotRestored>), RestoreError> {
        let (live, forgotten) = LiveRules::restore(input, clock, text::rules)?;
        Ok((live.into(), forgotten))
    }

    /// [`restore`](Self::restore) from a file of [several](tollgate::saved).
    ///
    /// # Errors
    ///
    /// As `restore`. The file cannot be read on.
    pub fn restore_from(
        input: &mut Reader<impl Read>,
        clock: C,
    ) -> Result<(Self, Vec<NotRestored>), RestoreError> {
        let (live, forgotten) = LiveRules::restore_from(input, clock, text::rules)?;
        Ok((live.into(), forgotten))
    }

    /// The rules in force.
    #[must_use]
    pub fn live(&self) -> &LiveRules<C> {
        &self.live
    }

    /// Why the last reload failed; `None` if it did not.
    #[must_use]
    pub fn last_error(&self) -> Option<Arc<ReloadError>> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The warnings of the files in force; none for rules that were not read from files.
    ///
    /// **Cost.** Reads the files again, from memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules_file::{Code, LiveFile, Memory};
    ///
    /// let rule = "rule = [{ name = 'a', key = 'client', limits = '5/s', mode = 'off' }]";
    /// let source = Memory::new("rules.toml", format!("version = 1\n{rule}"));
    /// let file = LiveFile::open("rules.toml", &source, ManualClock::new())?;
    /// assert_eq!(file.warnings()[0].code, Code::W2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let reading = self.live.text().and_then(|text| text::reading(&text).ok());
        let problems = reading.map_or_else(Vec::new, |reading| reading.problems);
        problems.into_iter().filter(Problem::is_warning).collect()
    }

    /// Reads a rules file and puts its rules in force, if its hash is another, and after its tests
    /// have passed. Returns the generation that is in force then.
    ///
    /// # Errors
    ///
    /// [`ReloadError`]: of the file and its tests, and those of [`LiveRules::exchange`]. The old
    /// rules stay in force then, and [`last_error`](Self::last_error) tells it.
    pub fn reload(&self, path: impl AsRef<Path>, source: &dyn Source) -> Result<u64, ReloadError> {
        self.reload_reading(read(path, source))
    }

    /// [`reload`](Self::reload) of a file that was read.
    fn reload_reading(&self, reading: Reading) -> Result<u64, ReloadError> {
        self.noted(|| {
            let status = self.live.status();
            if reading.rules().is_some() && reading.hash() == status.hash {
                return Ok(status.generation);
            }
            let (rules, origin) = tried(reading)?;
            Ok(self.live.exchange(rules, origin)?)
        })
    }

    /// [`reload`](Self::reload) by which the rules of these names may forget debts that the change
    /// cannot keep, as if they said `forget = true`. It also reads a file that is in force.
    ///
    /// # Errors
    ///
    /// As [`reload`](Self::reload).
    pub fn reload_forget(
        &self,
        path: impl AsRef<Path>,
        source: &dyn Source,
        forget: &[&str],
    ) -> Result<u64, ReloadError> {
        self.noted(|| {
            let (mut rules, origin) = tried(read(path, source))?;
            for rule in &mut rules.rules {
                rule.forget |= forget.contains(&&*rule.name);
            }
            Ok(self.live.exchange(rules, origin)?)
        })
    }

    /// [`reload`](Self::reload) that forgets what cannot be carried over, as if the rules that it
    /// concerns said `forget = true`: for the start of a process, where to refuse the file would
    /// forget everything.
    ///
    /// # Errors
    ///
    /// As [`reload`](Self::reload), but no [`ExchangeError::Forgets`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{PlainRequest, Scratch};
    /// use tollgate_rules_file::{LiveFile, Memory};
    ///
    /// let source = |limits: &str| {
    ///     let rule = format!("{{ name = 'all', key = 'everyone', limits = '{limits}' }}");
    ///     Memory::new("rules.toml", format!("version = 1\nrule = [{rule}]"))
    /// };
    /// let file = LiveFile::open("rules.toml", &source("5/h"), ManualClock::new())?;
    /// let _ = file.live().handle().check(&PlainRequest::default(), &mut Scratch::default());
    /// let resumed = file.reload_forgetting("rules.toml", &source("sliding-log:5/h"))?;
    /// assert_eq!((&*resumed.forgotten[0].rule, resumed.forgotten[0].keys_in_debt), ("all", 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload_forgetting(
        &self,
        path: impl AsRef<Path>,
        source: &dyn Source,
    ) -> Result<Resumed, ReloadError> {
        let mut forgotten: Vec<Conflict> = Vec::new();
        loop {
            let names: Vec<Box<str>> = forgotten.iter().map(|conflict| conflict.rule.clone()).collect();
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            let done = match &names[..] {
                [] => self.reload(&path, source),
                names => self.reload_forget(&path, source, names),
            };
            match done {
                Ok(generation) => return Ok(Resumed { generation, forgotten }),
                Err(ReloadError::Exchange(ExchangeError::Forgets(conflicts)))
                    if conflicts.iter().any(|conflict| !names.contains(&&*conflict.rule)) =>
                {
                    forgotten.extend(conflicts);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reloads, and notes why that failed.
    fn noted(&self, reload: impl FnOnce() -> Result<u64, ReloadError>) -> Result<u64, ReloadError> {
        let done = reload();
        let error = done.as_ref().err().cloned().map(Arc::new);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        done
    }
}

/// The rules of a file, after its tests have passed, and the file itself.
fn tried(mut reading: Reading) -> Result<(Rules, Origin), ReloadError> {
    let (hash, copy) = (reading.hash(), std::mem::take(&mut reading.copy));
    let path = reading.paths().first().cloned().unwrap_or_default();
    let rules = reading.into_rules().map_err(|reading| ReloadError::File(Box::new(reading)))?;
    let failures = run_tests(&rules);
    if !failures.is_empty() {
        return Err(ReloadError::Tests(failures));
    }
    Ok((rules, Origin { hash, text: text::of(&path, &copy) }))
}

impl<C> From<LiveRules<C>> for LiveFile<C> {
    /// Rules in force, in whose place those of a file may be put.
    fn from(live: LiveRules<C>) -> Self {
        Self { live, last_error: Arc::default() }
    }
}

impl<C> Clone for LiveFile<C> {
    fn clone(&self) -> Self {
        Self { live: self.live.clone(), last_error: Arc::clone(&self.last_error) }
    }
}

impl<C> fmt::Debug for LiveFile<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveFile").field("live", &self.live).finish_non_exhaustive()
    }
}
