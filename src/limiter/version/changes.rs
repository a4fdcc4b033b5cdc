//! The next version: other quotas, or the same ones aligned to another Unix time.

use std::sync::PoisonError;

use super::{NUMBER, Version, Versions, Writer, by_table, compile};
use crate::algorithm::{Algorithm, AnyRule, Inherit, Past, Transition, WithPast};
use crate::clock::Clock;
use crate::error::BuildError;
use crate::sync::MutexGuard;
use crate::table::validity::Validity;

impl<A: Algorithm, const N: usize> Versions<A, N> {
    /// Makes the quotas current that `renew` makes of the old ones, and returns what each tier
    /// inherits.
    pub(crate) fn change(
        &self,
        clock: &impl Clock,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<Vec<Inherit>, BuildError> {
        let mut writer = self.write();
        let (quotas, inherits) = renew(&writer.quotas)?;
        let origin = writer.origin;
        self.follow(&mut writer, clock, quotas, &inherits, origin)?;
        Ok(inherits)
    }

    /// Aligns the windows of the current quotas to `origin`, the Unix time of the clock's zero. All
    /// debts stay.
    pub(crate) fn realign(&self, clock: &impl Clock, origin: u64) -> Result<(), BuildError> {
        let mut writer = self.write();
        if origin == writer.origin {
            return Ok(());
        }
        if self.current().all().any(|(_, by)| by.any.is_aligned()) {
            let (quotas, inherits) = (writer.quotas.clone(), vec![Inherit::Additive; writer.quotas.len()]);
            return self.follow(&mut writer, clock, quotas, &inherits, origin);
        }
        writer.origin = origin;
        Ok(())
    }

    fn write(&self) -> MutexGuard<'_, Writer<A>> {
        // A writer that panicked has changed nothing that is current.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the version of these quotas current that is aligned to `origin`.
    fn follow(
        &self,
        writer: &mut Writer<A>,
        clock: &impl Clock,
        quotas: Vec<A>,
        inherits: &[Inherit],
        origin: u64,
    ) -> Result<(), BuildError> {
        let old = self.current();
        let since = old.end_at(clock)?;
        let validity = old.validity();
        loop {
            // The horizon lies beyond the change: it stops only threads that are late.
            let until = validity.map_or(0, |validity| validity.extend(since - old.since));
            let number = writer.last + 1;
            let change = Transition { inherits, since, until };
            let version = self.following_version(old, &quotas, origin, number, change)?;
            self.put(number, version).ok_or(BuildError::ChangedTooOften)?;
            writer.last = number;
            if validity.and_then(Validity::horizon).is_none_or(|horizon| horizon.seal(until, number, since)) {
                self.announce(number);
                (writer.quotas, writer.origin) = (quotas, origin);
                return Ok(());
            }
            // Another thread raised the horizon: the version built on less never becomes current.
        }
    }

    /// Checks that a [`change`](Self::change) can be made now, and taken back in the next minute.
    /// No thread notices.
    pub(crate) fn check_change(
        &self,
        clock: &impl Clock,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<(), BuildError> {
        const MINUTE: u64 = 60_000_000_000;
        let writer = self.write();
        let (origin, (wanted, inherits)) = (writer.origin, renew(&writer.quotas)?);
        let old = self.current();
        let since = old.end_at(clock)?;
        let until = old.validity().map_or(0, |validity| validity.extend(since - old.since));
        let number = writer.last + 1;
        let change = Transition { inherits: &inherits, since, until };
        let next = self.following_version(old, &wanted, origin, number, change)?;
        let until = next.validity().map_or(0, |validity| validity.extend(MINUTE));
        let inherits = vec![Inherit::Additive; inherits.len()];
        let back = Transition { inherits: &inherits, since: since.saturating_add(MINUTE), until };
        self.following_version(&next, &writer.quotas, origin, number + 1, back).map(drop)
    }

    /// The version of these quotas after `old`.
    fn following_version(
        &self,
        old: &Version<A::Rule, N>,
        quotas: &[A],
        origin: u64,
        number: u64,
        change: Transition<'_>,
    ) -> Result<Version<A::Rule, N>, BuildError> {
        // A limiter that was saved is built again with these quotas.
        compile(old.limits, quotas, origin)?;
        let olds = old.all().map(|(old, by)| (old.pure, (by.any, old.validity.past().cloned())));
        let all: Vec<_> = quotas.iter().copied().zip(olds).zip(change.inherits.iter().copied()).collect();
        let rules = by_table(old.limits, &all, |tiers| {
            let (tiers, inherits): (Vec<_>, Vec<Inherit>) = tiers.into_iter().unzip();
            let (quotas, olds): (Vec<A>, Vec<_>) = tiers.into_iter().unzip();
            let (olds, pasts): (Vec<A::Rule>, Vec<WithPast<AnyRule>>) = olds.into_iter().unzip();
            let change = Transition { inherits: &inherits, ..change };
            let rules = A::recompile(&quotas, origin, &olds, change)?;
            Past::remember(&pasts, &rules, change)
        })?;
        if number > NUMBER.max() {
            return Err(BuildError::ChangedTooOften);
        }
        Ok(Version::new(rules, old.limits, number, change.since))
    }
}
