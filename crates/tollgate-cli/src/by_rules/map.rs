//! `--map ATTRIBUTE=FIELD`: which field of a log holds what rules see of a request.

use std::fmt;
use std::str::FromStr;

use tollgate_logs::{Part, Unit};

use crate::failure::Failure;

/// A part of a request, and the field of the log that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) part: Part,
    pub(crate) field: String,
    /// The unit of a duration.
    pub(crate) unit: Option<Unit>,
}

impl FromStr for Map {
    type Err = NoMap;

    fn from_str(text: &str) -> Result<Self, NoMap> {
        let wrong = |why| NoMap { text: text.to_owned(), why };
        let (attribute, field) = text.split_once('=').ok_or_else(|| wrong(NO_FIELD))?;
        if field.is_empty() {
            return Err(wrong(NO_FIELD));
        }
        let (kind, name) = attribute.split_once('.').unwrap_or((attribute, ""));
        let named =
            |part: fn(String) -> Part| if name.is_empty() { None } else { Some(part(name.to_owned())) };
        let part = match kind {
            "header" => named(|name| Part::Header(name.to_ascii_lowercase())),
            "label" => named(Part::Label),
            "entry" => named(Part::Entry),
            "cookie" => return Err(wrong("cookies are read from a header: map header.cookie")),
            "query" => {
                return Err(wrong("parameters are read from the target: map path to a field with the query"));
            }
            "route" => return Err(wrong("a route is found by the path: map path")),
            _ if !name.is_empty() => None,
            "client" => Some(Part::Client),
            "method" => Some(Part::Method),
            "host" => Some(Part::Host),
            "path" => Some(Part::Target),
            "status" => Some(Part::Status),
            "domain" => Some(Part::Domain),
            "duration" => Some(Part::Duration),
            "settles" => Some(Part::Settles),
            _ => None,
        };
        let part = part.ok_or_else(|| wrong(UNKNOWN))?;
        let (field, unit) = if part == Part::Duration { with_unit(field) } else { (field, None) };
        Ok(Self { part, field: field.to_owned(), unit })
    }
}

/// Splits `FIELD:ms` into the field and the unit of its numbers.
fn with_unit(text: &str) -> (&str, Option<Unit>) {
    let named = text.rsplit_once(':').filter(|(field, _)| !field.is_empty()).and_then(|(field, unit)| {
        let unit = match unit {
            "s" => Unit::Seconds,
            "ms" => Unit::Millis,
            "us" => Unit::Micros,
            "ns" => Unit::Nanos,
            _ => return None,
        };
        Some((field, Some(unit)))
    });
    named.unwrap_or((text, None))
}

/// Checks that no attribute is mapped twice.
///
/// # Errors
///
/// The attribute that is.
pub(super) fn validate(maps: &[Map]) -> Result<(), Failure> {
    for (index, map) in maps.iter().enumerate() {
        if let Some(before) = maps[..index].iter().find(|before| before.part == map.part) {
            let (part, one, other) = (&map.part, &before.field, &map.field);
            return Err(Failure::Usage(format!("--map names two fields for {part}: {one} and {other}")));
        }
    }
    Ok(())
}

const NO_FIELD: &str = "give ATTRIBUTE=FIELD, such as label.user=user_id";
const UNKNOWN: &str = "an attribute is one of client, method, host, path, status, domain, header.NAME, label.NAME, \
     entry.NAME, duration, settles";

/// A text that is no mapping.
#[derive(Debug)]
pub(crate) struct NoMap {
    text: String,
    why: &'static str,
}

impl fmt::Display for NoMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.text, self.why)
    }
}

impl std::error::Error for NoMap {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attribute_of_a_log_can_be_mapped() {
        for (text, part) in [
            ("client=ip", Part::Client),
            ("path=request.uri", Part::Target),
            ("header.X-Api-Key=apikey", Part::Header("x-api-key".to_owned())),
            ("label.User=a=b", Part::Label("User".to_owned())),
            ("entry.k.l=m", Part::Entry("k.l".to_owned())),
            ("duration=took:x", Part::Duration),
            ("settles=usage.total", Part::Settles),
        ] {
            let map: Map = text.parse().expect(text);
            assert_eq!(
                (map.part, format!("={}", map.field)),
                (part, text[text.find('=').unwrap()..].to_owned())
            );
        }
    }

    #[test]
    fn a_duration_may_have_a_unit() {
        let map: Map = "duration=a:b:us".parse().expect("it is one");
        assert_eq!((&*map.field, map.unit), ("a:b", Some(Unit::Micros)));
        let map: Map = "host=a:us".parse().expect("it is one");
        assert_eq!((&*map.field, map.unit), ("a:us", None));
        assert_eq!(with_unit("a:b:ns"), ("a:b", Some(Unit::Nanos)));
        for text in ["took", "a:b", ":ms", "took:minutes"] {
            assert_eq!(with_unit(text), (text, None));
        }
    }

    #[test]
    fn what_cannot_be_mapped_says_what_can() {
        for (text, part) in [
            ("label.user", "ATTRIBUTE=FIELD"),
            ("label.user=", "ATTRIBUTE=FIELD"),
            ("label=x", "label.NAME"),
            ("jwt.sub=x", "label.NAME"),
            ("path.id=x", "label.NAME"),
            ("cookie.s=x", "header.cookie"),
            ("query.q=x", "map path"),
        ] {
            let error = text.parse::<Map>().expect_err(text).to_string();
            assert!(error.contains(part) && error.contains(text), "{error}");
        }
    }
}
