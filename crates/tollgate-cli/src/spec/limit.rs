//! A limit of the command line, with the defaults filled in.

use std::fmt;

use tollgate::{
    CountPolicy, FirstHit, FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket,
};

/// An algorithm with its settings, from which a [`Quota`] is made.
///
/// Parsing a text fails with [`BadSpec`](crate::BadSpec), which names the wrong part and the valid
/// choices. Parsing the printed text gives the same value. Building a limiter tells whether the
/// engine accepts it.
///
/// # Examples
///
/// ```
/// use tollgate_cli::Spec;
///
/// let spec: Spec = "token-bucket:60/min".parse()?;
/// assert_eq!(spec.to_string(), "token-bucket:60/min,burst=60");
/// # Ok::<(), tollgate_cli::BadSpec>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spec {
    /// `token-bucket`.
    TokenBucket {
        /// Tokens a period.
        rate: Rate,
        /// The tokens of a full bucket; by default those of a period.
        burst: u64,
        /// The tokens at the first record; by default a burst.
        initial: u64,
        /// Whether the tokens of a period come back at once, at its end.
        intervals: bool,
    },
    /// `fixed-window` with `first-hit`.
    FirstHit(FirstHit),
    /// `leaky-bucket`.
    LeakyBucket {
        /// Units that leak out a period.
        rate: Rate,
        /// How many units the bucket holds.
        capacity: u64,
        /// Whether admitted requests wait for their departure.
        queue: bool,
    },
    /// `fixed-window`.
    FixedWindow {
        /// Requests a window.
        rate: Rate,
        /// Which requests count.
        count: CountPolicy,
    },
    /// `sliding-window`.
    SlidingWindow {
        /// Requests a window.
        rate: Rate,
        /// Into how many the window is divided; without it the estimate of two windows is used.
        subwindows: Option<u32>,
        /// Which requests count.
        count: CountPolicy,
    },
    /// `sliding-log`.
    SlidingLog {
        /// Requests a window.
        rate: Rate,
        /// Which requests count.
        count: CountPolicy,
    },
}

impl Spec {
    /// What the engine enforces.
    #[must_use]
    pub fn quota(self) -> Quota {
        match self {
            Self::TokenBucket { rate, burst, initial, intervals } => {
                let bucket = TokenBucket::new(rate).burst(burst);
                let bucket = if initial == burst { bucket } else { bucket.initial(initial) };
                if intervals { bucket.by_intervals().into() } else { bucket.into() }
            }
            Self::FirstHit(first_hit) => first_hit.into(),
            Self::LeakyBucket { rate, capacity, queue: false } => {
                LeakyBucket::meter(rate).capacity(capacity).into()
            }
            Self::LeakyBucket { rate, capacity, queue: true } => {
                LeakyBucket::queue(rate).capacity(capacity).into()
            }
            Self::FixedWindow { rate, count } => FixedWindow::new(rate).count(count).into(),
            Self::SlidingWindow { rate, subwindows, count } => {
                let window = SlidingWindow::new(rate).count(count);
                subwindows.map_or(window, |k| window.subwindows(k)).into()
            }
            Self::SlidingLog { rate, count } => SlidingLog::new(rate).count(count).into(),
        }
    }
}

impl From<Quota> for Spec {
    fn from(quota: Quota) -> Self {
        let (rate, limit, count) = (quota.rate(), quota.limit(), quota.count_policy());
        match quota {
            Quota::TokenBucket(_) => {
                let (initial, intervals) = (quota.initial().unwrap_or(limit), quota.is_by_intervals());
                Self::TokenBucket { rate, burst: limit, initial, intervals }
            }
            Quota::FirstHit(first_hit) => Self::FirstHit(first_hit),
            Quota::LeakyBucket(_) => Self::LeakyBucket { rate, capacity: limit, queue: quota.is_queue() },
            Quota::FixedWindow(_) => Self::FixedWindow { rate, count },
            Quota::SlidingWindow(_) => Self::SlidingWindow { rate, subwindows: quota.subwindows(), count },
            Quota::SlidingLog(_) => Self::SlidingLog { rate, count },
            // The engine of this workspace has no other.
            other => unreachable!("no limit is written as {other:?}"),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota().fmt(f)
    }
}
