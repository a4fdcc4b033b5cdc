//! The counts of a configuration, for the next process.
//!
//! ```text
//!   LIMIT   | way: bytes | unit: u8 | limiter
//!   BROUGHT |              unit: u8 | limiter
//!   END
//! ```
//!
//! A tag is a byte. A limit is known by its way through the descriptors, as at a reload: the files
//! themselves are not saved. The rest is the form of [`tollgate::saved`].

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use tollgate::saved::{Format, Reader, Writer};
use tollgate::{Clock, RestoreError};

use super::counted::{Counted, ways};
use super::counter::Counter;
use super::{EnvoyCharge, EnvoySet};
use crate::envoy::limit::EnvoyUnit;
use crate::envoy::trie::EnvoyConfig;
use tollgate_rules::{NotRestored, SavedLimits, SetError};

const COUNTS: Format = Format { magic: *b"\xA7envy\r\n\x1A", name: "a file of saved counts" };

// The tags of counts, and of the end.
const END: u8 = 0;
const LIMIT: u8 = 1;
const BROUGHT: u8 = 2;

impl<C: Clock + Clone + 'static> EnvoySet<C> {
    /// Writes down the counts of all limits, also of those that calls bring, for
    /// [`restore`](Self::restore) in the next process. Returns how many.
    ///
    /// **The file is a secret**, as that of [`tollgate::Limiter::save`] is.
    ///
    /// **Guarantee.** No hit that was counted before the call is left out, and no call waits for
    /// it. A reload waits.
    ///
    /// # Errors
    ///
    /// Those of `out`. The part that has been written by then is not taken for saved counts.
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        let mut out = Writer::begin(out, COUNTS)?;
        let counts = self.save_in(&mut out)?;
        out.finish()?;
        Ok(counts)
    }

    /// [`save`](Self::save) into a file of [several](tollgate::saved).
    ///
    /// # Errors
    ///
    /// As `save`.
    pub fn save_in(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        let _no_reload = self.inner.reloading();
        let counted = Arc::clone(&self.inner.current());
        let mut counts = 0;
        for (way, limit) in ways(&counted.config).into_iter().zip(&counted.limits) {
            let Some((way, counter)) = way.zip(limit.counter.as_ref()) else { continue };
            out.byte(LIMIT)?;
            out.bytes(&way.path)?;
            counts += save_one(counter, out)?;
        }
        for counter in &*counted.brought {
            out.byte(BROUGHT)?;
            counts += save_one(counter, out)?;
        }
        out.byte(END)?;
        Ok(counts)
    }

    /// [`new`](Self::new) with the counts that [`save`](Self::save) wrote down, of every limit
    /// whose unit, domain, keys and values are the same. Returns what cannot be carried over, too.
    ///
    /// **Guarantee.** A key is answered as the saved limits would answer it at the same Unix time.
    /// The time between counts as passed; if Unix time was set back, none does.
    ///
    /// **Cost.** Reads the input to the end of the saved counts, and no further.
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules_file::{
    ///     EnvoyAnswer, EnvoyCharge, EnvoyConfig, EnvoySet, Memory, SameDomain,
    /// };
    ///
    /// let yaml = "\
    /// domain: d
    /// descriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 5 } }]
    /// ";
    /// let source = Memory::new("d.yaml", yaml);
    /// let read = || EnvoyConfig::read(&["d.yaml"], SameDomain::Refuse, &source);
    /// let config = || read().into_rules().unwrap();
    /// let set = EnvoySet::new(config(), EnvoyCharge::Each, 1_000, ManualClock::new())?;
    /// let mut answer = EnvoyAnswer::default();
    /// set.handle().decide("d", &[&[("k", "v")][..]], 3, &mut answer)?;
    /// let mut saved = Vec::new();
    /// assert_eq!(set.save(&mut saved)?, 1);
    ///
    /// // The next process.
    /// let clock = ManualClock::new();
    /// let restored = EnvoySet::restore(config(), EnvoyCharge::Each, 1_000, clock, &saved[..])?;
    /// let (set, forgotten) = restored;
    /// assert!(forgotten.is_empty());
    /// set.handle().decide("d", &[&[("k", "v")][..]], 1, &mut answer)?;
    /// assert_eq!(answer.statuses()[0].remaining, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(
        config: EnvoyConfig,
        charge: EnvoyCharge,
        max_keys: usize,
        clock: C,
        input: impl Read,
    ) -> Result<(Self, Vec<NotRestored>), RestoreError> {
        let mut input = Reader::begin(input, COUNTS)?;
        let restored = Self::restore_from(config, charge, max_keys, clock, &mut input)?;
        input.finish()?;
        Ok(restored)
    }

    /// [`restore`](Self::restore) from a file of [several](tollgate::saved).
    ///
    /// # Errors
    ///
    /// As `restore`. The file cannot be read on.
    pub fn restore_from(
        config: EnvoyConfig,
        charge: EnvoyCharge,
        max_keys: usize,
        clock: C,
        input: &mut Reader<impl Read>,
    ) -> Result<(Self, Vec<NotRestored>), RestoreError> {
        let fail = |error: SetError| RestoreError::Settings(Box::new(error));
        let mut counted = Counted::new(config, None, max_keys, &clock).map_err(fail)?;
        let forgotten = restore(&mut counted, max_keys, input)?;
        Ok((Self::of(counted, charge, max_keys), forgotten))
    }

    /// Reads over the counts in a file of [several](tollgate::saved): for a process without such
    /// files.
    ///
    /// # Errors
    ///
    /// [`RestoreError`]: the file is damaged.
    pub fn skip(input: &mut Reader<impl Read>) -> Result<(), RestoreError> {
        read(input, |_, _, input| input.skip_limiter())
    }
}

