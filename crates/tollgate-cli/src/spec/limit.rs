//! A limit as the user described it, with everything that was left out filled in.

use std::fmt;

use tollgate::{Count, FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};

/// An algorithm with its settings: what a [`Quota`] is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spec {
    TokenBucket { rate: Rate, burst: u64, initial: u64 },
    LeakyBucket { rate: Rate, capacity: u64, queue: bool },
    FixedWindow { rate: Rate, count: Count },
    SlidingWindow { rate: Rate, subwindows: Option<u32>, count: Count },
    SlidingLog { rate: Rate, count: Count },
}

impl Spec {
    /// What the engine enforces.
    pub(crate) fn quota(self) -> Quota {
        match self {
            Self::TokenBucket { rate, burst, initial } if initial == burst => {
                TokenBucket::new(rate).burst(burst).into()
            }
            Self::TokenBucket { rate, burst, initial } => {
                TokenBucket::new(rate).burst(burst).initial(initial).into()
            }
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

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota().fmt(f)
    }
}
