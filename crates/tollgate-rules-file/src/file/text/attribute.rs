//! Attributes of requests, as keys, costs and tests name them.

use super::wrong::{Wrong, quoted};
use crate::file::problem::Code;
use tollgate_rules::{Attribute, Transform};

const PLAIN: [(&str, Attribute); 6] = [
    ("method", Attribute::Method),
    ("host", Attribute::Host),
    ("path", Attribute::Path),
    ("route", Attribute::Route),
    ("client", Attribute::Client),
    ("domain", Attribute::Domain),
];

const ALL: &str =
    "method host path path.NAME route client header.NAME cookie.NAME query.NAME label.NAME domain entry.NAME";

/// The named attribute, if `kind` has names. The name of a header gets lower case.
pub(in crate::file) fn named(kind: &str, name: &str) -> Option<Attribute> {
    Some(match kind {
        "header" => Attribute::Header(name.to_ascii_lowercase().into()),
        "cookie" => Attribute::Cookie(name.into()),
        "query" => Attribute::Query(name.into()),
        "label" => Attribute::Label(name.into()),
        "entry" => Attribute::Entry(name.into()),
        "path" => Attribute::Capture(name.into()),
        _ => return None,
    })
}

fn attribute(text: &str) -> Option<Attribute> {
    match text.split_once('.') {
        Some((kind, name)) => named(kind, name),
        None => PLAIN.iter().find(|(plain, _)| *plain == text).map(|(_, attribute)| attribute.clone()),
    }
}

/// The most transforms of a part of a key.
const MOST_TRANSFORMS: usize = 4;

/// A part of a key: an attribute, or `lower(header.x-user)`.
pub(in crate::file) fn key_part(text: &str) -> Result<Attribute, Wrong> {
    let (mut inner, mut transforms) = (text, Vec::new());
    // A name behind a dot may have any characters.
    while let Some((name, rest)) = inner.split_once('(').filter(|(name, _)| !name.contains('.')) {
        let known = Transform::ALL.iter().copied().find(|known| known.to_string() == name);
        let (Some(transform), Some(rest)) = (known, rest.strip_suffix(')')) else {
            let message = format!("{} is no spelling of an attribute", quoted(text));
            return Err(Wrong::bad(
                text,
                message,
                "such as lower(header.x-user); also trim, credentials, decoded",
            ));
        };
        transforms.push(transform);
        inner = rest;
        if transforms.len() > MOST_TRANSFORMS {
            let message = format!("{} are more than {MOST_TRANSFORMS} spellings", quoted(text));
            return Err(Wrong::bad(text, message, "each once"));
        }
    }
    let start = text.len() - inner.len() - transforms.len();
    let moved = |wrong: Wrong| Wrong { span: start + wrong.span.start..start + wrong.span.end, ..wrong };
    let attribute = plain_part(inner).map_err(moved)?;
    if attribute == Attribute::Client && !transforms.is_empty() {
        return Err(Wrong::bad(text, "a client's address has one spelling", "client"));
    }
    let transformed = |inner, transform| Attribute::Transformed(transform, Box::new(inner));
    Ok(transforms.into_iter().rev().fold(attribute, transformed))
}

fn plain_part(text: &str) -> Result<Attribute, Wrong> {
    if text == "everyone" {
        return Err(Wrong::bad(text, "`everyone` stands alone", "key = \"everyone\""));
    }
    let Some(attribute) = attribute(text) else {
        let bare = ["header", "cookie", "query", "label", "entry"].contains(&text);
        let hint = if bare { format!("which one: {text}.NAME") } else { format!("everyone, or of {ALL}") };
        return Err(Wrong::bad(text, format!("{} is no attribute of a request", quoted(text)), hint));
    };
    named_well(text, attribute)
}

/// The attribute of a cost.
pub(in crate::file) fn cost_from(text: &str) -> Result<Attribute, Wrong> {
    let named = attribute(text).filter(|attribute| {
        use Attribute::{Cookie, Entry, Header, Label, Query};
        matches!(attribute, Label(_) | Header(_) | Query(_) | Cookie(_) | Entry(_))
    });
    let wrong = || {
        let hint = "label.NAME; or header.NAME, cookie.NAME, query.NAME, entry.NAME";
        Wrong::bad(text, format!("{} has no number", quoted(text)), hint)
    };
    named_well(text, named.ok_or_else(wrong)?)
}

/// Checks the name behind the first dot.
fn named_well(text: &str, attribute: Attribute) -> Result<Attribute, Wrong> {
    let Some((kind, rest)) = text.split_once('.') else { return Ok(attribute) };
    let start = kind.len() + 1;
    let checked = if kind == "header" { header_name(rest) } else { name(rest) };
    let moved = |wrong: Wrong| Wrong { span: start + wrong.span.start..start + wrong.span.end, ..wrong };
    checked.map(|()| attribute).map_err(moved)
}

pub(super) fn key_pattern() -> String {
    const PLAIN: &str = "method|host|path|route|domain|header\\.[!#$%&'*+.^_`|~0-9A-Za-z-]+|(cookie|query|label|entry|path)\\.[\\s\\S]{1,256}";
    let names = Transform::ALL.iter().map(Transform::to_string).collect::<Vec<_>>().join("|");
    let mut forms = vec!["client".to_owned(), PLAIN.to_owned()];
    let mut inner = PLAIN.to_owned();
    for _ in 0..MOST_TRANSFORMS {
        inner = format!("({names})\\(({inner})\\)");
        forms.push(inner.clone());
    }
    format!("^({})$", forms.join("|"))
}

pub(super) fn cost_pattern() -> &'static str {
    "^(header\\.[!#$%&'*+.^_`|~0-9A-Za-z-]+|(cookie|query|label|entry)\\.[\\s\\S]{1,256})$"
}

/// A character of a token (RFC 9110): of methods and of the names of headers.
pub(super) fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

pub(super) fn header_name(text: &str) -> Result<(), Wrong> {
    let wrong = text.is_empty() || !text.chars().all(is_token);
    let message = || format!("{} is no name of a header", quoted(text));
    if wrong { Err(Wrong::bad(text, message(), "such as x-api-key")) } else { Ok(()) }
}

pub(super) fn header_value(text: &str) -> Result<(), Wrong> {
    let is_wrong = |c: char| !matches!(c, '\t' | ' '..='~');
    let Some(at) = text.find(is_wrong) else { return Ok(()) };
    let span = at..at + text[at..].chars().next().map_or(0, char::len_utf8);
    let hint = Some("visible ASCII characters, blanks and tabs".into());
    Err(Wrong { span, code: Code::BadText, message: "a header cannot contain this".into(), hint })
}

/// The name of a cookie, label, entry or parameter.
pub(super) fn name(text: &str) -> Result<(), Wrong> {
    match text.chars().count() {
        1..=256 => Ok(()),
        length => Err(Wrong::bad(text, format!("the name has {length} characters"), "1 to 256")),
    }
}

/// A method and a target.
pub(in crate::file) fn send(text: &str) -> Result<(&str, &str), Wrong> {
    let wrong =
        || Wrong::bad(text, format!("{} is no request", quoted(text)), "such as \"POST /login?next=x\"");
    let (method, target) = text.split_once(' ').ok_or_else(wrong)?;
    let is_method = !method.is_empty() && method.chars().all(is_token);
    let is_target = ["/", "http://", "https://"].iter().any(|start| target.starts_with(start));
    if is_method && is_target && !target.contains(' ') { Ok((method, target)) } else { Err(wrong()) }
}
