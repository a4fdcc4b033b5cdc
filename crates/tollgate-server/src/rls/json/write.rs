//! A response as JSON. Fields with their default are left out.

use prost_types::Struct;
use prost_types::value::Kind;
use serde_json::{Map, Value};

use crate::rls::proto::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit};

/// A response as JSON.
pub(super) fn response(response: &RateLimitResponse) -> Value {
    let mut object = Map::new();
    add_code(&mut object, "overallCode", response.overall_code());
    add_list(&mut object, "statuses", response.statuses.iter().map(status));
    add_list(&mut object, "responseHeadersToAdd", response.response_headers_to_add.iter().map(header));
    add_list(&mut object, "requestHeadersToAdd", response.request_headers_to_add.iter().map(header));
    add_bytes(&mut object, "rawBody", &response.raw_body);
    if let Some(metadata) = &response.dynamic_metadata {
        object.insert("dynamicMetadata".into(), fields(metadata));
    }
    object.into()
}

fn status(status: &DescriptorStatus) -> Value {
    let mut object = Map::new();
    add_code(&mut object, "code", status.code());
    if let Some(limit) = &status.current_limit {
        object.insert("currentLimit".into(), self::limit(limit));
    }
    add_number(&mut object, "limitRemaining", status.limit_remaining);
    if let Some(duration) = &status.duration_until_reset {
        // Ours have whole seconds.
        object.insert("durationUntilReset".into(), format!("{}s", duration.seconds).into());
    }
    object.into()
}

fn limit(limit: &RateLimit) -> Value {
    let mut object = Map::new();
    add_number(&mut object, "requestsPerUnit", limit.requests_per_unit);
    if limit.unit() != Unit::Unknown {
        object.insert("unit".into(), limit.unit().as_str_name().into());
    }
    add_text(&mut object, "name", &limit.name);
    object.into()
}

fn header(header: &HeaderValue) -> Value {
    let mut object = Map::new();
    add_text(&mut object, "key", &header.key);
    add_text(&mut object, "value", &header.value);
    add_bytes(&mut object, "rawValue", &header.raw_value);
    object.into()
}

fn fields(fields: &Struct) -> Value {
    fields.fields.iter().map(|(name, own)| (name.clone(), value(own))).collect::<Map<_, _>>().into()
}

fn value(own: &prost_types::Value) -> Value {
    match &own.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => (*number).into(),
        Some(Kind::StringValue(text)) => text.as_str().into(),
        Some(Kind::BoolValue(is)) => (*is).into(),
        Some(Kind::StructValue(inner)) => fields(inner),
        Some(Kind::ListValue(list)) => list.values.iter().map(value).collect(),
    }
}

fn add_code(object: &mut Map<String, Value>, name: &str, code: Code) {
    if code != Code::Unknown {
        object.insert(name.into(), code.as_str_name().into());
    }
}

fn add_number(object: &mut Map<String, Value>, name: &str, number: u32) {
    if number != 0 {
        object.insert(name.into(), number.into());
    }
}

fn add_text(object: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        object.insert(name.into(), text.into());
    }
}

fn add_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    add_text(object, name, &base64(bytes));
}

fn add_list(object: &mut Map<String, Value>, name: &str, values: impl Iterator<Item = Value>) {
    let values: Vec<Value> = values.collect();
    if !values.is_empty() {
        object.insert(name.into(), values.into());
    }
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }
}
