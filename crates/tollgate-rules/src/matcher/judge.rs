//! Whether a rule concerns a request, under which key, in which tier and at what cost.
//!
//! [`Matcher::find`](crate::Matcher::find) and [`Matcher::explain`](crate::Matcher::explain) both
//! ask [`Compiled::judge`].

use std::ops::Range;

use tollgate::spelling::respell;

use super::condition::{All, PathMatch, Side, first};
use super::found::{Concerned, Judged};
use super::pattern::Stack;
use super::rule::{Compiled, CompiledCost, Part, Replaced};
use crate::address::write_key;
use crate::request::{Form, HOST, MAX_VALUE, METHOD, Reading, Seen, Source};
use crate::rule::{MissingKey, Mode};

/// Whether a rule concerns a request.
pub(super) enum Judgement<'m> {
    Off,
    /// No alternative of `match` holds.
    Unmatched,
    /// An alternative of `except` holds.
    Excepted(&'m All),
    /// A part of the key is absent, and the rule does not concern such requests.
    WithoutKey(Option<PathMatch<'m>>),
    /// It does, unless another rule replaces it.
    Concerns(Judged, Option<PathMatch<'m>>),
}

/// Why a part of a key is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// It is there, but empty, too long, or there twice.
    Unusable,
    Absent,
}

impl Compiled {
    /// Judges a request. `rule` is the rule's own number; the key is appended to `keys`.
    pub(super) fn judge(
        &self,
        rule: usize,
        seen: &Seen<'_>,
        keys: &mut Vec<u8>,
        stack: &mut Stack,
    ) -> Judgement<'_> {
        if self.mode == Mode::Off {
            return Judgement::Off;
        }
        let side = self.side();
        let Some(path) = self.matched(seen, side, stack) else { return Judgement::Unmatched };
        if let Some((number, _)) = first(&self.except, seen, side.opposite(), stack) {
            return Judgement::Excepted(&self.except[number]);
        }
        let key = self.write_key(seen, path, keys);
        // A client must not leave a rule by what it adds.
        if key == Err(Lack::Absent) && self.missing == MissingKey::Pass {
            return Judgement::WithoutKey(path);
        }
        let concerned = Concerned {
            rule,
            tier: self.tier(seen, stack),
            cost: match self.cost {
                CompiledCost::Fixed(cost) => cost,
                _ => self.cost(seen, stack),
            },
            is_refused_without_key: key.is_err() && self.missing == MissingKey::Refuse,
            key: key.unwrap_or(0..0),
            lent: None,
        };
        let replaces = self.replaces != Replaced::None
            && (side == Side::Relaxes
                || (self.matched(seen, Side::Relaxes, stack).is_some()
                    && first(&self.except, seen, Side::Restricts, stack).is_none()));
        Judgement::Concerns(Judged { concerned, replaces, replaced_by: None }, path)
    }

    /// Returns how the rule reads its `match`; it reads `except` the opposite way.
    pub(super) fn side(&self) -> Side {
        if self.is_unlimited { Side::Relaxes } else { Side::Restricts }
    }

    /// Returns how the path matched, if the rule's `match` holds.
    fn matched(&self, seen: &Seen<'_>, side: Side, stack: &mut Stack) -> Option<Option<PathMatch<'_>>> {
        if self.applies.is_empty() {
            return Some(None);
        }
        first(&self.applies, seen, side, stack).map(|(_, path)| path)
    }

    /// Returns the tier. Where it is not certain whether one applies, the one that admits least.
    fn tier(&self, seen: &Seen<'_>, stack: &mut Stack) -> Option<usize> {
        let mut named = None;
        if let Some((source, tiers)) = &self.named_tier {
            seen.values(source, &mut |name, _| named = tiers.get(name).copied());
        }
        if named.is_some() {
            return named;
        }
        let mut least = None;
        for (number, tier) in self.tiers.iter().enumerate() {
            if first(&tier.applies, seen, Side::Restricts, stack).is_none() {
                continue;
            }
            if least.is_none_or(|(_, generosity)| tier.generosity < generosity) {
                least = Some((Some(number), tier.generosity));
            }
            if first(&tier.applies, seen, Side::Relaxes, stack).is_some() {
                return least.and_then(|(number, _)| number);
            }
        }
        match least {
            Some((number, generosity)) if generosity <= self.generosity => number,
            _ => None,
        }
    }

    /// Returns the cost. Where it is not certain which one applies, the highest.
    fn cost(&self, seen: &Seen<'_>, stack: &mut Stack) -> u64 {
        match &self.cost {
            CompiledCost::Fixed(cost) => *cost,
            CompiledCost::From { source, default } => number(seen, source, *default),
            CompiledCost::Cases(cases) => {
                let mut most = 0;
                for (applies, cost) in cases {
                    let holds = |side, stack: &mut Stack| {
                        applies.is_empty() || first(applies, seen, side, stack).is_some()
                    };
                    if holds(Side::Restricts, stack) {
                        most = most.max(*cost);
                        if holds(Side::Relaxes, stack) {
                            return most;
                        }
                    }
                }
                most.max(1)
            }
        }
    }

    /// Appends the key, and returns where it is. A key of one part is its bytes; of several, each
    /// has its length before it.
    ///
    /// # Errors
    ///
    /// A part is missing: [`Lack::Absent`] if any part is.
    pub(super) fn write_key(
        &self,
        seen: &Seen<'_>,
        path: Option<PathMatch<'_>>,
        keys: &mut Vec<u8>,
    ) -> Result<Range<usize>, Lack> {
        let (begin, mut lack) = (keys.len(), None);
        for part in &self.key {
            let before = keys.len();
            let prefix = if self.key.len() > 1 { 2 } else { 0 };
            keys.extend_from_slice(&[0; 2][..prefix]);
            lack = lack.max(part.write(seen, path, keys).err());
            let length = keys.len() - before - prefix;
            // A value has at most 4096 bytes.
            keys[before..before + prefix].copy_from_slice(&(length as u16).to_be_bytes()[..prefix]);
        }
        match lack {
            None => Ok(begin..keys.len()),
            Some(lack) => {
                keys.truncate(begin);
                Err(lack)
            }
        }
    }
}

/// Returns the number that an attribute has. Of values that differ the highest, and no less than
/// the default: it is not certain which of them counts.
fn number(seen: &Seen<'_>, source: &Source, default: u64) -> u64 {
    let mut only = None;
    let mut most = default;
    let mut is_certain = true;
    seen.values(source, &mut |value, _| {
        let is_number = (1..=MAX_VALUE).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
        let digit = |number: u64, byte: &u8| number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
        let number = if is_number { value.iter().fold(0, digit) } else { default };
        is_certain = is_certain && only.is_none_or(|only| only == number);
        only = Some(number);
        most = most.max(number);
    });
    if is_certain { only.unwrap_or(default) } else { most }
}

impl Part {
    /// Appends the part's value.
    ///
    /// # Errors
    ///
    /// It is missing, and anything may have been appended.
    pub(super) fn write(
        &self,
        seen: &Seen<'_>,
        path: Option<PathMatch<'_>>,
        key: &mut Vec<u8>,
    ) -> Result<(), Lack> {
        let begin = key.len();
        let reading = || seen.readings().get(path.map_or(0, |path| path.reading));
        let value = match &self.source {
            Source::Client => {
                let Some(client) = seen.client() else { return Err(Lack::Absent) };
                write_key(client, seen.ipv6_prefix, key);
                return Ok(());
            }
            Source::Path => reading()
                .map(|path| seen.bytes(if seen.form == Form::Folded { &path.lower } else { &path.exact })),
            Source::Route => {
                path.map(|path| path.pattern.map_or(&b"*"[..], |pattern| pattern.text().as_bytes()))
            }
            Source::Capture(name) => {
                path.and_then(|path| path.pattern).zip(reading()).and_then(|(pattern, path)| {
                    let path = seen.bytes(if seen.form == Form::Folded { &path.folded } else { &path.exact });
                    pattern.capture(name, path.strip_prefix(b"/").unwrap_or(path))
                })
            }
            source => {
                let mut is_one = false;
                let mut differs = false;
                // Servers agree on a host or method that comes twice, if both are the same.
                let may_repeat = matches!(source, Source::Read(METHOD | HOST));
                seen.values(source, &mut |value, reading| {
                    if reading == Reading::Further {
                        return;
                    }
                    if !is_one {
                        // Its one spelling may be short enough: it is cut after that.
                        let most = if self.spellings.is_empty() { MAX_VALUE + 1 } else { usize::MAX };
                        key.extend_from_slice(&value[..value.len().min(most)]);
                        is_one = true;
                    } else {
                        differs |= !may_repeat || key[begin..] != *value;
                    }
                });
                self.spell(key, begin);
                if *source == Source::Read(METHOD) && key[begin..] == *b"HEAD" {
                    // A client must not have a limit for each.
                    key.truncate(begin);
                    key.extend_from_slice(b"GET");
                }
                return match (is_one, !differs && (1..=MAX_VALUE).contains(&(key.len() - begin))) {
                    (false, _) => Err(Lack::Absent),
                    (true, false) => Err(Lack::Unusable),
                    (true, true) => Ok(()),
                };
            }
        };
        let value = value.ok_or(Lack::Absent)?;
        if !(1..=MAX_VALUE).contains(&value.len()) {
            return Err(Lack::Unusable);
        }
        key.extend_from_slice(value);
        self.spell(key, begin);
        if key.len() > begin { Ok(()) } else { Err(Lack::Unusable) }
    }

    /// Makes one spelling of a value.
    fn spell(&self, key: &mut Vec<u8>, begin: usize) {
        self.spellings.iter().for_each(|spelling| respell(key, begin, *spelling));
    }
}
