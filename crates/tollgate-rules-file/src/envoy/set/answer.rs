//! What a call is answered.

use std::ops::Range;
use std::time::Duration;

use tollgate::Receipt;

use crate::envoy::limit::EnvoyUnit;
use crate::envoy::set::counter::Seen;

/// Whether a limit has been exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnvoyCode {
    /// It has not.
    Ok,
    /// It has: a hit is to be refused.
    OverLimit,
}

/// What a call is answered for one of its descriptors.
///
/// # Examples
///
/// See [`EnvoySet`](crate::EnvoySet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvoyStatus {
    /// Whether the limit is exceeded. [`Ok`](EnvoyCode::Ok) without a limit, and always where it is
    /// a shadow limit.
    pub code: EnvoyCode,
    /// Whether the limit is exceeded, be it a shadow limit or not.
    pub is_over: bool,
    /// The position in [`EnvoyConfig::limits`](crate::EnvoyConfig::limits) of the limit that was
    /// asked, or that says "unlimited". `None` if there is none, if another descriptor's limit
    /// replaces it, and if the call brought the limit.
    pub limit: Option<usize>,
    /// Requests and unit of the limit that was asked.
    pub current_limit: Option<(u32, EnvoyUnit)>,
    /// The hits that remain in the window: 0 if the limit is exceeded or there is none,
    /// [`u32::MAX`] if it says "unlimited".
    pub remaining: u32,
    /// The time until the window of the limit that was asked ends, in whole nanoseconds. For Envoy,
    /// which ignores parts of a second, round it up.
    pub until_reset: Duration,
    /// Whether the limit's store did not answer, so that no count decided.
    pub is_unavailable: bool,
}

impl EnvoyStatus {
    /// That of a descriptor without a limit.
    pub(super) const FREE: Self = Self {
        code: EnvoyCode::Ok,
        is_over: false,
        limit: None,
        current_limit: None,
        remaining: 0,
        until_reset: Duration::ZERO,
        is_unavailable: false,
    };

    /// That of a limit that was asked.
    pub(super) fn of(limit: &Asked, seen: Seen) -> Self {
        let Seen { count, most, is_over, is_blind: is_unavailable, until_reset } = seen;
        let code = if is_over && !limit.is_shadow { EnvoyCode::OverLimit } else { EnvoyCode::Ok };
        let remaining = u64::from(most).saturating_sub(count);
        let remaining = if is_over { 0 } else { u32::try_from(remaining).unwrap_or(most) };
        let current_limit = Some((limit.most, limit.unit));
        Self { code, is_over, limit: limit.index, current_limit, remaining, until_reset, is_unavailable }
    }
}

/// What a call is answered, and the buffers that it takes.
///
/// Keep one for each thread: once it has grown, calls allocate nothing.
///
/// # Examples
///
/// See [`EnvoySet`](crate::EnvoySet).
#[derive(Debug, Default)]
pub struct EnvoyAnswer {
    pub(super) statuses: Vec<EnvoyStatus>,
    /// The limits to ask, in the order of the descriptors.
    pub(super) asked: Vec<Asked>,
    /// Their keys.
    pub(super) keys: Vec<u8>,
    /// The numbers of the names that are replaced, sorted.
    pub(super) replaced: Vec<usize>,
    /// What can be given back, with the position in `asked`.
    pub(super) receipts: Vec<(usize, Receipt)>,
    /// Whether several limits that can refuse the call are charged all or nothing.
    pub(super) is_together: bool,
    /// Whether they refused it when they were looked at.
    pub(super) is_refused: bool,
}

impl EnvoyAnswer {
    /// One status for each descriptor of the last call, in its order; none if it was an error.
    #[must_use]
    pub fn statuses(&self) -> &[EnvoyStatus] {
        &self.statuses
    }

    /// [`OverLimit`](EnvoyCode::OverLimit) if the limits refuse the call.
    pub(super) fn overall(&self) -> EnvoyCode {
        let is_over = |asked: &Asked| self.statuses[asked.descriptor].code == EnvoyCode::OverLimit;
        if refuse(&self.asked, is_over) { EnvoyCode::OverLimit } else { EnvoyCode::Ok }
    }

    /// Shows a limit with so many hits given back.
    pub(super) fn add_back(&mut self, number: usize, hits: u64) {
        let asked = &self.asked[number];
        let status = &mut self.statuses[asked.descriptor];
        let remaining = u64::from(status.remaining).saturating_add(hits).min(asked.most.into());
        status.remaining = remaining as u32;
    }

    pub(super) fn clear(&mut self) {
        self.statuses.clear();
        self.asked.clear();
        self.keys.clear();
        self.replaced.clear();
        self.receipts.clear();
        (self.is_together, self.is_refused) = (false, false);
    }

    /// Judges the looks at all limits that can refuse the call.
    pub(super) fn judge(&mut self) {
        self.is_refused = refuse(&self.asked, |asked| asked.looked.is_some_and(|seen| seen.is_over));
    }

    /// Whether a limit is charged: of a call that was refused at the looks, those that are over,
    /// and shadow limits.
    pub(super) fn is_charged(&self, asked: &Asked) -> bool {
        !self.is_refused || asked.looked.is_none_or(|seen| seen.is_over)
    }

    /// Whether what a limit was charged is given back if another one refuses the call.
    pub(super) fn may_come_back(&self, asked: &Asked, seen: Seen) -> bool {
        self.is_together && !self.is_refused && !asked.is_shadow && !seen.is_over
    }
}

/// A limit that a descriptor asks.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The descriptor's position.
    pub(super) descriptor: usize,
    /// The number of the limit; `None`: the call brings it.
    pub(super) index: Option<usize>,
    pub(super) most: u32,
    pub(super) unit: EnvoyUnit,
    pub(super) is_shadow: bool,
    /// Whether it refuses only together with the others of this mode.
    pub(super) is_quota: bool,
    /// Where its key stands in `keys`.
    pub(super) key: Range<usize>,
    pub(super) hits: u64,
    /// What the key had before any descriptor was charged, if it was looked at.
    pub(super) looked: Option<Seen>,
    /// Whether its store did not answer the look. It is not asked again.
    pub(super) has_failed: bool,
}

/// Whether limits refuse a call: one is exceeded, or, of those with `quota_mode`, all are.
pub(super) fn refuse(asked: &[Asked], is_over: impl Fn(&Asked) -> bool) -> bool {
    let mut quotas = asked.iter().filter(|asked| asked.is_quota).peekable();
    let all_quotas = quotas.peek().is_some() && quotas.all(&is_over);
    all_quotas || asked.iter().any(|asked| !asked.is_quota && is_over(asked))
}
