//! Bans: refusals that begin one, and requests whose key is banned.

use tollgate::Timestamp;

use super::evaluation::Evaluation;
use super::refusal::{Refused, refused_by};
use crate::rule::{CheckRequest, LimitSet};

impl<'l> Evaluation<'l, '_> {
    /// Returns when the ban of a key by a rule ends. `None` if the key is not banned at `now`.
    #[inline]
    pub(super) fn banned_until(
        &self,
        rule: usize,
        key: &[u8],
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Timestamp> {
        let ban = self.state.rules[rule].ban.as_ref()?;
        ban.end(key, now())
    }

    /// Refuses a request whose key is banned from `now` until `end`.
    #[inline(never)]
    pub(super) fn refuse_banned(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        request: CheckRequest<'_>,
        (now, end): (Timestamp, Timestamp),
    ) -> bool {
        let left = end.saturating_since(now);
        let decision = limits.limiter.prepare(request.key).at(now).peek_n(request.cost);
        let refused = match refused_by(limits, &decision, request.cost, request.max_wait) {
            None => Refused::by_ban(&decision, request.cost, left),
            Some(mut refused) => {
                if refused.is_for_now() {
                    refused.prolong(left);
                }
                refused
            }
        };
        self.apply_refused(rule, limits, request, &refused, now)
    }

    /// Bans a key that the rule refuses, if the rule has bans and the refusal is one that
    /// [bans](Refused::bans). It then lasts until the ban ends.
    pub(super) fn begin_ban(&self, rule: usize, key: &[u8], refused: &mut Refused, now: Timestamp) {
        if let Some(ban) = &self.state.rules[rule].ban
            && refused.bans()
            && let Some(end) = ban.start(key, now)
        {
            refused.prolong(end.saturating_since(now));
        }
    }
}
