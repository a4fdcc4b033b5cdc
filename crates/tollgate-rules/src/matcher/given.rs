//! The key of values that a caller gives, without a request: it is read and written as that of a
//! request with these values and no others.

use std::net::IpAddr;

use super::Matcher;
use super::found::{Concerned, Found};
use super::judge::Lack;
use super::rule::Part;
use crate::request::{Field, HOST, METHOD, Request, Seen, Source};
use crate::rule::{Attribute, MissingKey};

/// Why values are no key of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// There are more or fewer than the rule's key has parts.
    Count,
    /// This one cannot be given: only the pattern that a path matches tells it.
    Pattern(usize),
    /// This one is no IP address.
    Address(usize),
    /// This one is no value that a request can have there.
    Value(usize),
    /// One of them is too long, or two are of one attribute.
    Unusable,
}

impl Matcher {
    /// Leaves in `found` that this rule alone concerns a request at this cost, whose key has these
    /// values. A value without bytes is a missing one. For `everyone` any values do.
    pub(crate) fn find_one(
        &self,
        rule: usize,
        cost: u64,
        values: &[&[u8]],
        found: &mut Found,
    ) -> Result<(), NoKey> {
        let compiled = &self.rules[rule];
        let Found { concerned, keys, buffers, text, .. } = found;
        concerned.clear();
        keys.clear();
        text.clear();
        let key = if compiled.key.is_empty() {
            Ok(0..0)
        } else {
            let given = Given::new(&compiled.key, values, text)?;
            buffers.read(&given, &self.names);
            compiled.write_key(&Seen::new(&given, buffers, self.form, self.ipv6_prefix), None, keys)
        };
        match key {
            Err(Lack::Unusable) => return Err(NoKey::Unusable),
            Err(Lack::Absent) if compiled.missing == MissingKey::Pass => return Ok(()),
            _ => {}
        }
        concerned.push(Concerned {
            rule,
            tier: None,
            cost,
            is_refused_without_key: key.is_err() && compiled.missing == MissingKey::Refuse,
            key: key.unwrap_or(0..0),
            lent: None,
        });
        Ok(())
    }
}

/// A request with the values of a key.
struct Given<'g> {
    parts: &'g [Part],
    values: &'g [&'g [u8]],
    client: Option<IpAddr>,
    target: &'g [u8],
    cookies: &'g [u8],
}

impl<'g> Given<'g> {
    /// `text` is the room for the target and the line of cookies.
    fn new(parts: &'g [Part], values: &'g [&'g [u8]], text: &'g mut Vec<u8>) -> Result<Self, NoKey> {
        if parts.len() != values.len() {
            return Err(NoKey::Count);
        }
        let mut client = None;
        for (number, (part, value)) in parts.iter().zip(values).enumerate() {
            let is_one = match part.attribute.plain() {
                Attribute::Client => {
                    let address = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    client = Some(address.ok_or(NoKey::Address(number))?);
                    true
                }
                Attribute::Route | Attribute::Capture(_) => return Err(NoKey::Pattern(number)),
                Attribute::Path => {
                    text.extend_from_slice(value);
                    !value.iter().any(|byte| b"?#".contains(byte))
                }
                Attribute::Cookie(_) => !value.contains(&b';'),
                _ => true,
            };
            if !is_one {
                return Err(NoKey::Value(number));
            }
        }
        let pairs = || parts.iter().zip(values).filter(|(_, value)| !value.is_empty());
        for (part, value) in pairs() {
            if let Attribute::Query(name) = part.attribute.plain() {
                text.push(if text.contains(&b'?') { b'&' } else { b'?' });
                escape(name.as_bytes(), text);
                text.push(b'=');
                escape(value, text);
            }
        }
        let target = text.len();
        for (part, value) in pairs() {
            if let Attribute::Cookie(name) = part.attribute.plain() {
                for piece in [name.as_bytes(), b"=", value, b";"] {
                    text.extend_from_slice(piece);
                }
            }
        }
        let (target, cookies) = text.split_at(target);
        Ok(Self { parts, values, client, target, cookies })
    }
}

/// Appends a text as a query has it: escaped, but for letters and digits.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() {
            out.push(byte);
        } else {
            let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
}

impl Request for Given<'_> {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        match field {
            Field::Target if !self.target.is_empty() => see(self.target),
            Field::Header("cookie") if !self.cookies.is_empty() => see(self.cookies),
            _ => {}
        }
        for (part, value) in self.parts.iter().zip(self.values).filter(|(_, value)| !value.is_empty()) {
            let is_asked = match (&part.source, field) {
                (Source::Read(METHOD), Field::Method)
                | (Source::Read(HOST), Field::Host)
                | (Source::Domain, Field::Domain) => true,
                (Source::Header(name), Field::Header(asked))
                | (Source::Label(name), Field::Label(asked))
                | (Source::Entry(name), Field::Entry(asked)) => **name == *asked,
                _ => false,
            };
            if is_asked {
                see(value);
            }
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }
}
