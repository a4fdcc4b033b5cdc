//! A limiter that begins where a saved one ended.

use std::io::Read;

use crate::algorithm::{Algorithm, Carry, Inherit, Payload, Rule};
use crate::clock::Clock;
use crate::key::KeyHasher;
use crate::limiter::core::{Core, Given, OnDecision, renew};
use crate::limiter::space::Space;
use crate::limiter::version::compile;
use crate::observe::Observer;
use crate::saved::{END, Header, KEY, Kind, Naming, Reader, RestoreError, SHARED, Tier, payload, same};
use crate::table::versioned::VersionedRef;
use crate::table::{Debt, Fingerprint, Table};
use crate::time::{Reading, Shift, Timestamp, nanos};

/// How a limiter continues one that was saved under other quotas: what keys inherit, and the saved
/// quota by its text. `None` for one that the limiter's type cannot have.
pub(crate) struct Changed<A> {
    pub(crate) inherit: Inherit,
    pub(crate) quota: fn(&str) -> Option<A>,
}

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// [`new`](Self::new) for a limiter that begins with the debts that were saved: under the same
    /// quotas, or under others if it is told how.
    pub(crate) fn restore(
        quotas: &Given<A>,
        changed: Option<Changed<A>>,
        space: Space,
        clock: impl FnOnce() -> C,
        observer: Observer<OnDecision<N>>,
        input: impl Read,
    ) -> Result<Self, RestoreError> {
        let mut input = Reader::begin(input)?;
        let header = Header::read(&mut input)?;
        header.is_of(Kind::of(space.has_keys, quotas.limits), quotas.all.len())?;
        let texts: Vec<String> = quotas.all.iter().map(A::saved_as).collect();
        let Err(differs) = header.has_quotas(&texts) else {
            return Self::resume(quotas, &header, space, clock, observer, input);
        };
        let Some(Changed { inherit, quota }) = changed else { return Err(differs) };
        let saved: Option<Vec<A>> = header.tiers.iter().map(|tier| quota(&tier.quota)).collect();
        let saved = quotas.with(saved.ok_or(differs)?);
        let core = Self::resume(&saved, &header, space, clock, observer, input)?;
        let others = header.tiers.iter().zip(&texts).zip(&quotas.all);
        let others: Vec<Option<A>> =
            others.map(|((tier, text), &quota)| (tier.quota != *text).then_some(quota)).collect();
        core.change(|olds| Ok(core.renewed(olds, renew(&others, inherit))))?;
        Ok(core)
    }

    /// Builds the limiter of these quotas, which were saved, and enters its debts.
    fn resume(
        quotas: &Given<A>,
        header: &Header,
        space: Space,
        clock: impl FnOnce() -> C,
        observer: Observer<OnDecision<N>>,
        mut input: Reader<impl Read>,
    ) -> Result<Self, RestoreError> {
        let hasher = hasher(header, space.trusted_keys)?;
        let saved = saved_rules(header, quotas)?;
        let rooms: Vec<u64> = header.tiers.iter().map(|tier| tier.room).collect();
        let mut core = Self::new(quotas, &rooms, space, hasher, clock, observer)?;
        let (shift, now) = shift(header, &core.clock);
        // The rules as the limiter has them, in the order of charging.
        let tiers = saved.chunks(quotas.limits);
        let places = || (0..quotas.limits).map(|place| core.tables.number(place));
        let in_order: Vec<A::Rule> = tiers.flat_map(|tier| places().map(|number| tier[number])).collect();
        core.versions.resume(&in_order, shift);
        let debts = SavedDebts { header, now, max_keys: core.space.keys() };
        let version = core.versions.current();
        let mut room = Ok(());
        for number in 0..quotas.limits {
            let place = core.tables.place(number);
            let (versioned, saved) = (version.by_ref(place), &in_order[place]);
            let carry = |payload| versioned.pure.carry(payload, saved, shift);
            let carry_time = |when| versioned.pure.carry_time(when, saved, shift);
            room =
                room.and(debts.restore(&mut input, &mut core.tables[place], versioned, carry, carry_time)?);
        }
        input.finish()?;
        room.map(|()| core)
    }
}

/// The hasher of the saved keys, if it hashes them here as it did there.
fn hasher(header: &Header, trusted_keys: bool) -> Result<KeyHasher, RestoreError> {
    let Naming { secret, fingerprint, buckets } = &header.naming;
    if !header.has_keys() {
        return Ok(KeyHasher::random(trusted_keys));
    }
    same("trusted_keys", secret.trusted, trusted_keys)?;
    let hasher = KeyHasher::new(secret.clone());
    if *fingerprint != hasher.sample() {
        // Not the two numbers: they are made of the secret.
        same("the hash of keys", "another build's", "this build's")?;
    }
    if buckets.is_power_of_two() { Ok(hasher) } else { Err(RestoreError::Corrupt) }
}

