//! One limit or several: the engine's two limiters and their decisions, as one.

use std::time::Duration;

use tollgate::{
    BuildError, Decision, Inherit, Limiter, MultiDecision, MultiLimiter, Outcome, Quota, Timestamp, WhenFull,
};

use super::SharedClock;
use crate::headers::LimitState;

#[expect(clippy::large_enum_variant, reason = "a layer has a few, and a check would follow one more pointer")]
pub(crate) enum Engine {
    One(Limiter<[u8], Quota, SharedClock>),
    Several(MultiLimiter<[u8], SharedClock>),
}

/// What they decided.
pub(crate) enum Ruled<'l> {
    One(Decision<'l>),
    Several(MultiDecision<'l>),
}

impl<'l> From<Decision<'l>> for Ruled<'l> {
    #[inline]
    fn from(decision: Decision<'l>) -> Self {
        Self::One(decision)
    }
}

impl<'l> From<MultiDecision<'l>> for Ruled<'l> {
    #[inline]
    fn from(decision: MultiDecision<'l>) -> Self {
        Self::Several(decision)
    }
}

macro_rules! each {
    ($value:expr, $one:ident => $call:expr) => {
        match $value {
            Self::One($one) => $call,
            Self::Several($one) => $call,
        }
    };
}

impl Engine {
    /// `max_keys`: the engine's default if `None`.
    pub(crate) fn new(
        quotas: &[Quota],
        max_keys: Option<usize>,
        when_full: WhenFull,
        clock: SharedClock,
    ) -> Result<Self, BuildError> {
        macro_rules! build {
            ($builder:expr) => {{
                let builder = $builder.when_full(when_full).clock(clock);
                if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder }.build()?
            }};
        }
        Ok(match quotas {
            [quota] => Self::One(build!(Limiter::builder(*quota))),
            several => Self::Several(build!(MultiLimiter::builder(several.iter().copied()))),
        })
    }

    #[inline]
    pub(crate) fn check(&self, key: &[u8], cost: u64) -> Ruled<'_> {
        match self {
            Self::One(limiter) => Ruled::One(limiter.check_n(key, cost)),
            Self::Several(limiter) => Ruled::Several(limiter.check_n(key, cost)),
        }
    }

    /// What [`check`](Self::check) would decide.
    pub(crate) fn peek(&self, key: &[u8], cost: u64) -> Ruled<'_> {
        match self {
            Self::One(limiter) => Ruled::One(limiter.at(limiter.now()).peek_n(key, cost)),
            Self::Several(limiter) => Ruled::Several(limiter.at(limiter.now()).peek_n(key, cost)),
        }
    }

    /// Returns how many units came back.
    pub(crate) fn refund(&self, ruled: Ruled<'_>) -> u64 {
        match (self, ruled) {
            (Self::One(limiter), Ruled::One(decision)) => limiter.refund(decision),
            (Self::Several(limiter), Ruled::Several(decision)) => limiter.refund(decision),
            // A decision of another limiter gives nothing back.
            _ => 0,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        each!(self, limiter => limiter.now())
    }

    /// Makes other quotas current, as many as there are.
    pub(crate) fn reconfigure(&self, quotas: &[Quota], inherit: Inherit) -> Result<(), BuildError> {
        match (self, quotas) {
            (Self::One(limiter), [quota]) => limiter.reconfigure(*quota, inherit),
            (Self::One(_), _) => Err(BuildError::CannotInherit { field: "limits" }),
            (Self::Several(limiter), quotas) => limiter.reconfigure(quotas.iter().copied(), inherit),
        }
    }
}

impl Ruled<'_> {
    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        each!(self, decision => decision.outcome())
    }

    #[inline]
    pub(crate) fn is_allowed(&self) -> bool {
        each!(self, decision => decision.is_allowed())
    }

    pub(crate) fn delay(&self) -> Duration {
        each!(self, decision => decision.delay())
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        each!(self, decision => decision.retry_after())
    }

    /// Returns the time until the queue of the limit with this number is empty.
    pub(crate) fn queue_time(&self, number: usize) -> Duration {
        match self {
            Self::One(decision) => decision.reset_after(),
            Self::Several(decision) => {
                decision.parts().nth(number).map_or(Duration::ZERO, |part| part.reset_after())
            }
        }
    }

    /// Returns the number of the refusing limit with the longest wait.
    pub(crate) fn refused_by(&self) -> Option<usize> {
        match self {
            Self::One(decision) => (!decision.is_allowed()).then_some(0),
            Self::Several(decision) => decision.refused_by(),
        }
    }

    /// Returns a mask with a bit for each limit that refuses, by its number.
    pub(crate) fn refusing(&self) -> u64 {
        let mut bits = 0;
        self.each(|number, refuses, _| bits |= u64::from(refuses) << number);
        bits
    }

    /// Returns the state of one of the limits.
    pub(crate) fn limit_state(&self, number: usize) -> Option<LimitState> {
        let mut found = None;
        self.each(|part, _, numbers| {
            if part == number {
                found = Some(numbers);
            }
        });
        found
    }

    /// Calls `part` with each limit's number, whether it refuses, and its state.
    #[inline]
    pub(crate) fn each(&self, mut part: impl FnMut(usize, bool, LimitState)) {
        macro_rules! numbers {
            ($of:expr) => {{
                let reset = $of.retry_after().unwrap_or_else(|| $of.reset_after());
                LimitState { limit: $of.limit(), remaining: $of.remaining(), reset }
            }};
        }
        match self {
            Self::One(decision) => part(0, !decision.is_allowed(), numbers!(decision)),
            Self::Several(decision) => {
                decision.parts().for_each(|limit| part(limit.number(), limit.refuses(), numbers!(limit)));
            }
        }
    }
}
