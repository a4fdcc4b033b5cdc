//! Which rules are replaced by others.

use super::CompileError;
use super::found::Judged;
use super::rule::{Compiled, Replaced};
use crate::rule::Mode;

/// Gives each rule a turn: before those that it replaces.
///
/// # Errors
///
/// [`CompileError::Circle`] if rules replace one another.
pub(super) fn order(rules: &mut [Compiled]) -> Result<(), CompileError> {
    let circle = |rule: &Compiled| Err(CompileError::Circle { rule: rule.name.clone() });
    let mut waits_for = vec![0_u32; rules.len()];
    for rule in rules.iter() {
        let Replaced::Named(named) = &rule.replaces else { continue };
        for &named in named {
            // A rule that replaces all replaces each rule that names it.
            if rules[named as usize].replaces == Replaced::All {
                return circle(rule);
            }
            waits_for[named as usize] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..rules.len()).filter(|&rule| waits_for[rule] == 0).collect();
    let mut turn = 0;
    while let Some(&rule) = ready.get(turn) {
        rules[rule].turn = turn as u32;
        turn += 1;
        if let Replaced::Named(named) = &rules[rule].replaces {
            for &named in named {
                waits_for[named as usize] -= 1;
                if waits_for[named as usize] == 0 {
                    ready.push(named as usize);
                }
            }
        }
    }
    // A rule that is left may be on a circle or behind one: the rules that replace it lead back to
    // it.
    let Some(mut rule) = waits_for.iter().position(|&count| count > 0) else { return Ok(()) };
    let mut replaced_by = vec![None; rules.len()];
    for (number, _) in waits_for.iter().enumerate().filter(|(_, count)| **count > 0) {
        if let Replaced::Named(named) = &rules[number].replaces {
            named.iter().for_each(|&named| replaced_by[named as usize] = Some(number));
        }
    }
    for _ in 0..rules.len() {
        rule = replaced_by[rule].unwrap_or(rule);
    }
    circle(&rules[rule])
}

/// Marks the rules that others replace, among those that concern a request, in the order of their
/// numbers. A rule that is replaced replaces none.
pub(super) fn mark(rules: &[Compiled], judged: &mut [Judged], turns: &mut Vec<u32>) {
    if !judged.iter().any(|judged| judged.replaces) {
        return;
    }
    let rule_of = |judged: &Judged| &rules[judged.concerned.rule];
    // A shadow rule changes nothing for rules in force.
    let may = |by: &Compiled, other: &Compiled| by.mode == Mode::Enforce || other.mode == Mode::Shadow;
    for mode in [Mode::Enforce, Mode::Shadow] {
        let by = judged.iter().find(|judged| {
            let rule = rule_of(judged);
            judged.replaces && rule.replaces == Replaced::All && rule.mode == mode
        });
        let Some(by) = by.map(|judged| judged.concerned.rule) else { continue };
        for other in judged.iter_mut() {
            let rule = rule_of(other);
            if rule.replaces != Replaced::All && may(&rules[by], rule) {
                other.replaced_by = other.replaced_by.or(Some(by as u32));
            }
        }
    }
    turns.clear();
    turns.extend((0..).zip(judged.iter()).filter(|(_, judged)| judged.replaces).map(|(at, _)| at));
    turns.sort_unstable_by_key(|&at| rule_of(&judged[at as usize]).turn);
    for &at in turns.iter() {
        let Judged { concerned, replaced_by, .. } = &judged[at as usize];
        let by = concerned.rule;
        let (None, Replaced::Named(named)) = (replaced_by, &rules[by].replaces) else { continue };
        let replace = |other: &mut Judged| {
            if may(&rules[by], &rules[other.concerned.rule]) {
                other.replaced_by = other.replaced_by.or(Some(by as u32));
            }
        };
        // The shorter of both lists is gone through; both are sorted.
        if named.len() < judged.len() {
            for &named in named {
                if let Ok(at) = judged.binary_search_by_key(&(named as usize), |other| other.concerned.rule) {
                    replace(&mut judged[at]);
                }
            }
        } else {
            let is_named = |rule: usize| named.binary_search(&(rule as u32)).is_ok();
            judged.iter_mut().filter(|other| is_named(other.concerned.rule)).for_each(replace);
        }
    }
}
