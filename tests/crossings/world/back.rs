//! What comes back, of receipts and of leases.

use tollgate_testing::limits::Kind;

use super::{State, Taken, World};
use crate::judge::Lease;

/// Takes up to so many units off these, and says how many it did not find.
pub(super) fn take<'a>(units: u64, off: impl Iterator<Item = &'a mut u64>) -> u64 {
    off.fold(units, |left, units| {
        let taken = left.min(*units);
        *units -= taken;
        left - taken
    })
}

/// The units of these, the newest first, which would count for longest.
pub(super) fn newest(acts: &mut [(usize, u64, u64)]) -> impl Iterator<Item = &mut u64> {
    acts.iter_mut().rev().map(|act| &mut act.2)
}

impl World {
    /// Whether these units can still come back.
    pub(super) fn is_good(&self, taken: &Taken) -> bool {
        let charged_since = |(slot, _): (usize, usize)| match self.states[taken.key][slot] {
            State::Bucket { version, .. } | State::Fixed { version, .. } => version > taken.version,
            State::Acts(_) => false,
        };
        taken.restores == self.restores
            && taken.resets == self.resets[self.limiter(taken.tier)][taken.key]
            // One limit that is charged anew is enough for nothing to come back of it; others may.
            && !(self.charged_by(taken).into_iter().all(charged_since))
    }

    /// Lowers the debt by at most `most` units and by at least `least`.
    pub(super) fn lower(&mut self, id: usize, taken: Taken, least: u64, most: u64, at: u64) {
        // At a time before the key's last charge a bucket may get back as much again.
        let is_late = Some(at) < self.charged[self.limiter(taken.tier)][taken.key];
        let most_of_time = if is_late { most + taken.left } else { most };
        // Then time or a credit may have paid what the request took, and others' units come back.
        let is_others = is_late || self.credited[taken.key];
        let versions = self.versions.clone();
        for (slot, rule) in self.charged_by(&taken) {
            let kind = self.limit(rule).kind;
            let is_others = is_others && kind.refills_by_steps();
            let most = if kind == Kind::Intervals { most_of_time } else { most };
            match &mut self.states[taken.key][slot] {
                State::Bucket { version, lo, hi } => {
                    let price = versions[*version].limits[rule].nanos;
                    *lo = lo.saturating_sub(most_of_time * price);
                    if least > 0 {
                        // More than one unit less, since a begun one counts as a whole.
                        *hi = hi.saturating_sub((least - 1) * price).max(*lo);
                    }
                }
                State::Fixed { lo, hi, .. } => {
                    *lo = lo.saturating_sub(most);
                    *hi = hi.saturating_sub(least);
                }
                State::Acts(acts) => {
                    let mine = acts.iter_mut().filter(|act| act.0 == id && !is_others).map(|act| &mut act.2);
                    let left = take(most, mine);
                    // What a credit took of it comes back of others.
                    take(left, newest(acts));
                }
            }
        }
    }

