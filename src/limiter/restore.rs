//! A limiter that begins where a saved one ended.

use std::io::Read;

use crate::algorithm::{Algorithm, Carry, Inherit, Payload, Quota, Rule};
use crate::clock::Clock;
use crate::key::KeyHasher;
use crate::limiter::core::{Core, Given, OnDecision, renew};
use crate::limiter::space::Space;
use crate::limiter::version::compile;
use crate::observe::Observer;
use crate::saved::{END, Header, KEY, Naming, Reader, RestoreError, SHARED, Tier, payload, same, skip_debts};
use crate::table::versioned::VersionedRef;
use crate::table::{Debt, Fingerprint, Table};
use crate::time::{Reading, Shift, Timestamp, nanos};

/// How a limiter continues one that was saved under other quotas: what keys inherit, and the saved
/// quota by its text. `None` for one that the limiter's type cannot have.
pub(crate) struct Changed<A> {
    pub(crate) inherit: Inherit,
    pub(crate) quota: fn(&str) -> Option<A>,
}

impl<A: TryFrom<Quota>> Changed<A> {
    pub(crate) fn to(inherit: Inherit) -> Self {
        Self { inherit, quota: |text| A::try_from(text.parse::<Quota>().ok()?).ok() }
    }
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
        input: &mut Reader<impl Read>,
    ) -> Result<Self, RestoreError> {
        let header = Header::read(input)?;
        let texts: Vec<String> = quotas.all.iter().map(A::saved_as).collect();
        let resumed = saved_quotas(&header, quotas, &texts, space.has_keys, changed.as_ref())
            .and_then(|saved| Resumed::new(&saved, &header, space, clock, observer));
        let core = match resumed {
            Ok(resumed) => resumed.enter_debts(&header, input)?,
            Err(error) => {
                skip_debts(input, header.limits)?;
                return Err(error);
            }
        };
        let others = header.tiers.iter().zip(&texts).zip(&quotas.all);
        let others: Vec<Option<A>> =
            others.map(|((tier, text), &quota)| (tier.quota != *text).then_some(quota)).collect();
        if let Some(Changed { inherit, .. }) = changed.filter(|_| others.iter().any(Option::is_some)) {
            core.change(|olds| Ok(core.renewed(olds, renew(&others, inherit))))?;
        }
        Ok(core)
    }
}

/// The quotas of the saved limiter: the given ones, or others if a change of them is told.
fn saved_quotas<A: Algorithm>(
    header: &Header,
    given: &Given<A>,
    texts: &[String],
    has_keys: bool,
    changed: Option<&Changed<A>>,
) -> Result<Given<A>, RestoreError> {
    header.is_of(has_keys, given.limits, given.all.len())?;
    let Err(differs) = header.has_quotas(texts) else { return Ok(given.with(given.all.clone())) };
    let Some(Changed { quota, .. }) = changed else { return Err(differs) };
    let saved: Option<Vec<A>> = header.tiers.iter().map(|tier| quota(&tier.quota)).collect();
    Ok(given.with(saved.ok_or(differs)?))
}

/// A limiter of the saved quotas that has no debts yet.
struct Resumed<A: Algorithm, const N: usize, C> {
    core: Core<A, N, C>,
    /// The rules as the saved limiter had them, in the order of charging.
    saved: Vec<A::Rule>,
    /// How much later the clock reads than that of the saved limiter.
    shift: Shift,
    now: Timestamp,
}

impl<A: Algorithm, const N: usize, C: Clock> Resumed<A, N, C> {
    fn new(
        quotas: &Given<A>,
        header: &Header,
        space: Space,
        clock: impl FnOnce() -> C,
        observer: Observer<OnDecision<N>>,
    ) -> Result<Self, RestoreError> {
        let hasher = hasher(header, space.trusted_keys)?;
        let saved = saved_rules(header, quotas)?;
        let rooms: Vec<u64> = header.tiers.iter().map(|tier| tier.room).collect();
        let mut core = Core::new(quotas, &rooms, space, hasher, clock, observer)?;
        let (shift, now) = shift(header, &core.clock);
        let tiers = saved.chunks(quotas.limits);
        let places = || (0..quotas.limits).map(|place| core.tables.number(place));
        let saved: Vec<A::Rule> = tiers.flat_map(|tier| places().map(|number| tier[number])).collect();
        core.versions.resume(&saved, shift);
        Ok(Self { core, saved, shift, now })
    }

    fn enter_debts(
        self,
        header: &Header,
        input: &mut Reader<impl Read>,
    ) -> Result<Core<A, N, C>, RestoreError> {
        let Self { mut core, saved, shift, now } = self;
        let debts = SavedDebts { header, now, max_keys: core.space.keys() };
        let version = core.versions.current();
        let mut room = Ok(());
        for number in 0..header.limits {
            let place = core.tables.place(number);
            let (versioned, saved) = (version.by_ref(place), &saved[place]);
            let carry = |payload| versioned.pure.carry(payload, saved, shift);
            let carry_time = |when| versioned.pure.carry_time(when, saved, shift);
            let table = &mut core.tables[place];
            room = room.and(debts.restore(input, table, versioned, carry, carry_time)?);
        }
        room.map(|()| core)
    }
}

/// The hasher of the saved keys, if it hashes them here as it did there.
fn hasher(header: &Header, trusted_keys: bool) -> Result<KeyHasher, RestoreError> {
    let Naming { secret, fingerprint, buckets } = &header.naming;
    if !header.has_keys {
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
                Debt::Key { payload, times, .. } if !header.has_keys => {
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
        if !header.has_keys && (keys > 1 || shared) {
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
