//! A limiter that begins where a saved one ended.

use std::io::Read;

use crate::algorithm::{Algorithm, Carry, Numbers, Settings};
use crate::clock::Clock;
use crate::key::{Key, KeyHasher};
use crate::limiter::global::NAME;
use crate::limiter::{Builder, GlobalBuilder, GlobalLimiter, Limiter};
use crate::saved::{END, Header, KEY, Kind, Naming, Reader, RestoreError, SHARED, payload, same};
use crate::table::{Debt, Table};
use crate::time::{Reading, Shift, Timestamp, nanos};

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Builder<K, A, C> {
    /// [`build`](Self::build) for a limiter that begins with the debts that [`Limiter::save`] wrote down.
    ///
    /// The quotas must be those of the saved limiter, tier by tier, and the keys of the same type;
    /// [`trusted_keys`](Self::trusted_keys) must be, too. Everything else may differ.
    ///
    /// **Guarantee.** Each key is answered as the saved limiter would answer it at the same Unix time, to within one
    /// [grain](crate::Resolution::grains), and nobody is forgiven anything, as long as the
    /// [clocks' Unix time](Clock::unix_now) is right at the save and now: the time between counts as passed. If Unix time has
    /// been set back in between, none counts: debts are as far away as they were at the save, and no further. Windows stay
    /// aligned to Unix time; if it was corrected by more than an eighth of a window, they end up to one window later.
    ///
    /// In a table of fewer buckets, keys that do not fit go the way of [`WhenFull::Share`](crate::WhenFull::Share): the
    /// keys without a slot owe together what the largest of them does. A table of as many buckets or more has room for
    /// all.
    ///
    /// **Cost.** Reads the input to the end of what was saved, and no further, in pieces of up to 64 KiB. What it
    /// reserves is what `build` does and one such piece, whatever the input says.
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built: the input is no saved limiter, is damaged or ends too soon, was saved under
    /// other settings, or needs more room.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, RestoreError, TokenBucket};
    ///
    /// let mut file = Vec::new();
    /// Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(5))).build()?.save(&mut file)?;
    ///
    /// let error = Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(6))).restore(&file[..]).unwrap_err();
    /// assert!(matches!(error, RestoreError::Differs { .. }));
    /// assert_eq!(error.to_string(), "rate.count is 6, but was 5 when the limiter was saved");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(self, input: impl Read) -> Result<Limiter<K, A, C>, RestoreError> {
        let mut input = Reader::begin(input)?;
        let header = Header::read(&mut input)?;
        let settings: Vec<Settings> = self.tiers.iter().map(Algorithm::settings).collect();
        header.is_of(Kind::Keyed, &settings)?;
        let identity = identity(&header, self.space.trusted_keys)?;
        let (quotas, max_keys) = (self.tiers.clone(), self.space.max_keys);
        let mut limiter = self.build_as(identity)?;
        let (shift, now) = shift(&header, &limiter.clock);
        let saved = saved_rules(&header, &quotas)?;
        let Some(first) = saved.first() else { return Err(RestoreError::Corrupt) };
        limiter.versions.resume(&saved, shift);
        let rule = &limiter.versions.current().default.rule;
        let past = Past { header: &header, shift, now, max_keys };
        let room = past.enter(&mut input, &limiter.table, rule, first)?;
        input.finish()?;
        room.map(|()| limiter)
    }
}

impl<A: Algorithm, C: Clock> GlobalBuilder<A, C> {
    /// [`build`](Self::build) for a limiter that begins with what [`GlobalLimiter::save`] wrote down: see
    /// [`Builder::restore`].
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built.
    pub fn restore(self, input: impl Read) -> Result<GlobalLimiter<A, C>, RestoreError> {
        let mut input = Reader::begin(input)?;
        let header = Header::read(&mut input)?;
        header.is_of(Kind::Global, &[self.quota.settings()])?;
        let quota = self.quota;
        let mut limiter = self.build()?;
        let (shift, _) = shift(&header, &limiter.clock);
        let saved = saved_rules(&header, &[quota])?;
        limiter.versions.resume(&saved, shift);
        let Some(saved) = saved.first() else { return Err(RestoreError::Corrupt) };
        let rule = &limiter.versions.current().default.rule;
        records(&mut input, rule, saved, shift, |debt| {
            if let Debt::Key { payload, times, .. } = debt {
                limiter.slot.enter(NAME, rule.log(payload, limiter.ring(), times));
            }
        })?;
        input.finish()?;
        Ok(limiter)
    }
}

