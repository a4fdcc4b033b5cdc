//! The counts of a configuration, for the next process.
//!
//! ```text
//!   magic: 8 | version: u32 | counts of each limit | END: u8 | checksum: u64
//!   counts:  LIMIT   | way: length: u32, so many bytes | unit: u8 | limiter, in pieces
//!            BROUGHT |                                   unit: u8 | limiter, in pieces
//! ```
//!
//! A limit is known by its way through the descriptors, as at a reload: the files themselves are
//! not saved. All numbers are little-endian. The checksum is that of all bytes before it.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use tollgate::Clock;

use super::counted::{Counted, ways};
use super::counter::Counter;
use super::{EnvoyCharge, EnvoySet};
use crate::envoy::limit::EnvoyUnit;
use crate::envoy::trie::EnvoyConfig;
use tollgate_rules::saved::{
    PieceReader, PieceWriter, Summed, read_array, read_bytes, read_number, write_bytes,
};
use tollgate_rules::{NotRestored, RestoreError, SavedLimits, SetError};

/// The first bytes. No text file begins so.
const MAGIC: [u8; 8] = *b"\xA7envy\r\n\x1A";

/// The version written, and the only one read.
const VERSION: u32 = 1;

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
        let _no_reload = self.inner.reloading();
        let counted = Arc::clone(&self.inner.current());
        let mut out = Summed::new(out);
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let mut counts = 0;
        for (way, limit) in ways(&counted.config).into_iter().zip(&counted.limits) {
            let Some((way, counter)) = way.zip(limit.counter.as_ref()) else { continue };
            out.write_all(&[LIMIT])?;
            write_bytes(&mut out, &way.path)?;
            counts += save_one(counter, &mut out)?;
        }
        for counter in &*counted.brought {
            out.write_all(&[BROUGHT])?;
            counts += save_one(counter, &mut out)?;
        }
        out.write_all(&[END])?;
        out.finish()?;
        Ok(counts)
    }

    /// [`new`](Self::new) with the counts that [`save`](Self::save) wrote down, of every limit
    /// whose unit, domain, keys and values are the same. Returns what cannot be carried over, too.
    ///
    /// **Guarantee.** A key is answered as the saved limits would answer it at the same Unix time.
    /// The time between counts as passed; if Unix time was set back, none does.
    ///
    /// **Cost.** Reads the input to the end of the saved counts, and no further. Many reads are of
    /// a few bytes: use a [`BufReader`](io::BufReader).
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
        let fail = |error: SetError| RestoreError::Rules(Box::new(error));
        let mut counted = Counted::new(config, None, max_keys, &clock).map_err(fail)?;
        let forgotten = restore(&mut counted, max_keys, input)?;
        Ok((Self::of(counted, charge, max_keys), forgotten))
    }

    /// Reads saved counts to their end, and forgets them: for a process without such files.
    ///
    /// # Errors
    ///
    /// [`RestoreError`]: the input is no saved counts, is damaged, or ends too soon.
    pub fn skip(input: impl Read) -> Result<(), RestoreError> {
        read(input, |_, _, _| Ok(()))
    }
}

fn save_one<C: Clock + Clone + 'static>(counter: &Counter<C>, out: &mut impl Write) -> io::Result<usize> {
    out.write_all(&[counter.unit() as u8])?;
    let mut pieces = PieceWriter::new(out);
    let counts = counter.save(&mut pieces)?;
    pieces.end()?;
    Ok(counts)
}

/// Replaces the counters of limits that were saved.
fn restore<C: Clock + Clone + 'static>(
    counted: &mut Counted<C>,
    max_keys: usize,
    input: impl Read,
) -> Result<Vec<NotRestored>, RestoreError> {
    let Counted { config, limits, brought, clock } = counted;
    let known = ways(config).into_iter().enumerate().filter_map(|(index, way)| Some((index, way?)));
    let known: HashMap<Box<[u8]>, (usize, bool)> =
        known.map(|(index, way)| (way.path, (index, way.has_keys))).collect();
    let mut brought_now: Vec<Option<Counter<C>>> = brought.iter().map(|_| None).collect();
    let mut forgotten = Vec::new();
    read(input, |way, unit, pieces| {
        let (name, keys) = match way {
            None => (format!("limits that calls bring, per {unit}").into(), max_keys),
            Some(way) => {
                let Some(&(index, has_keys)) = known.get(way) else { return Ok(()) };
                let limit = &config.limits()[index];
                // As at a reload: those of another unit mean nothing.
                if limit.unit.is_some_and(|own| own != unit) {
                    return Ok(());
                }
                (limit.composite.clone(), if has_keys { max_keys } else { 1 })
            }
        };
        match Counter::restore(unit, keys, clock, pieces) {
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
        *brought = fresh.map_err(|error| RestoreError::Rules(Box::new(error)))?;
    }
    Ok(forgotten)
}

/// Reads saved counts, and has `take` read those of each limit: `None` for limits that calls bring.
fn read(
    input: impl Read,
    mut take: impl FnMut(Option<&[u8]>, EnvoyUnit, &mut dyn Read) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    let mut input = Summed::new(input);
    let mut magic = Vec::new();
    input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    if !MAGIC.starts_with(&magic) {
        return Err(RestoreError::Foreign);
    }
    let found = read_number(&mut input)?;
    if found != VERSION {
        return Err(RestoreError::Version { found, known: VERSION });
    }
    loop {
        let [tag] = read_array(&mut input)?;
        let way = match tag {
            END => break,
            LIMIT => Some(read_bytes(&mut input)?),
            BROUGHT => None,
            _ => return Err(RestoreError::Corrupt),
        };
        let [unit] = read_array(&mut input)?;
        let unit = *EnvoyUnit::ALL.get(usize::from(unit)).ok_or(RestoreError::Corrupt)?;
        let mut pieces = PieceReader::new(&mut input);
        let taken = take(way.as_deref(), unit, &mut pieces);
        // A problem of the pieces shows to `take` as their end.
        pieces.end()?;
        taken?;
    }
    if input.is_right()? { Ok(()) } else { Err(RestoreError::Corrupt) }
}
