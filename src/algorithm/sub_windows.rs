//! The sliding window counter that never exceeds its limit: it counts sub-windows, the oldest one
//! whole.
//!
//! A window as long as `k` sub-windows touches at most `k + 1` of them. When their counts sum to at
//! most the limit, at most the limit passed in the window.

use crate::algorithm::packing::Packing;
use crate::algorithm::windows::Windows;
use crate::algorithm::{CountPolicy, Moment, Payload, Verdict};
use crate::time::Timestamp;

/// Counts sub-windows, the oldest one whole.
#[derive(Clone, Copy, Debug)]
pub struct SubWindowRule {
    pub(crate) windows: Windows,
    pub(crate) packing: Packing,
    pub(crate) limit: u64,
    pub(crate) count: CountPolicy,
    pub(crate) subwindows: u32,
}

impl SubWindowRule {
    pub(crate) fn closed(&self) -> u32 {
        self.subwindows
    }

    pub(crate) fn subwindows(&self) -> Option<u32> {
        Some(self.subwindows)
    }

    fn used(&self, payload: u64) -> u64 {
        let closed: u64 = (1..=self.subwindows).map(|age| self.packing.closed(payload, age)).sum();
        closed + self.packing.current(payload)
    }

    pub(crate) fn decide(&self, payload: u64, at: Moment, cost: u64) -> Verdict {
        let payload = self.packing.rotated(payload, at.tick);
        if self.used(payload) + cost <= self.limit {
            Verdict::Allow(Payload(self.packing.with_current(payload, self.packing.current(payload) + cost)))
        } else {
            self.packing.refuse(self.count, payload, cost)
        }
    }

    pub(crate) fn remaining(&self, payload: u64, at: Moment) -> u64 {
        self.limit.saturating_sub(self.used(self.packing.rotated(payload, at.tick)))
    }

    pub(crate) fn retry_after(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        let payload = self.packing.rotated(payload, self.windows.locate(now).tick);
        let index = self.packing.index.get(payload);
        let passes =
            |later: &u64| self.used(self.packing.rotated(payload, index + later)) + cost <= self.limit;
        let later = (0..=u64::from(self.subwindows)).find(passes).unwrap_or(u64::from(self.subwindows) + 1);
        self.windows.until(index + later, 0, now)
    }
}
