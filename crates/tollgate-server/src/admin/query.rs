//! The parameters of a query.

use super::failure::{Failure, bad};

/// Refuses a query with a parameter that the page does not have: a misspelled one would select
/// nothing, and the answer would look like the one that was wanted.
pub(super) fn check(query: Option<&str>, known: &[&str]) -> Result<(), Failure> {
    let unknown = pairs(query).map(|(name, _)| decoded(name)).find(|name| !known.contains(&&**name));
    let Some(name) = unknown else { return Ok(()) };
    let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let has = if known.is_empty() { "no parameters".into() } else { known.join(", ") };
    Err(bad(format!("there is no parameter `{name}`: this page has {has}")))
}

/// The value of a parameter in a query, decoded.
pub(super) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    pairs(query).find(|(own, _)| decoded(own) == name).map(|(_, value)| decoded(value))
}

/// The parameters with their values, not decoded. A parameter without `=` has an empty value.
fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Text with `%XX` and `+` decoded.
pub(super) fn decoded(text: &str) -> String {
    let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after.split_at_checked(2).and_then(|(digits, after)| Some((hex(digits)?, after)))) {
            (b'%', Some((byte, after))) => {
                bytes.push(byte);
                rest = after;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_parameter_is_named_with_those_there_are() {
        for query in ["rule=a&status=dead", "status", "%73tatus=dead&most=1"] {
            let Err(Failure(status, detail)) = check(Some(query), &["rule", "most"]) else {
                panic!("{query}")
            };
            assert_eq!(status, 400);
            assert_eq!(detail, "there is no parameter `status`: this page has `rule`, `most`", "{query}");
        }
        for query in [None, Some(""), Some("&"), Some("rule=a&r%75le=b"), Some("most")] {
            assert!(check(query, &["rule", "most"]).is_ok(), "{query:?}");
        }
    }

    #[test]
    fn a_parameter_without_a_value_is_empty() {
        assert_eq!(parameter(Some("most&rule=a%20b"), "most").as_deref(), Some(""));
        assert_eq!(parameter(Some("most&r%75le=a%20b"), "rule").as_deref(), Some("a b"));
        assert_eq!(parameter(Some("most"), "rule"), None);
    }
}
