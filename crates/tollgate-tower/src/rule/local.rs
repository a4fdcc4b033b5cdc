//! The engine's limiter behind a rule, and what it takes to save and restore it.

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::{BuildError, Builder, Inherit, Limiter, MOST_LIMITS, Quota, RestoreError, WhenFull};

use super::SharedClock;

type Engine = Limiter<[u8], Quota, MOST_LIMITS, SharedClock>;

/// The limits of a rule that this process decides: one or several, all or nothing.
pub(crate) struct LocalLimiter {
    limiter: Engine,
    settings: Box<Settings>,
}

/// What a limiter is built with.
struct Settings {
    /// The current quotas. Locked during a change and during a save, which writes debts by these.
    quotas: Mutex<Vec<Quota>>,
    /// The engine's default if `None`.
    max_keys: Option<usize>,
    when_full: WhenFull,
}

impl LocalLimiter {
    /// Builds the limiter. `max_keys`: the engine's default if `None`.
    pub(crate) fn new(
        quotas: &[Quota],
        max_keys: Option<usize>,
        when_full: WhenFull,
        clock: SharedClock,
    ) -> Result<Self, BuildError> {
        let settings = Settings { quotas: Mutex::new(quotas.to_vec()), max_keys, when_full };
        let limiter = settings.builder(quotas, clock).build()?;
        Ok(Self { limiter, settings: Box::new(settings) })
    }

    /// Makes other quotas current by `change`. Waits for a save.
    pub(crate) fn change(
        &self,
        quotas: &[Quota],
        change: impl FnOnce(&Engine) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let mut current = self.settings.quotas();
        change(&self.limiter)?;
        *current = quotas.to_vec();
        Ok(())
    }

    /// Shows the current quotas to `open`, and writes the debts by them to what it returns. Returns
    /// the number of debts.
    pub(crate) fn save<W: Write>(&self, open: impl FnOnce(&[Quota]) -> io::Result<W>) -> io::Result<usize> {
        let quotas = self.settings.quotas();
        self.limiter.save(open(&quotas)?)
    }

    /// Begins with the debts of a limiter that was saved under these quotas, as debts to the
    /// current ones. Stays as it is if that is an error.
    pub(crate) fn restore(
        &mut self,
        saved: &[Quota],
        input: impl Read,
        clock: SharedClock,
    ) -> Result<(), RestoreError> {
        let limiter = self.settings.builder(saved, clock).restore(input)?;
        let quotas = self.settings.quotas();
        if saved != &**quotas {
            limiter.change().to(quotas.to_vec()).inherit(Inherit::Additive).apply()?;
        }
        drop(quotas);
        self.limiter = limiter;
        Ok(())
    }
}

impl Settings {
    fn builder(
        &self,
        quotas: &[Quota],
        clock: SharedClock,
    ) -> Builder<[u8], Quota, MOST_LIMITS, SharedClock> {
        let builder = Limiter::builder(quotas.to_vec()).per().when_full(self.when_full).clock(clock);
        if let Some(keys) = self.max_keys { builder.max_keys(keys) } else { builder }
    }

    fn quotas(&self) -> MutexGuard<'_, Vec<Quota>> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for LocalLimiter {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.limiter
    }
}

impl fmt::Debug for LocalLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limiter.fmt(f)
    }
}
