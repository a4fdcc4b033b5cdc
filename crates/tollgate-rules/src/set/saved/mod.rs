//! The debts and bans of rules, for the next process.
//!
//! ```text
//!   section:  LIMITS | rule: u32 | tier: u32 | quotas | limiter
//!             BANS   | rule: u32             | limiter
//!             END
//!   quotas:   count: u32 | each: text
//!   limiter:  length: u32, so many bytes | length: u32, so many bytes | ... | 0: u32
//! ```
//!
//! A tag is a byte. Rules and tiers are numbered as in the rules that are saved with them, from 0;
//! tier 0 is the rule's own limits. A text is its length, a u32, and its bytes. All numbers are
//! little-endian. A limiter is what the engine saves of it. Rules that are gone follow: see `gone`.

mod gone;

use std::io::{self, Read, Write};
use std::sync::Arc;

use tollgate::{Clock, Inherit, Limiter, MOST_LIMITS, Quota};

use crate::rule::Rule;
use crate::saved::{
    NotRestored, PieceReader, PieceWriter, RestoreError, SavedLimits, read_array, read_number, read_text,
    write_bytes,
};
use crate::set::RuleSet;
use crate::set::allowance::{self, Allowance, Current, Kind, Limited, Shared, max_keys};
use crate::set::ban::Bans;

// The tags of sections, and of the end.
const END: u8 = 0;
const LIMITS: u8 = 1;
const BANS: u8 = 2;

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// Writes down all debts to limits by time, and all bans. Returns how many. The quotas must
    /// stay meanwhile.
    pub(crate) fn save(&self, out: &mut impl Write) -> io::Result<usize> {
        let mut debts = 0;
        for (rule, limited) in (0_u32..).zip(&self.limited) {
            debts += save_rule(out, rule, limited)?;
        }
        out.write_all(&[END])?;
        Ok(debts)
    }

    /// Restores the saved state of the same rules. Returns the parts that are forgotten.
    pub(crate) fn restore(&mut self, input: &mut impl Read) -> Result<Vec<NotRestored>, RestoreError> {
        let Self { rules, limited, clock, .. } = self;
        let forgotten = restore_sections(&rules.rules, limited, clock, input)?;
        allowance::rank(limited);
        Ok(forgotten)
    }
}

/// Writes the sections of one rule. Returns how many debts and bans they hold.
fn save_rule<C: Clock + Clone + 'static>(
    out: &mut impl Write,
    rule: u32,
    limited: &Limited<C>,
) -> io::Result<usize> {
    let mut debts = 0;
    for (tier, allowance) in (0_u32..).zip(&limited.allowances) {
        let Some(current) = &allowance.quotas else { continue };
        out.write_all(&[LIMITS])?;
        out.write_all(&rule.to_le_bytes())?;
        out.write_all(&tier.to_le_bytes())?;
        out.write_all(&(current.quotas.len() as u32).to_le_bytes())?;
        for quota in &current.quotas {
            write_bytes(out, quota.to_string().as_bytes())?;
        }
        let mut pieces = PieceWriter::new(out);
        debts += current.shared.limiter.save(&mut pieces)?;
        pieces.end()?;
    }
    if let Some(bans) = &limited.bans {
        out.write_all(&[BANS])?;
        out.write_all(&rule.to_le_bytes())?;
        let mut pieces = PieceWriter::new(out);
        debts += bans.save(&mut pieces)?;
        pieces.end()?;
    }
    Ok(debts)
}

/// Restores the sections of these rules. Returns the parts that are forgotten.
fn restore_sections<C: Clock + Clone + 'static>(
    rules: &[Rule],
    limited: &mut [Limited<C>],
    clock: &C,
    input: &mut impl Read,
) -> Result<Vec<NotRestored>, RestoreError> {
    let mut forgotten = Vec::new();
    loop {
        let [tag] = read_array(input)?;
        if tag == END {
            return Ok(forgotten);
        }
        let number = read_number(input)? as usize;
        let rule = rules.get(number).ok_or(RestoreError::Corrupt)?;
        let limited = limited.get_mut(number).ok_or(RestoreError::Corrupt)?;
        let limits = match tag {
            LIMITS => match read_number(input)? {
                0 => SavedLimits::Own,
                tier => {
                    let tier = rule.tiers.get(tier as usize - 1).ok_or(RestoreError::Corrupt)?;
                    SavedLimits::Tier(tier.name.clone())
                }
            },
            BANS => SavedLimits::Bans,
            _ => return Err(RestoreError::Corrupt),
        };
        let restored = if tag == BANS {
            let mut pieces = PieceReader::new(input);
            let keys = max_keys(rule);
            let bans = Bans::restore(limited.ban_length, keys, clock.clone(), &mut pieces);
            pieces.end()?;
            bans.map(|bans| {
                limited.bans = limited.bans.is_some().then(|| Arc::new(bans));
            })
        } else {
            let quotas = quotas(input)?;
            let tier = rule.tiers.iter().position(|tier| limits == SavedLimits::Tier(tier.name.clone()));
            let allowance = &mut limited.allowances[tier.map_or(0, |tier| tier + 1)];
            let mut pieces = PieceReader::new(input);
            let restored = limiter(rule, &quotas, clock, &mut pieces);
            pieces.end()?;
            restored.and_then(|limiter| allowance.resume(limiter, quotas))
        };
        if let Err(error) = restored {
            forgotten.push(NotRestored::of(rule.name.clone(), limits, error)?);
        }
    }
}

/// The quotas of a section.
fn quotas(input: &mut impl Read) -> Result<Box<[Quota]>, RestoreError> {
    let mut quotas = Vec::new();
    for _ in 0..read_number(input)? {
        quotas.push(read_text(input)?.parse().map_err(|_| RestoreError::Corrupt)?);
    }
    Ok(quotas.into())
}

fn limiter<C: Clock + Clone + 'static>(
    rule: &Rule,
    quotas: &[Quota],
    clock: &C,
    input: impl Read,
) -> Result<Limiter<[u8], Quota, MOST_LIMITS, C>, tollgate::RestoreError> {
    let builder = Limiter::builder(quotas.to_vec()).per().clock(clock.clone());
    let builder = if let Some(keys) = max_keys(rule) { builder.max_keys(keys) } else { builder };
    builder.memory_budget(usize::MAX).restore(input)
}

impl<C: Clock + Clone + 'static> Allowance<C> {
    /// Takes a restored limiter in place of the one that was built. Where the rule has no limits at
    /// present, the limiter is kept for the time when they come back.
    fn resume(
        &mut self,
        limiter: Limiter<[u8], Quota, MOST_LIMITS, C>,
        saved: Box<[Quota]>,
    ) -> Result<(), tollgate::RestoreError> {
        let quotas = match &self.quotas {
            Some(current) if self.kind == Kind::Each => current.quotas.clone(),
            _ => saved.clone(),
        };
        if quotas != saved {
            limiter.change().to(quotas.to_vec()).inherit(Inherit::Additive).apply()?;
        }
        let shared = Shared { limiter, built: saved };
        self.quotas = Some(Current::new(Arc::new(shared), quotas));
        Ok(())
    }
}
