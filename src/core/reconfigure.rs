//! Other quotas for a limiter that is running.

use crate::algorithm::Inherit;
use crate::clock::Clock;
use crate::core::{Core, Limits};
use crate::error::BuildError;

impl<L: Limits, C: Clock> Core<L, C> {
    /// Makes the quotas current that `renew` makes of the old ones, with what each inherits.
    pub(crate) fn change(
        &self,
        renew: impl FnOnce(&[L::Quota]) -> Result<(Vec<L::Quota>, Vec<Inherit>), BuildError>,
    ) -> Result<(), BuildError> {
        let inherits = self.versions.change(&self.clock, self.unix_at_zero, renew)?;
        if inherits.contains(&Inherit::Reset) {
            // The new version converts each debt to none, so no word is held. The permits of leases
            // end here.
            let _ = self.versions.count_reset();
        }
        Ok(())
    }

    /// Checks that such a [`change`](Self::change) can be made now, and taken back.
    pub(crate) fn check_change(
        &self,
        renew: impl FnOnce(&[L::Quota]) -> Result<(Vec<L::Quota>, Vec<Inherit>), BuildError>,
    ) -> Result<(), BuildError> {
        self.versions.check_change(&self.clock, self.unix_at_zero, renew)
    }

    /// Makes `quota` that of the first tier. The others keep theirs, and their debts.
    pub(crate) fn change_first(&self, quota: L::Quota, inherit: Inherit) -> Result<(), BuildError> {
        self.change(|quotas| {
            let others = quotas.iter().skip(1);
            let inherits = std::iter::once(inherit).chain(others.clone().map(|_| Inherit::Additive));
            Ok((std::iter::once(quota).chain(others.copied()).collect(), inherits.collect()))
        })
    }
}
