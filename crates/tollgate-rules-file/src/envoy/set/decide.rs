//! How a call is decided.

use std::mem::take;

use tollgate::{Clock, Timestamp};

use crate::envoy::limit::EnvoyLimit;
use crate::envoy::set::EnvoyCharge;
use crate::envoy::set::answer::{Asked, EnvoyAnswer, EnvoyCode, EnvoyStatus};
use crate::envoy::set::call::{EnvoyCallError, EnvoyDescriptor};
use crate::envoy::set::counted::Counted;
use crate::envoy::set::counter::{Counter, Seen};
use crate::envoy::trie::append;

impl<C: Clock> Counted<C> {
    /// Decides a call: all descriptors at one time.
    pub(super) fn decide<D: EnvoyDescriptor>(
        &self,
        call: (&str, &[D], u32),
        charge: EnvoyCharge,
        answer: &mut EnvoyAnswer,
    ) -> Result<EnvoyCode, EnvoyCallError> {
        self.begin(call, charge, answer)?;
        self.charge(answer);
        Ok(answer.overall())
    }

    /// Finds the limits of a call. Counts nothing.
    pub(super) fn begin<D: EnvoyDescriptor>(
        &self,
        (domain, descriptors, hits_addend): (&str, &[D], u32),
        charge: EnvoyCharge,
        answer: &mut EnvoyAnswer,
    ) -> Result<(), EnvoyCallError> {
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
        let enforced = answer.asked.iter().filter(|asked| !asked.is_shadow).count();
        // One limit is together with none.
        answer.is_together = charge == EnvoyCharge::Together && enforced > 1;
        Ok(())
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
                let (looked, has_failed) = (None, false);
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
                    has_failed,
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
        let (key, index, looked, has_failed) = (start..keys.len(), Some(index), None, false);
        asked.push(Asked {
            descriptor,
            index,
            most,
            unit,
            is_shadow,
            is_quota,
            key,
            hits,
            looked,
            has_failed,
        });
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
    fn charge(&self, answer: &mut EnvoyAnswer) {
        let now = self.clock.now();
        if answer.is_together {
            self.look(answer, now);
        }
        for number in 0..answer.asked.len() {
            let asked = &answer.asked[number];
            let charged = answer.is_charged(asked).then(|| {
                let key = &answer.keys[asked.key.clone()];
                self.counter(asked).charge(key, asked.hits, asked.most, now)
            });
            let seen = charged.as_ref().map(|(seen, _)| *seen);
            if let Some((seen, receipt)) = charged
                && answer.may_come_back(asked, seen)
            {
                answer.receipts.push((number, receipt));
            }
            self.conclude(answer, number, seen);
        }
        if !answer.receipts.is_empty() && answer.overall() == EnvoyCode::OverLimit {
            self.give_back(answer, now);
        }
    }

    /// Looks at all limits that can refuse the call.
    fn look(&self, answer: &mut EnvoyAnswer, now: Timestamp) {
        let EnvoyAnswer { asked, keys, .. } = answer;
        for asked in asked.iter_mut().filter(|asked| !asked.is_shadow) {
            let seen = self.counter(asked).look(&keys[asked.key.clone()], asked.hits, asked.most, now);
            asked.looked = Some(seen);
        }
        answer.judge();
    }

    /// Writes the status of a limit, and counts its hits. `None`: it was not charged, since the
    /// looks refused the call.
    pub(super) fn conclude(&self, answer: &mut EnvoyAnswer, number: usize, charged: Option<Seen>) {
        let asked = &answer.asked[number];
        let tally = asked.index.map(|index| &*self.limits[index].hits);
        let seen = match (charged, asked.looked) {
            (None, None) => return,
            (None, Some(looked)) => {
                if let Some(tally) = tally {
                    tally.count_uncharged(asked.hits);
                }
                // Not over, so its hits are in the count.
                Seen { count: looked.count.saturating_sub(asked.hits), ..looked }
            }
            (Some(seen), looked) => {
                let is_over = seen.is_over || looked.is_some_and(|looked| looked.is_over);
                match tally {
                    None => {}
                    Some(tally) if seen.is_blind && is_over => tally.count_unanswered(asked.hits),
                    Some(tally) if seen.is_blind => tally.count_uncharged(asked.hits),
                    Some(tally) => {
                        let before = seen.count.saturating_sub(asked.hits);
                        tally.count(asked.hits, before, seen.most, is_over);
                    }
                }
                Seen { is_over, ..seen }
            }
        };
        answer.statuses[asked.descriptor] = EnvoyStatus::of(asked, seen);
    }

    /// Gives back what a call was charged that a limit has refused since it was looked at: another
    /// thread was faster, or two descriptors have the same count.
    #[cold]
    pub(super) fn give_back(&self, answer: &mut EnvoyAnswer, now: Timestamp) {
        let mut receipts = take(&mut answer.receipts);
        for (number, receipt) in receipts.drain(..) {
            let asked = &answer.asked[number];
            let back = self.counter(asked).give_back(receipt, now);
            answer.add_back(number, back);
        }
        answer.receipts = receipts;
    }

    pub(super) fn counter(&self, asked: &Asked) -> &Counter<C> {
        match asked.index {
            Some(index) => self.limits[index].counter.as_deref().expect("a limit with a unit has a counter"),
            None => self.brought(asked.unit),
        }
    }
}
