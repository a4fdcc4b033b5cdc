//! The debts and bans of rules, for the next process.
//!
//! ```text
//!   section:  LIMITS | rule: u32 | tier: u32 | quotas | limiter
//!             BANS   | rule: u32             | limiter
//!             END
//!   quotas:   count: u32 | each: text
//! ```
//!
//! A tag is a byte. Rules and tiers are numbered as in the rules that are saved with them, from 0;
//! tier 0 is the rule's own limits. The rest is the form of [`tollgate::saved`]. Rules that are
//! gone follow: see `gone`.

mod gone;

use std::io::{self, Read, Write};
use std::sync::Arc;

use tollgate::saved::{Reader, Writer};
use tollgate::{Clock, Inherit, Limiter, MOST_LIMITS, Quota, RestoreError};

use crate::forgotten::{NotRestored, SavedLimits};
use crate::rule::{Rule, Tier};
use crate::set::RuleSet;
use crate::set::allowance::{self, Allowance, Current, Kind, Limited, Room, Shared, max_keys};
use crate::set::ban::Bans;

// The tags of sections, and of the end.
const END: u8 = 0;
const LIMITS: u8 = 1;
const BANS: u8 = 2;

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// Writes down all debts to limits by time, and all bans. Returns how many. The quotas must
    /// stay meanwhile.
    pub(crate) fn save(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        let mut debts = 0;
        for (rule, limited) in (0_u32..).zip(&self.limited) {
            debts += save_rule(out, rule, limited)?;
        }
        out.byte(END)?;
        Ok(debts)
    }

    /// Restores the saved state of the same rules. Returns the parts that are forgotten.
    pub(crate) fn restore(
        &mut self,
        input: &mut Reader<impl Read>,
    ) -> Result<Vec<NotRestored>, RestoreError> {
        let Self { rules, limited, clock, .. } = self;
        let forgotten = restore_sections(&rules.rules, limited, clock, input)?;
        allowance::rank(limited);
        Ok(forgotten)
    }
}

/// Writes the sections of one rule. Returns how many debts and bans they hold.
fn save_rule<C: Clock + Clone + 'static>(
    out: &mut Writer<impl Write>,
    rule: u32,
    limited: &Limited<C>,
) -> io::Result<usize> {
    let mut debts = 0;
    for (tier, allowance) in (0_u32..).zip(&limited.allowances) {
        let Some(current) = &allowance.quotas else { continue };
        // Debts to quotas that came with requests end with the process.
        let Some(limiter) = current.shared.own() else { continue };
        out.byte(LIMITS)?;
        out.half(rule)?;
        out.half(tier)?;
        out.half(current.quotas.len() as u32)?;
        for quota in &current.quotas {
            out.bytes(quota.to_string().as_bytes())?;
        }
        debts += limiter.save_in(out)?;
    }
    if let Some(bans) = &limited.bans {
        out.byte(BANS)?;
        out.half(rule)?;
        debts += bans.save(out)?;
    }
    Ok(debts)
}

/// Restores the sections of these rules. Returns the parts that are forgotten.
fn restore_sections<C: Clock + Clone + 'static>(
    rules: &[Rule],
    limited: &mut [Limited<C>],
    clock: &C,
    input: &mut Reader<impl Read>,
) -> Result<Vec<NotRestored>, RestoreError> {
    let mut forgotten = Vec::new();
    loop {
        let tag = input.byte()?;
        if tag == END {
            return Ok(forgotten);
        }
        let number = input.half()? as usize;
        let rule = rules.get(number).ok_or(RestoreError::Corrupt)?;
        let limited = limited.get_mut(number).ok_or(RestoreError::Corrupt)?;
        let limits = match tag {
            LIMITS => match input.half()? {
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
            let bans = Bans::restore(limited.ban_length, max_keys(rule), clock.clone(), input);
            bans.map(|bans| {
                limited.bans = limited.bans.is_some().then(|| Arc::new(bans));
            })
        } else {
            let quotas = quotas(input)?;
            let number = rule.tiers.iter().position(|tier| limits == SavedLimits::Tier(tier.name.clone()));
            let allowance = &mut limited.allowances[number.map_or(0, |tier| tier + 1)];
            let tier = number.map(|number| &rule.tiers[number]);
            limiter((rule, tier), &quotas, clock, input).and_then(|limiter| allowance.resume(limiter, quotas))
        };
        if let Err(error) = restored {
            forgotten.push(NotRestored::of(rule.name.clone(), limits, error)?);
        }
    }
}

/// Reads the sections of a rule that is forgotten.
fn skip_sections(input: &mut Reader<impl Read>) -> Result<(), RestoreError> {
    loop {
        match input.byte()? {
            END => return Ok(()),
            LIMITS => {
                let (_rule, _tier) = (input.half()?, input.half()?);
                quotas(input)?;
            }
            BANS => {
                let _rule = input.half()?;
            }
            _ => return Err(RestoreError::Corrupt),
        }
        input.skip_limiter()?;
    }
}

/// The quotas of a section.
fn quotas(input: &mut Reader<impl Read>) -> Result<Box<[Quota]>, RestoreError> {
    let mut quotas = Vec::new();
    for _ in 0..input.half()? {
        quotas.push(input.text()?.parse().map_err(|_| RestoreError::Corrupt)?);
    }
    Ok(quotas.into())
}

fn limiter<C: Clock + Clone + 'static>(
    (rule, tier): (&Rule, Option<&Tier>),
    quotas: &[Quota],
    clock: &C,
    input: &mut Reader<impl Read>,
) -> Result<Limiter<[u8], Quota, MOST_LIMITS, C>, RestoreError> {
    let builder = Limiter::builder(quotas.to_vec()).per().clock(clock.clone());
    Room::of(rule, tier).apply(builder).restore_from(input)
}

impl<C: Clock + Clone + 'static> Allowance<C> {
    /// Takes a restored limiter in place of the one that was built. Where the rule has no limits at
    /// present, the limiter is kept for the time when they come back.
    fn resume(
        &mut self,
        limiter: Limiter<[u8], Quota, MOST_LIMITS, C>,
        saved: Box<[Quota]>,
    ) -> Result<(), RestoreError> {
        let quotas = match &self.quotas {
            Some(current) if self.kind == Kind::Each => current.quotas.clone(),
            _ => saved.clone(),
        };
        if quotas != saved {
            limiter.change().to(quotas.to_vec()).inherit(Inherit::Additive).apply()?;
        }
        let shared = Shared::Own { limiter, built: saved };
        self.quotas = Some(Current::new(Arc::new(shared), quotas));
        Ok(())
    }
}