fn save_one<C: Clock + Clone + 'static>(
    counter: &Counter<C>,
    out: &mut Writer<impl Write>,
) -> io::Result<usize> {
    out.byte(counter.unit() as u8)?;
    counter.save(out)
}

/// Replaces the counters of limits that were saved.
fn restore<C: Clock + Clone + 'static>(
    counted: &mut Counted<C>,
    max_keys: usize,
    input: &mut Reader<impl Read>,
) -> Result<Vec<NotRestored>, RestoreError> {
    let Counted { config, limits, brought, clock } = counted;
    let known = ways(config).into_iter().enumerate().filter_map(|(index, way)| Some((index, way?)));
    let known: HashMap<Box<[u8]>, (usize, bool)> =
        known.map(|(index, way)| (way.path, (index, way.has_keys))).collect();
    let mut brought_now: Vec<Option<Counter<C>>> = brought.iter().map(|_| None).collect();
    let mut forgotten = Vec::new();
    read(input, |way, unit, input| {
        let (name, keys) = match way {
            None => (format!("limits that calls bring, per {unit}").into(), max_keys),
            Some(way) => {
                let Some(&(index, has_keys)) = known.get(way) else { return input.skip_limiter() };
                let limit = &config.limits()[index];
                // As at a reload: those of another unit mean nothing.
                if limit.unit.is_some_and(|own| own != unit) {
                    return input.skip_limiter();
                }
                (limit.composite.clone(), if has_keys { max_keys } else { 1 })
            }
        };
        match Counter::restore(unit, keys, clock, input) {
            Ok(counter) => match way.and_then(|way| known.get(way)) {
                Some(&(index, _)) => limits[index].counter = Some(Arc::new(counter)),
                None => brought_now[unit as usize] = Some(counter),
            },
            Err(error) => forgotten.push(NotRestored::of(name, SavedLimits::Counts, error)?),
        }
        Ok(())
    })?;
    if brought_now.iter().any(Option::is_some) {
        let fresh = EnvoyUnit::ALL.into_iter().zip(brought_now).map(|(unit, restored)| match restored {
            Some(counter) => Ok(counter),
            None => super::counted::brought_counter(unit, max_keys, clock),
        });
        let fresh = fresh.collect::<Result<_, SetError>>();
        *brought = fresh.map_err(|error| RestoreError::Settings(Box::new(error)))?;
    }
    Ok(forgotten)
}

/// Reads saved counts, and has `take` read those of each limit: `None` for limits that calls bring.
fn read<R: Read>(
    input: &mut Reader<R>,
    mut take: impl FnMut(Option<&[u8]>, EnvoyUnit, &mut Reader<R>) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    loop {
        let way = match input.byte()? {
            END => return Ok(()),
            LIMIT => Some(input.bytes()?),
            BROUGHT => None,
            _ => return Err(RestoreError::Corrupt),
        };
        let unit = *EnvoyUnit::ALL.get(usize::from(input.byte()?)).ok_or(RestoreError::Corrupt)?;
        take(way.as_deref(), unit, input)?;
    }
}
