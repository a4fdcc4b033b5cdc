//! How a call is decided.

use std::mem::take;

use tollgate::{Clock, Timestamp};

use crate::envoy::limit::EnvoyLimit;
use crate::envoy::set::EnvoyCharge;
use crate::envoy::set::answer::{Asked, EnvoyAnswer, EnvoyCode, EnvoyStatus, refuse};
use crate::envoy::set::call::{EnvoyCallError, EnvoyDescriptor};
use crate::envoy::set::counted::Counted;
use crate::envoy::set::counter::{Counter, Seen};
use crate::envoy::trie::append;

impl<C: Clock> Counted<C> {
    /// Decides a call: all descriptors at one time.
    pub(super) fn decide<D: EnvoyDescriptor>(
        &self,
        (domain, descriptors, hits_addend): (&str, &[D], u32),
        charge: EnvoyCharge,
        answer: &mut EnvoyAnswer,
    ) -> Result<EnvoyCode, EnvoyCallError> {
        answer.clear();
        if domain.is_empty() {
            return Err(EnvoyCallError::NoDomain);
        }
        if descriptors.is_empty() {
            return Err(EnvoyCallError::NoDescriptors);
        }
        let units = descriptors.iter().map(|descriptor| descriptor.limit());
        if let Some(descriptor) = units.into_iter().position(|limit| matches!(limit, Some((_, None)))) {
            return Err(EnvoyCallError::UnknownUnit { descriptor });
        }
        for descriptor in descriptors {
            self.find(domain, descriptor, hits_addend, answer);
        }
        self.replace(answer);
        self.charge(charge, answer);
        Ok(answer.overall())
    }

    /// Adds a descriptor's status without a charge, and the limit that it asks, if it asks one.
    fn find<D: EnvoyDescriptor>(&self, domain: &str, call: &D, hits_addend: u32, answer: &mut EnvoyAnswer) {
        let EnvoyAnswer { statuses, asked, keys, replaced, .. } = answer;
        let (descriptor, start) = (statuses.len(), keys.len());
        statuses.push(EnvoyStatus::FREE);
        let hits = call.hits_addend().unwrap_or(u64::from(hits_addend).max(1));
        if let Some((most, Some(unit))) = call.limit() {
            if self.config.domains.contains_key(domain) {
                append(keys, domain);
                for (key, value) in call.entries() {
                    append(keys, key);
                    append(keys, value);
                }
                let key = start..keys.len();
                let looked = None;
                asked.push(Asked {
                    descriptor,
                    index: None,
                    most,
                    unit,
                    is_shadow: false,
                    is_quota: false,
                    key,
                    hits,
                    looked,
                });
            }
            return;
        }
        let Some(limit) = self.config.find_after(domain, call.entries(), keys) else {
            keys.truncate(start);
            return;
        };
        let EnvoyLimit { index, requests_per_unit: most, shadow: is_shadow, quota_mode: is_quota, .. } =
            *limit;
        replaced.extend_from_slice(&self.limits[index].replaces);
        let Some(unit) = limit.unit else {
            statuses[descriptor] =
                EnvoyStatus { remaining: u32::MAX, limit: Some(index), ..EnvoyStatus::FREE };
            return;
        };
        let (key, index) = (start..keys.len(), Some(index));
        asked.push(Asked { descriptor, index, most, unit, is_shadow, is_quota, key, hits, looked: None });
    }

    /// Leaves out the limits that another descriptor's limit replaces. One that is replaced
    /// replaces others all the same.
    fn replace(&self, answer: &mut EnvoyAnswer) {
        let EnvoyAnswer { asked, replaced, .. } = answer;
        if replaced.is_empty() {
            return;
        }
        replaced.sort_unstable();
        let name = |asked: &Asked| asked.index.and_then(|index| self.limits[index].name);
        asked.retain(|asked| name(asked).is_none_or(|name| replaced.binary_search(&name).is_err()));
    }

    /// Asks the limits, and counts the hits.
    fn charge(&self, charge: EnvoyCharge, answer: &mut EnvoyAnswer) {
        let now = self.clock.now();
        let enforced = answer.asked.iter().filter(|asked| !asked.is_shadow).count();
        // One limit is together with none.
        let is_together = charge == EnvoyCharge::Together && enforced > 1;
        let is_refused = is_together && self.look(answer, now);
        let EnvoyAnswer { statuses, asked, keys, receipts, .. } = &mut *answer;
        for (number, asked) in asked.iter().enumerate() {
            let counter = self.counter(asked);
            let tally = asked.index.map(|index| &self.limits[index].hits);
            let status = match asked.looked {
                Some(seen) if is_refused && !seen.is_over => {
                    if let Some(tally) = tally {
                        tally.count_uncharged(asked.hits);
                    }
                    // Not over, so its hits are in the count.
                    Seen { count: seen.count.saturating_sub(asked.hits), ..seen }
                }
                looked => {
                    let (seen, receipt) =
                        counter.charge(&keys[asked.key.clone()], asked.hits, asked.most, now);
                    if is_together && !is_refused && !asked.is_shadow && !seen.is_over {
                        receipts.push((number, receipt));
                    }
                    let is_over = seen.is_over || looked.is_some_and(|looked| looked.is_over);
                    if let Some(tally) = tally {
                        tally.count(asked.hits, seen.count.saturating_sub(asked.hits), asked.most, is_over);
                    }
                    Seen { is_over, ..seen }
                }
            };
            statuses[asked.descriptor] = EnvoyStatus::of(asked, status);
        }
        if !answer.receipts.is_empty() && answer.overall() == EnvoyCode::OverLimit {
            self.give_back(answer, now);
        }
    }

    /// Looks at all limits that can refuse the call: whether they do.
    fn look(&self, answer: &mut EnvoyAnswer, now: Timestamp) -> bool {
        let EnvoyAnswer { asked, keys, .. } = answer;
        for asked in asked.iter_mut().filter(|asked| !asked.is_shadow) {
            let seen = self.counter(asked).look(&keys[asked.key.clone()], asked.hits, asked.most, now);
            asked.looked = Some(seen);
        }
        refuse(asked, |asked| asked.looked.is_some_and(|seen| seen.is_over))
    }

    /// Gives back what a call was charged that a limit has refused since it was looked at: another
    /// thread was faster, or two descriptors have the same count.
    #[cold]
    fn give_back(&self, answer: &mut EnvoyAnswer, now: Timestamp) {
        let mut receipts = take(&mut answer.receipts);
        for (number, receipt) in receipts.drain(..) {
            let asked = &answer.asked[number];
            let back = self.counter(asked).give_back(receipt, now);
            let status = &mut answer.statuses[asked.descriptor];
            let remaining = u64::from(status.remaining).saturating_add(back).min(asked.most.into());
            status.remaining = remaining as u32;
        }
        answer.receipts = receipts;
    }

    fn counter(&self, asked: &Asked) -> &Counter<C> {
        match asked.index {
            Some(index) => self.limits[index].counter.as_deref().expect("a limit with a unit has a counter"),
            None => self.brought(asked.unit),
        }
    }
}