/// How much later the new clock reads than the saved one did, and what it reads. The Unix time
/// first: if the thread is held up in between, debts last longer.
fn shift(header: &Header, clock: &impl Clock) -> (Shift, Timestamp) {
    let unix = nanos(clock.unix_now());
    let now = clock.now();
    (Shift::between(header.reading, Reading { at: now.as_nanos(), unix }), now)
}

/// The debts in a saved limiter, and what the limiter that gets them has room for.
struct SavedDebts<'h> {
    header: &'h Header,
    now: Timestamp,
    max_keys: usize,
}

impl SavedDebts<'_> {
    /// Enters the debts to one limit that have not run out. `carry` and `carry_time` convert a
    /// saved payload, and a time of a log, to this clock. The inner result says whether there was
    /// room: it counts once the whole input has been found right.
    fn restore<R: Rule>(
        &self,
        input: &mut Reader<impl Read>,
        table: &mut Table,
        rule: VersionedRef<'_, R>,
        carry: impl Fn(u64) -> Payload,
        carry_time: impl Fn(u64) -> Option<u64>,
    ) -> Result<Result<(), RestoreError>, RestoreError> {
        let Self { header, now, max_keys } = *self;
        let at = rule.moment_to_read(now);
        let (mut has_room, mut found, mut shared) = (true, 0_u64, false);
        let keys = records(input, rule, carry, carry_time, |debt| {
            let debt = match debt {
                Debt::Key { payload, times, .. } if !header.has_keys() => {
                    Debt::Key { fingerprint: Fingerprint::ONLY, payload, times }
                }
                debt => debt,
            };
            let (Debt::Key { payload, .. } | Debt::Shared { payload, .. }) = debt;
            shared |= matches!(debt, Debt::Shared { .. });
            if rule.expired(payload.stored(), at) {
                return;
            }
            found += u64::from(matches!(debt, Debt::Key { .. }));
            has_room &= debt.restore(table, rule, at);
        })?;
        if !header.has_keys() && (keys > 1 || shared) {
            return Err(RestoreError::Corrupt);
        }
        let has_shrunk = (table.buckets() as u64) < header.naming.buckets;
        let is_full = !has_room || has_shrunk && found > max_keys as u64;
        Ok(if is_full { Err(RestoreError::NoRoom { keys, max_keys }) } else { Ok(()) })
    }
}

/// The rules as the saved limiter had them, on its clock.
fn saved_rules<A: Algorithm>(header: &Header, quotas: &Given<A>) -> Result<Vec<A::Rule>, RestoreError> {
    let rules = compile(quotas.limits, &quotas.all, header.unix_at_zero)?;
    // The words and rings of one table have one room.
    let tiers = || header.tiers.chunks(quotas.limits);
    let is_one = tiers()
        .zip(tiers().skip(1))
        .all(|(one, next)| one.iter().zip(next).all(|(one, next)| one.room == next.room));
    if !is_one {
        return Err(RestoreError::Corrupt);
    }
    let rules = rules.into_iter().zip(&header.tiers);
    let rule = |(rule, tier): (A::Rule, &Tier)| Some(rule.with_room(tier.room)?.with_origin(tier.origin));
    rules.map(rule).collect::<Option<_>>().ok_or(RestoreError::Corrupt)
}

/// Hands every debt to `each`, as this clock tells it, and returns how many keys were saved.
fn records<R: Rule>(
    input: &mut Reader<impl Read>,
    versioned: VersionedRef<'_, R>,
    carry: impl Fn(u64) -> Payload,
    carry_time: impl Fn(u64) -> Option<u64>,
    mut each: impl FnMut(Debt<'_>),
) -> Result<u64, RestoreError> {
    let rule = versioned.pure;
    let (mut times, mut keys) = (Vec::new(), 0);
    // The horizon must cover each debt: a later version's payloads lie above it.
    let covered = |payload| {
        let _ = versioned.lasts_for(payload, rule.after(0));
        payload > Payload::UNSEEN
    };
    loop {
        match input.byte()? {
            KEY => {
                let fingerprint = Fingerprint::from_bits(input.word()?);
                let payload = carry(payload(input.word()?)?);
                times.clear();
                let len = input.half()?;
                if u64::from(len) > rule.ring_len() {
                    return Err(RestoreError::Corrupt);
                }
                for _ in 0..len {
                    times.extend(carry_time(input.word()?));
                }
                keys += 1;
                if covered(payload) {
                    each(Debt::Key { fingerprint, payload, times: &times });
                }
            }
            SHARED => {
                let (ending, payload) = (input.word()?, carry(payload(input.word()?)?));
                if ending == 0 {
                    return Err(RestoreError::Corrupt);
                }
                if covered(payload) {
                    each(Debt::Shared { ending, payload });
                }
            }
            END if input.word()? == keys => return Ok(keys),
            _ => return Err(RestoreError::Corrupt),
        }
    }
}
