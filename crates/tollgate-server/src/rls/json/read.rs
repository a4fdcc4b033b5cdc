//! A call as JSON. Names may be in camel case or as in the proto files; `null` is the default.

use serde::Deserialize;

use super::number::{Integer, UnitName};
use crate::rls::proto::{Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest};
use crate::web::{Answer, read_json};

const U32: u64 = u32::MAX as u64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Call {
    #[serde(default)]
    domain: Option<String>,
    #[serde(default)]
    descriptors: Option<Vec<Descriptor>>,
    #[serde(default, alias = "hits_addend")]
    hits_addend: Option<Integer<U32>>,
}

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
        descriptors: descriptors.unwrap_or_default().into_iter().map(descriptor).collect(),
        hits_addend: hits_addend.map_or(0, small),
    })
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
