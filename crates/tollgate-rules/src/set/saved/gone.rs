//! Rules that are gone and not forgotten yet, for the next process.
//!
//! ```text
//!   texts: u32 | each: what a generation of rules was read from
//!   rules: u32 | each: text: u32 | rule: u32 | name: text | gone at: u64 | sections
//! ```
//!
//! A rule is the one of this number in the text of this number, both from 0. It went at this Unix
//! time, in nanoseconds: so the time between counts for the hour for which it is kept. Rules that
//! were not read from a text are left out.

use std::io::{self, Read, Write};
use std::sync::Arc;

use tollgate::saved::{Reader, Writer};
use tollgate::{Clock, RestoreError, Timestamp};

use super::{restore_sections, save_rule, skip_sections};
use crate::forgotten::{NotRestored, SavedLimits};
use crate::rule::{Rule, Rules};
use crate::set::allowance::Limited;
use crate::set::parked::{Gone, LONGEST, MOST, Parked};

/// The parked rules, and what they are parked without.
type Restored<C> = (Parked<C>, Vec<NotRestored>);

impl<C: Clock + Clone + 'static> Parked<C> {
    /// Writes down the rules with their debts and bans. Returns how many. The quotas must stay
    /// meanwhile.
    pub(crate) fn save(&self, clock: &C, out: &mut Writer<impl Write>) -> io::Result<usize> {
        let mut texts: Vec<&Arc<[u8]>> = Vec::new();
        let mut rules = Vec::new();
        for gone in &self.0 {
            let Some((own, rule)) = &gone.read_from else { continue };
            let number = texts.iter().position(|text| Arc::ptr_eq(text, own)).unwrap_or_else(|| {
                texts.push(own);
                texts.len() - 1
            });
            rules.push((number as u32, *rule, gone));
        }
        out.half(texts.len() as u32)?;
        texts.iter().try_for_each(|text| out.bytes(text))?;
        out.half(rules.len() as u32)?;
        let mut debts = 0;
        for (text, rule, gone) in rules {
            out.half(text)?;
            out.half(rule)?;
            out.bytes(gone.rule.name.as_bytes())?;
            // Before its clock's zero, if it came with the saved state.
            let left = gone.until.saturating_since(clock.now());
            let gone_at = (unix_now(clock) + left.as_nanos()).saturating_sub(LONGEST.as_nanos());
            out.word(u64::try_from(gone_at).unwrap_or(u64::MAX))?;
            debts += save_rule(out, 0, &gone.limited)?;
            out.byte(super::END)?;
        }
        Ok(debts)
    }

    /// Restores the saved rules whose time is not over. `read` makes rules of a text.
    pub(crate) fn restore(
        clock: &C,
        input: &mut Reader<impl Read>,
        read: impl Fn(&[u8]) -> Result<Rules, RestoreError>,
    ) -> Result<Restored<C>, RestoreError> {
        let (mut parked, mut forgotten) = (Self::default(), Vec::new());
        let count = at_most(MOST, input.half()?)?;
        let texts = (0..count).map(|_| input.bytes().map(Arc::from));
        let texts: Vec<Arc<[u8]>> = texts.collect::<Result<_, _>>()?;
        let rules = texts.iter().map(|text| match read(text) {
            Err(RestoreError::Settings(_)) => Ok(None),
            read => read.map(Some),
        });
        let rules = rules.collect::<Result<Vec<_>, _>>()?;
        for _ in 0..at_most(MOST, input.half()?)? {
            let (number, index) = (input.half()? as usize, input.half()?);
            let (text, rules) = texts.get(number).zip(rules.get(number)).ok_or(RestoreError::Corrupt)?;
            let (name, gone_at) = (input.text()?, input.word()?);
            let until = until(clock, gone_at);
            let rule = rules.as_ref().and_then(|rules| rules.rules.get(index as usize));
            let restored = match rule.filter(|rule| *rule.name == *name && until > clock.now()) {
                Some(rule) => Some(restore_rule(rule, clock, input)?),
                None => {
                    skip_sections(input)?;
                    None
                }
            };
            match (restored, rule) {
                (Some((limited, more)), Some(rule)) => {
                    forgotten.extend(more);
                    let read_from = Some((Arc::clone(text), index));
                    parked.0.push(Gone { rule: rule.clone(), limited, until, read_from });
                }
                (None, Some(rule)) if *rule.name == *name => {}
                _ => forgotten.push(NotRestored {
                    rule: name.into(),
                    limits: SavedLimits::Own,
                    // Only another version of the reader reads its text otherwise.
                    error: RestoreError::Differs {
                        field: "the file".into(),
                        saved: "in order".into(),
                        given: "not taken any more".into(),
                    },
                }),
            }
        }
        Ok((parked, forgotten))
    }
}

fn restore_rule<C: Clock + Clone + 'static>(
    rule: &Rule,
    clock: &C,
    input: &mut Reader<impl Read>,
) -> Result<(Limited<C>, Vec<NotRestored>), RestoreError> {
    let limited = Limited::new(rule, clock);
    let mut limited = limited.map_err(|error| RestoreError::Settings(Box::new(error)))?;
    let (rule, state) = (std::slice::from_ref(rule), std::slice::from_mut(&mut limited));
    let forgotten = restore_sections(rule, state, clock, input)?;
    Ok((limited, forgotten))
}

/// Until when a rule is kept that went at this Unix time. If Unix time was set back since, no time
/// has passed.
fn until<C: Clock>(clock: &C, gone_at: u64) -> Timestamp {
    let since = unix_now(clock).saturating_sub(gone_at.into());
    let left = LONGEST.as_nanos().saturating_sub(since);
    clock.now() + std::time::Duration::from_nanos(left as u64)
}

fn unix_now<C: Clock>(clock: &C) -> u128 {
    clock.unix_at_zero().as_nanos() + u128::from(clock.now().as_nanos())
}

fn at_most(most: usize, number: u32) -> Result<u32, RestoreError> {
    if number as usize <= most { Ok(number) } else { Err(RestoreError::Corrupt) }
}
