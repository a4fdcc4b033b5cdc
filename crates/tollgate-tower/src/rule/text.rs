//! What of rules a restart has to know: how their limits were counted. It is kept with the saved
//! debts, so that the next process reads the same rules.
//!
//! ```text
//!   rules: u32 | each: name: text | everyone: u8 | ban in ns: u64, or 0 | limits | tiers: u32
//!              | each tier: name: text | limits
//!   limits:    kind: u8 | of EACH: count: u32 | each: quota as text, or "" and a number in flight
//! ```
//!
//! It has the form of [`tollgate::saved`].

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use tollgate::RestoreError;
use tollgate::saved::{Format, Reader, Writer};
use tollgate_rules::{Attribute, Ban, Key, Limit, Limits, Origin, Rule, Rules, Tier};

const FORM: Format = Format { magic: *b"\xA7text\r\n\x1A", name: "the limits of a saved layer" };

// The kinds of limits.
const EACH: u8 = 0;
const UNLIMITED: u8 = 1;
const PER_REQUEST: u8 = 2;
const ELSEWHERE: u8 = 3;

/// More rules or tiers than this no layer has.
const MOST: u32 = 1 << 20;

/// The text of rules, for [`read`].
pub(crate) fn origin(rules: &Rules) -> Origin {
    let mut text = Vec::new();
    // A vector takes all.
    let written = write(rules, &mut text).is_ok();
    Origin { hash: [0; 32], text: written.then(|| Arc::from(text)) }
}

fn write(rules: &Rules, out: &mut Vec<u8>) -> io::Result<()> {
    let mut out = Writer::begin(out, FORM)?;
    out.half(rules.rules.len() as u32)?;
    for rule in &rules.rules {
        out.bytes(rule.name.as_bytes())?;
        out.byte((rule.key == Key::Everyone).into())?;
        out.word(rule.ban.map_or(0, |ban| u64::try_from(ban.0.as_nanos()).unwrap_or(u64::MAX)))?;
        write_limits(&rule.limits, &mut out)?;
        out.half(rule.tiers.len() as u32)?;
        for tier in &rule.tiers {
            out.bytes(tier.name.as_bytes())?;
            write_limits(&tier.limits, &mut out)?;
        }
    }
    out.finish()
}

fn write_limits(limits: &Limits, out: &mut Writer<impl Write>) -> io::Result<()> {
    let limits = match limits {
        Limits::Each(limits) => limits,
        Limits::PerRequest => return out.byte(PER_REQUEST),
        Limits::Elsewhere => return out.byte(ELSEWHERE),
        // A layer has no rule that blocks.
        Limits::Unlimited | Limits::Block => return out.byte(UNLIMITED),
    };
    out.byte(EACH)?;
    out.half(limits.len() as u32)?;
    for limit in limits {
        match limit {
            Limit::Quota(quota) => out.bytes(quota.to_string().as_bytes())?,
            Limit::InFlight { most, .. } => {
                out.bytes(b"")?;
                out.word(*most)?;
            }
        }
    }
    Ok(())
}

/// The rules of a text, in tables as large as those of the rules that go on now.
pub(crate) fn read(text: &[u8], now: &Rules) -> Result<Rules, RestoreError> {
    let mut input = Reader::begin(text, FORM)?;
    let mut rules = Vec::new();
    for _ in 0..count(&mut input)? {
        let name = input.text()?;
        let key = match input.byte()? {
            0 => Key::Attributes(vec![Attribute::Label("key".into())]),
            _ => Key::Everyone,
        };
        let ban = Some(input.word()?).filter(|nanos| *nanos > 0);
        let mut rule = Rule::new(name, key, read_limits(&mut input)?);
        rule.ban = ban.map(|nanos| Ban(Duration::from_nanos(nanos)));
        for _ in 0..count(&mut input)? {
            let (name, limits) = (input.text()?.into(), read_limits(&mut input)?);
            rule.tiers.push(Tier { name, applies: Vec::new(), limits, max_keys: None });
        }
        if let Some(next) = now.rules.iter().find(|next| next.name == rule.name) {
            rule.key = next.key.clone();
            (rule.max_keys, rule.when_full) = (next.max_keys, next.when_full);
            for tier in &mut rule.tiers {
                tier.max_keys =
                    next.tiers.iter().find(|next| next.name == tier.name).and_then(|next| next.max_keys);
            }
        }
        rules.push(rule);
    }
    input.finish()?;
    let mut rules = Rules::of(rules);
    rules.memory_budget = usize::MAX;
    Ok(rules)
}

fn read_limits(input: &mut Reader<impl Read>) -> Result<Limits, RestoreError> {
    Ok(match input.byte()? {
        EACH => {
            let mut limits = Vec::new();
            for _ in 0..count(input)? {
                let quota = input.text()?;
                limits.push(match quota.is_empty() {
                    true => Limit::InFlight { most: input.word()?, ttl: None },
                    false => Limit::Quota(quota.parse().map_err(|_| RestoreError::Corrupt)?),
                });
            }
            Limits::Each(limits)
        }
        UNLIMITED => Limits::Unlimited,
        PER_REQUEST => Limits::PerRequest,
        ELSEWHERE => Limits::Elsewhere,
        _ => return Err(RestoreError::Corrupt),
    })
}

fn count(input: &mut Reader<impl Read>) -> Result<u32, RestoreError> {
    let count = input.half()?;
    if count <= MOST { Ok(count) } else { Err(RestoreError::Corrupt) }
}
