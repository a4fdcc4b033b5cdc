//! A call as JSON. Names may be in camel case or as in the proto files; `null` is the default.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate_net::web::Answer;

use super::number::{Integer, UnitName};
use crate::rls::call::DESCRIPTORS;
use crate::rls::proto::{Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest};
use crate::web::read_json;

const U32: u64 = u32::MAX as u64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Call {
    #[serde(default)]
    domain: Option<String>,
    #[serde(default)]
    descriptors: Option<Descriptors>,
    #[serde(default, alias = "hits_addend")]
    hits_addend: Option<Integer<U32>>,
}

/// Of those beyond the bound the first alone: with it the call is refused.
struct Descriptors(Vec<Descriptor>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Descriptor {
    #[serde(default)]
    entries: Option<Vec<Pair>>,
    #[serde(default)]
    limit: Option<Limit>,
    #[serde(default, alias = "hits_addend")]
    hits_addend: Option<Integer<{ u64::MAX }>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limit {
    #[serde(default, alias = "requests_per_unit")]
    requests_per_unit: Option<Integer<U32>>,
    #[serde(default)]
    unit: Option<UnitName>,
}

/// Reads a call. Fields that there are not are an error, as in the reference.
pub(super) fn call(text: &[u8]) -> Result<RateLimitRequest, Box<Answer>> {
    let Call { domain, descriptors, hits_addend } = read_json(text)?;
    Ok(RateLimitRequest {
        domain: domain.unwrap_or_default(),
        descriptors: descriptors
            .map_or_else(Vec::new, |Descriptors(all)| all.into_iter().map(descriptor).collect()),
        hits_addend: hits_addend.map_or(0, small),
    })
}

impl<'de> Deserialize<'de> for Descriptors {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Bounded;

        impl<'de> Visitor<'de> for Bounded {
            type Value = Descriptors;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Descriptors, A::Error> {
                let mut kept = Vec::new();
                while kept.len() <= DESCRIPTORS {
                    match all.next_element()? {
                        Some(descriptor) => kept.push(descriptor),
                        None => return Ok(Descriptors(kept)),
                    }
                }
                while all.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Descriptors(kept))
            }
        }

        from.deserialize_seq(Bounded)
    }
}

fn descriptor(Descriptor { entries, limit, hits_addend }: Descriptor) -> RateLimitDescriptor {
    let entry =
        |Pair { key, value }| Entry { key: key.unwrap_or_default(), value: value.unwrap_or_default() };
    RateLimitDescriptor {
        entries: entries.unwrap_or_default().into_iter().map(entry).collect(),
        limit: limit.map(|Limit { requests_per_unit, unit }| RateLimitOverride {
            requests_per_unit: requests_per_unit.map_or(0, small),
            unit: unit.map_or(0, |UnitName(unit)| unit),
        }),
        hits_addend: hits_addend.map(|Integer(hits)| hits),
    }
}

fn small(Integer(number): Integer<U32>) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_beyond_the_bound_are_not_kept() {
        let descriptors = vec!["{}"; 100_000].join(",");
        let text = format!("{{ \"domain\": \"d\", \"descriptors\": [{descriptors}] }}");
        let read = call(text.as_bytes()).unwrap_or_else(|answer| panic!("{answer:?}"));
        assert_eq!(read.descriptors.len(), DESCRIPTORS + 1);
    }
}
