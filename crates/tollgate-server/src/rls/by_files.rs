//! A call decided by files of envoyproxy/ratelimit.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use tollgate_rules_file::{EnvoyAnswer, EnvoyCode, EnvoyConfig, EnvoyDescriptor, EnvoyStatus, EnvoyUnit};

use super::call::CallError;
use super::proto::{
    Code, DescriptorStatus, RateLimit, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
    RateLimitUnit, Unit,
};
use super::refusal;
use super::status::{of, seconds_up};
use crate::core::Core;
use crate::metrics::{Decided, Listener};

/// Decides a call. `None`: the files do not have its domain, and nothing was counted.
pub(super) async fn decide(
    core: &Core,
    listener: Listener,
    call: &RateLimitRequest,
) -> Result<Option<RateLimitResponse>, CallError> {
    let Some(envoy) = &core.envoy else { return Ok(None) };
    let response =
        envoy.decide((&call.domain, &call.descriptors, call.hits_addend), |code, answer, config| {
            for status in answer.statuses() {
                core.metrics.decided_for_envoy(listener, decided(status));
            }
            respond(code, answer, config)
        });
    Ok(response.await?)
}

fn decided(status: &EnvoyStatus) -> Decided {
    match status.code {
        EnvoyCode::Ok => Decided::Allowed,
        EnvoyCode::OverLimit if status.is_unavailable => Decided::Unavailable,
        EnvoyCode::OverLimit => Decided::Limited,
    }
}

impl EnvoyDescriptor for RateLimitDescriptor {
    fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (&*entry.key, &*entry.value))
    }

    fn hits_addend(&self) -> Option<u64> {
        self.hits_addend
    }

    fn limit(&self) -> Option<(u32, Option<EnvoyUnit>)> {
        let limit = self.limit?;
        // An enum's number may be any.
        let unit = match RateLimitUnit::try_from(limit.unit).unwrap_or(RateLimitUnit::Unknown) {
            RateLimitUnit::Unknown => None,
            RateLimitUnit::Second => Some(EnvoyUnit::Second),
            RateLimitUnit::Minute => Some(EnvoyUnit::Minute),
            RateLimitUnit::Hour => Some(EnvoyUnit::Hour),
            RateLimitUnit::Day => Some(EnvoyUnit::Day),
            RateLimitUnit::Month => Some(EnvoyUnit::Month),
            RateLimitUnit::Year => Some(EnvoyUnit::Year),
        };
        Some((limit.requests_per_unit, unit))
    }
}

fn respond(code: EnvoyCode, answer: &EnvoyAnswer, config: &EnvoyConfig) -> RateLimitResponse {
    let mut response = RateLimitResponse {
        overall_code: self::code(code).into(),
        statuses: answer.statuses().iter().map(|own| status(own, config)).collect(),
        dynamic_metadata: metadata(answer, config),
        ..RateLimitResponse::default()
    };
    if code == EnvoyCode::Ok {
        return response;
    }
    let over = response.statuses.iter().filter(|status| status.code() == Code::OverLimit);
    let wait = over.filter_map(|status| status.duration_until_reset.as_ref()).map(|time| time.seconds).max();
    if let Some(seconds) = wait {
        refusal::retry_after(&mut response, seconds.unsigned_abs());
    }
    response
}

fn status(own: &EnvoyStatus, config: &EnvoyConfig) -> DescriptorStatus {
    let named = own.limit.and_then(|limit| config.limits()[limit].name.as_deref());
    let current_limit = own.current_limit.map(|(requests_per_unit, unit)| RateLimit {
        requests_per_unit,
        unit: self::unit(unit).into(),
        name: named.unwrap_or_default().into(),
    });
    DescriptorStatus {
        duration_until_reset: current_limit.as_ref().map(|_| seconds_up(own.until_reset)),
        current_limit,
        limit_remaining: own.remaining,
        ..of(code(own.code))
    }
}

fn code(code: EnvoyCode) -> Code {
    match code {
        EnvoyCode::Ok => Code::Ok,
        EnvoyCode::OverLimit => Code::OverLimit,
    }
}

fn unit(unit: EnvoyUnit) -> Unit {
    match unit {
        EnvoyUnit::Second => Unit::Second,
        EnvoyUnit::Minute => Unit::Minute,
        EnvoyUnit::Hour => Unit::Hour,
        EnvoyUnit::Day => Unit::Day,
        EnvoyUnit::Week => Unit::Week,
        EnvoyUnit::Month => Unit::Month,
        EnvoyUnit::Year => Unit::Year,
    }
}

/// The `metadata` of the limits that passed, under that name. Of two values of one name the first
/// stays, and objects are merged.
fn metadata(answer: &EnvoyAnswer, config: &EnvoyConfig) -> Option<Struct> {
    let passed = answer.statuses().iter().filter(|status| status.code == EnvoyCode::Ok);
    // The reference leaves out limits that are unlimited.
    let asked = passed.filter(|status| status.current_limit.is_some());
    let limits = asked.filter_map(|status| config.limits().get(status.limit?)?.metadata.as_ref());
    let mut merged = BTreeMap::new();
    for metadata in limits {
        if let serde_json::Value::Object(fields) = metadata {
            merge(&mut merged, fields);
        }
    }
    if merged.is_empty() {
        return None;
    }
    let merged = Value { kind: Some(Kind::StructValue(Struct { fields: merged })) };
    Some(Struct { fields: BTreeMap::from([("metadata".to_owned(), merged)]) })
}

fn merge(into: &mut BTreeMap<String, Value>, fields: &serde_json::Map<String, serde_json::Value>) {
    for (name, value) in fields {
        match (into.get_mut(name), value) {
            (None, value) => drop(into.insert(name.clone(), self::value(value))),
            (Some(Value { kind: Some(Kind::StructValue(inner)) }), serde_json::Value::Object(fields)) => {
                merge(&mut inner.fields, fields);
            }
            (Some(_), _) => {}
        }
    }
}

/// The same value of a protocol buffer. The files are nested 64 levels at most.
fn value(json: &serde_json::Value) -> Value {
    let kind = match json {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(value) => Kind::BoolValue(*value),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text.clone()),
        serde_json::Value::Array(values) => {
            Kind::ListValue(ListValue { values: values.iter().map(value).collect() })
        }
        serde_json::Value::Object(fields) => {
            let fields = fields.iter().map(|(name, json)| (name.clone(), value(json))).collect();
            Kind::StructValue(Struct { fields })
        }
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_of_a_file_is_told_by_its_number() {
        for (own, number) in [
            (EnvoyUnit::Second, 1),
            (EnvoyUnit::Minute, 2),
            (EnvoyUnit::Hour, 3),
            (EnvoyUnit::Day, 4),
            (EnvoyUnit::Month, 5),
            (EnvoyUnit::Year, 6),
            (EnvoyUnit::Week, 7),
        ] {
            assert_eq!(i32::from(unit(own)), number, "{own:?}");
        }
    }
}
