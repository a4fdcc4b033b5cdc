//! The engine's limiter behind a rule, and what it takes to restore it.

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::saved::{Reader, Writer};
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
    quotas: Vec<Quota>,
    /// Locked during a change and during a save.
    alone: Mutex<()>,
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
        let settings = Settings { quotas: quotas.to_vec(), alone: Mutex::default(), max_keys, when_full };
        let limiter = settings.builder(clock).build()?;
        Ok(Self { limiter, settings: Box::new(settings) })
    }

    /// Changes the quotas. Waits for a save before `change` begins, and not in it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&Engine) -> T) -> T {
        let _alone = self.alone();
        change(&self.limiter)
    }

    /// Writes the debts down. Returns how many there are.
    pub(crate) fn save(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        let _alone = self.alone();
        self.limiter.save_in(out)
    }

    fn alone(&self) -> MutexGuard<'_, ()> {
        self.settings.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with the debts of a limiter that was saved, as debts to the quotas that this one was
    /// built with. Stays as it is if that is an error.
    pub(crate) fn restore(
        &mut self,
        input: &mut Reader<impl Read>,
        clock: SharedClock,
    ) -> Result<(), RestoreError> {
        self.limiter = self.settings.builder(clock).restore_changed_from(input, Inherit::Additive)?;
        Ok(())
    }
}

impl Settings {
    fn builder(&self, clock: SharedClock) -> Builder<[u8], Quota, MOST_LIMITS, SharedClock> {
        let builder = Limiter::builder(self.quotas.clone()).per().when_full(self.when_full).clock(clock);
        if let Some(keys) = self.max_keys { builder.max_keys(keys) } else { builder }
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