/// The identity by which the saved keys are named, if it names them here.
pub(super) fn identity(header: &Header, trusted_keys: bool) -> Result<KeyHasher, RestoreError> {
    let Naming { secret, fingerprint, buckets } = &header.naming;
    same("trusted_keys", secret.trusted, trusted_keys)?;
    let identity = KeyHasher::new(secret.clone());
    if *fingerprint != identity.sample() {
        // Not the two numbers: they are made of the secret.
        same("the hash of keys", "another build's", "this build's")?;
    }
    if buckets.is_power_of_two() { Ok(identity) } else { Err(RestoreError::Corrupt) }
}

/// How much later the new clock reads than the saved one did, and what it reads. The Unix time first: if the thread is
/// held up in between, debts last longer.
pub(super) fn shift(header: &Header, clock: &impl Clock) -> (Shift, Timestamp) {
    let unix = nanos(clock.unix_now());
    let now = clock.now();
    (Shift::between(header.reading, Reading { at: now.as_nanos(), unix }), now)
}

/// From where, and to where, keys are carried.
pub(super) struct Past<'h> {
    pub(super) header: &'h Header,
    pub(super) shift: Shift,
    pub(super) now: Timestamp,
    pub(super) max_keys: usize,
}

impl Past<'_> {
    /// Enters what the keys of one table owe; `saved` is the rule that wrote it down. Within: whether there was room, which
    /// counts once the whole input has been found right.
    pub(super) fn enter<R: Numbers>(
        &self,
        input: &mut Reader<impl Read>,
        table: &Table,
        rule: &R,
        saved: &R,
    ) -> Result<Result<(), RestoreError>, RestoreError> {
        let Self { header, shift, now, max_keys } = *self;
        let at = rule.moment(now);
        let (mut has_room, mut found) = (true, 0_u64);
        let keys = records(input, rule, saved, shift, |debt| {
            let (Debt::Key { payload, .. } | Debt::Shared { payload, .. }) = debt;
            if rule.expired(payload, at) {
                return;
            }
            found += u64::from(matches!(debt, Debt::Key { .. }));
            has_room &= table.enter(rule, at, debt);
        })?;
        let has_shrunk = (table.buckets() as u64) < header.naming.buckets;
        let is_full = !has_room || has_shrunk && found > max_keys as u64;
        Ok(if is_full { Err(RestoreError::NoRoom { keys, max_keys }) } else { Ok(()) })
    }
}

/// The rules as the saved limiter had them, on its clock.
pub(super) fn saved_rules<A: Algorithm>(header: &Header, quotas: &[A]) -> Result<Vec<A::Rule>, RestoreError> {
    let rules = A::compile(quotas, header.unix_at_zero)?;
    Ok(rules.into_iter().zip(header.origins()).map(|(rule, origin)| rule.with_origin(origin)).collect())
}

/// Hands every debt that has not run out to `each`, as this clock tells it, and returns how many keys were saved.
fn records<R: Numbers>(
    input: &mut Reader<impl Read>,
    rule: &R,
    saved: &R,
    shift: Shift,
    mut each: impl FnMut(Debt<'_>),
) -> Result<u64, RestoreError> {
    let mut times = Vec::new();
    let mut keys = 0;
    loop {
        match input.byte()? {
            KEY => {
                let (name, payload) = (input.word()?, payload(input.word()?)?);
                times.clear();
                let len = input.half()?;
                if u64::from(len) > rule.ring_len() {
                    return Err(RestoreError::Corrupt);
                }
                for _ in 0..len {
                    times.extend(rule.carry_time(input.word()?, saved, shift));
                }
                keys += 1;
                let payload = rule.carry(payload, saved, shift);
                rule.stretch(payload);
                if payload > 0 {
                    each(Debt::Key { name, payload, times: &times });
                }
            }
            SHARED => {
                let (ending, payload) = (input.word()?, payload(input.word()?)?);
                let payload = rule.carry(payload, saved, shift);
                if ending == 0 {
                    return Err(RestoreError::Corrupt);
                }
                rule.stretch(payload);
                if payload > 0 {
                    each(Debt::Shared { ending, payload });
                }
            }
            END if input.word()? == keys => return Ok(keys),
            _ => return Err(RestoreError::Corrupt),
        }
    }
}
