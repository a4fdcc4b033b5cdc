//! Decides the requests of a log by the rules of a file.

use std::time::Duration;

use tollgate::{ManualClock, Timestamp};
use tollgate_logs::Wanted;
use tollgate_rules::{Ask, Concerned, Cost, Found, Replaces, Rules, Ruling, Simulation, Verdict};

use super::clients::Clients;
use super::key_text::key_text;
use super::log::{Logged, RequestLog, Requests};
use super::needs::{Needs, WantedParts};
use crate::failure::Failure;

/// The rules of a file, and what a log can decide of them.
///
/// It decides at the arrivals of the log's requests, with the limiters that a server uses.
pub(crate) struct Judge {
    rules: Rules,
    needs: Vec<Needs>,
    open: Option<Open>,
}

/// The rules that a log decides, and their limiters.
struct Open {
    /// Unix time of the clock's zero: the first record's.
    zero: u64,
    simulation: Simulation,
    /// How many requests were admitted of which it is unknown how they would have ended.
    unknown_ends: u64,
    /// Of each rule of the set, its index in the file.
    in_file: Vec<usize>,
    /// Of each rule of the file, why it is not decided.
    reasons: Vec<Option<String>>,
}

/// What the rules say of a request.
pub(crate) struct Judgement<'j> {
    verdict: &'j Verdict<'j, ManualClock>,
    in_file: &'j [usize],
}

/// A rule that concerns a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'j> {
    /// Its index in the file.
    pub(crate) rule: usize,
    /// Whether it refuses the request, or would if it were enforced.
    pub(crate) refuses: bool,
    pub(crate) is_shadow: bool,
    /// The key under which it counts the request.
    pub(crate) key: &'j [u8],
}

impl<'j> Judgement<'j> {
    pub(crate) fn is_admitted(&self) -> bool {
        self.verdict.is_admitted()
    }

    /// The verdict of the decided rules.
    pub(crate) fn verdict(&self) -> &'j Verdict<'j, ManualClock> {
        self.verdict
    }

    /// The rules that concern the request, by ascending index in the file.
    pub(crate) fn asked(&self) -> impl Iterator<Item = Asked<'j>> {
        let Self { verdict, in_file } = *self;
        verdict.answers().enumerate().map(move |(index, answer)| Asked {
            rule: in_file[answer.rule],
            refuses: answer.ruling != Ruling::Admitted,
            is_shadow: answer.is_shadow,
            key: verdict.key(index).unwrap_or_default(),
        })
    }

    /// The rules that refuse the request.
    pub(crate) fn refusing(&self) -> impl Iterator<Item = Asked<'j>> {
        self.asked().filter(|asked| asked.refuses && !asked.is_shadow)
    }
}

