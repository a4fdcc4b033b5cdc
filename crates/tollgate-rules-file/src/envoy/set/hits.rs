//! How many hits a limit had.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The hits that a limit has had since it came into force, counted as envoyproxy/ratelimit counts
/// them: what tells whether the limit is right.
///
/// A limit that stays in a reload keeps them, unless it became a shadow limit, or no longer is one.
///
/// # Examples
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules_file::{EnvoyAnswer, EnvoyCharge, EnvoyConfig, EnvoySet, Memory, SameDomain};
///
/// let limit = "{ unit: day, requests_per_unit: 10 }";
/// let yaml = format!("domain: d\ndescriptors: [{{ key: k, rate_limit: {limit} }}]");
/// let source = Memory::new("d.yaml", yaml);
/// let config = EnvoyConfig::read(&["d.yaml"], SameDomain::Refuse, &source).into_rules().unwrap();
/// let set = EnvoySet::new(config, EnvoyCharge::Each, 1_000, ManualClock::new())?;
/// let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
/// for hits in [9, 3] {
///     handle.decide("d", &[&[("k", "v")][..]], hits, &mut answer)?;
/// }
/// let hits = handle.hits(0);
/// assert_eq!((hits.total, hits.within, hits.over), (12, 9, 2)); // 12 are 2 over the limit
/// assert_eq!(hits.near, 2); // the ninth and the tenth, above 80 % of the limit
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvoyHits {
    /// Those of all calls that asked the limit.
    pub total: u64,
    /// Those of calls that it did not refuse.
    pub within: u64,
    /// Those above the limit: of a shadow limit, those that it would have refused.
    pub over: u64,
    /// Those up to the limit, and above 80 % of it.
    pub near: u64,
}

/// The counters of a limit's hits, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Tally {
    total: AtomicU64,
    within: AtomicU64,
    over: AtomicU64,
    near: AtomicU64,
}

impl Tally {
    /// Counts the hits of a call, whose key had `before` in the window, under a limit of `most`.
    pub(super) fn count(&self, hits: u64, before: u64, most: u32, is_over: bool) {
        let after = before.saturating_add(hits);
        let (most, threshold) = (u64::from(most), near(most));
        let add = |counter: &AtomicU64, hits| {
            counter.fetch_add(hits, Relaxed);
        };
        add(&self.total, hits);
        if is_over {
            // A limit of 0 is over by calls that only look, too.
            add(&self.over, after.saturating_sub(before.max(most)));
        } else {
            add(&self.within, hits);
        }
        let near = after.min(most).saturating_sub(before.max(threshold));
        if near > 0 {
            add(&self.near, near);
        }
    }

    /// Counts hits that the limit refused without a count, since its store did not answer.
    pub(super) fn count_unanswered(&self, hits: u64) {
        self.total.fetch_add(hits, Relaxed);
    }

    /// Counts hits of a call that this limit did not refuse, and was not charged: another limit
    /// refused them, or its store did not answer.
    pub(super) fn count_uncharged(&self, hits: u64) {
        self.total.fetch_add(hits, Relaxed);
        self.within.fetch_add(hits, Relaxed);
    }

    pub(super) fn hits(&self) -> EnvoyHits {
        let [total, within, over, near] =
            [&self.total, &self.within, &self.over, &self.near].map(|counter| counter.load(Relaxed));
        EnvoyHits { total, within, over, near }
    }
}

/// Up to how many hits a window is not near its limit: 80 %, in the arithmetic of
/// envoyproxy/ratelimit.
fn near(most: u32) -> u64 {
    f64::from(most as f32 * 0.8).floor() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of `TestNearLimit` and `TestOverLimit` of envoyproxy/ratelimit, as facts: a limit
    /// of 20, and one of 10 with several hits at once.
    #[test]
    fn hits_are_counted_as_the_reference_counts_them() {
        let counted = |most: u32, calls: &[(u64, u64)]| {
            let tally = Tally::default();
            for &(before, hits) in calls {
                tally.count(hits, before, most, before + hits > most.into());
            }
            let EnvoyHits { total, within, over, near } = tally.hits();
            (total, within, over, near)
        };
        assert_eq!(counted(20, &[(10, 1)]), (1, 1, 0, 0));
        assert_eq!(counted(20, &[(15, 1)]), (1, 1, 0, 0), "16 is the threshold");
        assert_eq!(counted(20, &[(16, 1), (17, 1)]), (2, 2, 0, 2));
        assert_eq!(counted(20, &[(20, 1)]), (1, 0, 1, 0));
        assert_eq!(counted(20, &[(14, 3)]), (3, 3, 0, 1));
        assert_eq!(counted(20, &[(15, 4)]), (4, 4, 0, 3), "of 19 hits three are above 16");
        assert_eq!(counted(20, &[(18, 4)]), (4, 0, 2, 2), "to 22: two over, two near");
        assert_eq!(counted(20, &[(12, 10)]), (10, 0, 2, 4));
        assert_eq!(counted(20, &[(25, 3)]), (3, 0, 3, 0));
        assert_eq!(counted(0, &[(0, 1), (1, 2)]), (3, 0, 3, 0));
        assert_eq!(counted(20, &[(3, 0)]), (0, 0, 0, 0), "it only looks");
    }
}