    pub(super) fn back(&mut self, id: usize, units: u64, back: u64, at: u64) -> Result<(), String> {
        let at = self.clamped(at);
        let Some(taken) = self.taken.get(&id).copied() else {
            return if back == 0 { Ok(()) } else { Err(format!("{back} units of nothing came back")) };
        };
        let units = units.min(taken.left);
        let too_late = taken.departs.is_some_and(|departs| at >= departs);
        let may_return = self.is_good(&taken) || taken.is_in_parts;
        if back > units || back > 0 && (too_late || !may_return) {
            return Err(format!(
                "{back} of {units} units came back at {at} of {taken:?}: {}",
                self.shown(taken.key)
            ));
        }
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.left -= units;
        }
        if self.rules.is_roomy && back > self.owed(&taken, at) {
            return Err(format!("{back} units came back of key {}: {}", taken.key, self.shown(taken.key)));
        }
        // A refund tells the least of several limits, and after a change only units that the key
        // still owes.
        let may_be_more = self.is_of_several(&taken) || taken.version + 1 < self.versions.len();
        if back > 0 {
            let most = if may_be_more { units } else { back };
            let least = if self.is_multi_version(taken) || taken.is_in_parts { 0 } else { back };
            self.lower(id, taken, least, most, at);
        } else if may_be_more && may_return {
            self.lower(id, taken, 0, units, at);
        }
        Ok(())
    }

    /// The most units that the key can owe to every limit.
    fn owed(&self, taken: &Taken, at: u64) -> u64 {
        let owed = |(slot, rule)| match self.read(taken.key, slot, rule) {
            State::Bucket { hi, .. } => hi.saturating_sub(at).div_ceil(self.limit(rule).nanos),
            State::Fixed { end, hi, .. } if at < end => hi,
            State::Fixed { .. } => 0,
            State::Acts(_) => u64::MAX,
        };
        self.charged_by(taken).into_iter().map(owed).min().unwrap_or(u64::MAX)
    }

    /// Whether several limits were charged, which give back the least of what each does.
    fn is_of_several(&self, taken: &Taken) -> bool {
        self.charged_by(taken).len() > 1
    }

    /// Whether some limit may have given back nothing because it was charged since.
    pub(super) fn is_multi_version(&self, taken: Taken) -> bool {
        self.is_of_several(&taken) && taken.version + 1 < self.versions.len()
    }

    /// A reset came between the charges of a request: some are forgiven, and the others may still
    /// come back.
    pub(super) fn is_in_parts(&mut self, id: usize, at: u64) {
        let at = self.clamped(at);
        let Some(taken) = self.taken.get_mut(&id) else { return };
        taken.is_in_parts = true;
        let taken = *taken;
        self.lower(id, taken, 0, taken.left, at);
    }

    /// What `taken` holds may have come back, all or in part.
    pub(super) fn may_return(&mut self, id: usize, units: u64, at: u64) {
        let at = self.clamped(at);
        let Some(taken) = self.taken.get(&id).copied() else { return };
        let too_late = taken.departs.is_some_and(|departs| at >= departs);
        if (self.is_good(&taken) || taken.is_in_parts) && !too_late {
            self.lower(id, taken, 0, units.min(taken.left), at);
        }
        self.taken.remove(&id);
    }

    /// What a request was charged that was refused in the end may not have come back.
    pub(super) fn may_stay(&mut self, key: usize, tier: usize, cost: u64, at: u64) {
        let at = self.clamped(at);
        for (slot, rule) in self.met(tier) {
            let limit = self.limit(rule);
            self.states[key][slot] = match self.read(key, slot, rule) {
                State::Bucket { version, lo, hi } => {
                    State::Bucket { version, lo, hi: hi.max(at) + cost * limit.nanos }
                }
                State::Fixed { version, end, lo, hi } => {
                    let (end, lo, hi) =
                        if at < end { (end, lo, hi) } else { (limit.end_of_window(at), 0, 0) };
                    State::Fixed { version, end, lo, hi: (hi + cost).min(limit.most).max(hi) }
                }
                acts => acts,
            };
        }
    }

    /// Whether permits of the lease may be spent.
    fn may_spend(&self, lease: &Lease) -> bool {
        let taken = lease.acquired.and_then(|id| self.taken.get(&id));
        lease.is_fresh
            && taken.is_some_and(|taken| {
                !taken.is_in_parts
                    && taken.restores == self.restores
                    && taken.ended == self.ended[self.limiter(lease.tier)][lease.key]
            })
    }

    /// Here the lease looks whether its permits are good. A reset between this and the charge ends
    /// what the charge acquires, and not what the request spends: as if it had spent that before.
    pub(super) fn lease_returns(&mut self, lease: &Lease, cost: u64, permit: bool) {
        let good = self.may_spend(lease);
        self.looked = Some((good, self.ended[self.limiter(lease.tier)][lease.key]));
        let spends = good && (cost <= lease.held || permit);
        if let Some(id) = lease.acquired.filter(|_| !spends) {
            self.may_return(id, lease.held, lease.at);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "they are an event's")]
    pub(super) fn lease_decides(
        &mut self,
        lease: &Lease,
        id: usize,
        cost: u64,
        after: u64,
        permit: bool,
        allowed: bool,
        judges_refusals: bool,
    ) -> Result<(), String> {
        let (key, tier, at) = (lease.key, lease.tier, lease.at);
        let (good, ended) = self.looked.take().expect("a lease looks first");
        if good && cost <= lease.held {
            if !permit || after + cost != lease.held {
                return Err(format!("a lease held {} and, asked for {cost}, then {after}", lease.held));
            }
            if let Some(taken) = lease.acquired.and_then(|id| self.taken.get_mut(&id)) {
                taken.left = after;
            }
            return Ok(());
        }
        let charged = match (permit, good) {
            // All that was held is spent on the request.
            (true, true) => after + cost - lease.held,
            (true, false) => after + cost,
            (false, _) => cost,
        };
        self.decided(id, key, tier, charged, at, 0, allowed, None, judges_refusals)?;
        if permit && let Some(taken) = self.taken.get_mut(&id) {
            (taken.left, taken.ended) = (after, ended);
        }
        Ok(())
    }
}