impl Judge {
    /// Rules whose attributes are among `wanted` from now on.
    pub(crate) fn new(rules: Rules, wanted: &mut WantedParts) -> Self {
        let needs = rules.rules.iter().map(|rule| Needs::of(rule, wanted)).collect();
        Self { rules, needs, open: None }
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Of each rule of the file, why it is not decided.
    pub(crate) fn reasons(&self, found: &[bool], wanted: &[Wanted]) -> Vec<Option<String>> {
        self.needs.iter().map(|needs| needs.reason(found, wanted)).collect()
    }

    /// Builds the limiters of the rules that a log can decide, at its first request.
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub(super) fn open(&mut self, requests: &Requests, wanted: &[Wanted]) -> Result<(), Failure> {
        if self.open.is_some() {
            return Ok(());
        }
        let Some(first) = requests.iter().next() else { return Ok(()) };
        let reasons = self.reasons(first.request.parts.found(), wanted);
        let in_file: Vec<usize> = (0..reasons.len()).filter(|&rule| reasons[rule].is_none()).collect();
        let simulation = Simulation::new(only(&self.rules, &in_file), Duration::from_nanos(first.t_ns))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        self.open = Some(Open { zero: first.t_ns, simulation, unknown_ends: 0, in_file, reasons });
        Ok(())
    }

    /// Why a rule is not decided; `None`: it is.
    pub(crate) fn reason(&self, rule: usize) -> Option<&str> {
        self.open.as_ref()?.reasons.get(rule)?.as_deref()
    }

    /// A rule's key as a text.
    pub(crate) fn key_text(&self, rule: usize, key: &[u8], clients: &Clients) -> String {
        key_text(&self.rules.rules[rule], self.rules.clients.ipv6_prefix, key, clients)
    }

    /// When a request is decided, by the clock of the limiters.
    ///
    /// # Panics
    ///
    /// If the judge is not open.
    pub(crate) fn at(&self, logged: &Logged<'_>) -> Timestamp {
        Timestamp::from_nanos(logged.t_ns - self.opened().zero)
    }

    /// Gives every rule that concerns a request to `each`, by its index in the file, with the key.
    /// Decides nothing.
    ///
    /// # Panics
    ///
    /// If the judge is not open.
    pub(crate) fn concerned(
        &self,
        logged: &Logged<'_>,
        found: &mut Found,
        mut each: impl FnMut(usize, &Concerned, &[u8]),
    ) {
        let open = self.opened();
        open.simulation.set().matcher().find(&logged.request, found);
        for concerned in found.concerned().iter().filter(|concerned| !concerned.is_refused_without_key) {
            each(open.in_file[concerned.rule], concerned, found.key(concerned));
        }
    }

    fn opened(&self) -> &Open {
        self.open.as_ref().expect("the first record opens it")
    }

    /// Ends the requests that have ended by then, decides a request at its arrival, charges it, and
    /// gives the judgement to `with`. What the rules do not charge in the end is given back when
    /// the request ends.
    ///
    /// # Panics
    ///
    /// If the judge is not open.
    #[inline]
    pub(crate) fn decide<R>(&mut self, logged: &Logged<'_>, with: impl FnOnce(&Judgement<'_>) -> R) -> R {
        let Self { rules, open, .. } = self;
        let Open { zero, simulation, in_file, unknown_ends, .. } =
            open.as_mut().expect("the first record opens it");
        let ask = Ask { now: Some(Timestamp::from_nanos(logged.t_ns - *zero)), ..Ask::default() };
        simulation.ask(&logged.request, ask, logged.ending(), |verdict| {
            if logged.was_refused() && verdict.is_admitted() {
                let mut asked = verdict.answers().map(|answer| &rules.rules[in_file[answer.rule]]);
                *unknown_ends += u64::from(asked.any(|rule| rule.charge_if.is_some()));
            }
            with(&Judgement { verdict, in_file })
        })
    }

    /// What the user should know of how requests ended.
    pub(crate) fn notes(&self, log: &RequestLog) -> Vec<String> {
        let Some(open) = &self.open else { return Vec::new() };
        let rules = open.in_file.iter().map(|&rule| &self.rules.rules[rule]);
        let names: Vec<String> = rules
            .filter(|rule| {
                let is_told = matches!(rule.cost, Cost::From { .. }) && log.tells_costs();
                rule.charge_if.is_some() || is_told
            })
            .map(|rule| format!("`{}`", rule.name))
            .collect();
        let mut notes = Vec::new();
        if names.is_empty() {
            return notes;
        }
        let names = names.join(", ");
        if !log.knows_durations() {
            notes.push(format!(
                "requests are taken to end at once, since the log does not say how long they last: under {names} \
                 it is not seen what requests under way hold (--lasts TIME, or --map duration=FIELD)"
            ));
        }
        let count = |count| crate::report::figures::counted(count, "request");
        if open.unknown_ends > 0 {
            notes.push(format!(
                "{} of status 429 admitted here: how they would have ended is unknown, and under {names} they \
                 stay charged",
                count(open.unknown_ends)
            ));
        }
        if open.simulation.ended_early() > 0 {
            notes.push(format!(
                "{} ended before their time, since too many were under way",
                count(open.simulation.ended_early())
            ));
        }
        notes
    }
}

/// The rules with these indices, as if the file had no others.
pub(super) fn only(rules: &Rules, indices: &[usize]) -> Rules {
    let mut kept = rules.clone();
    kept.rules = indices.iter().map(|&index| rules.rules[index].clone()).collect();
    let names: Vec<Box<str>> = kept.rules.iter().map(|rule| rule.name.clone()).collect();
    for rule in &mut kept.rules {
        if let Replaces::Named(named) = &mut rule.replaces {
            named.retain(|name| names.contains(name));
        }
    }
    kept
}
