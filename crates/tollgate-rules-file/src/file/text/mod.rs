//! What the texts of a rules file may be: names, limits, lengths of time, conditions' values.
//!
//! | file | which |
//! |------|-------|
//! | `limit` | limits and lengths of time |
//! | `value` | values of conditions: methods, hosts, paths, networks |
//! | `store` | addresses of stores |
//! | `name`, `wrong` | names; the fault of a text |
//! | `attribute` | attributes, and the names of headers and labels |

pub(super) mod attribute;
pub(super) mod limit;
mod name;
pub(super) mod store;
pub(super) mod value;
mod wrong;

use super::problem::Code;
pub(crate) use name::LONGEST_VALUE;
use name::longest;
pub(super) use name::name;
pub(crate) use wrong::{Wrong, quoted};

/// A kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Text {
    /// Any, of at most so many bytes.
    Any {
        most: usize,
    },
    /// A rule's, tier's or list's name.
    Name,
    /// The name of a rule, or `*`.
    NameOrAll,
    /// The limit of a rule or tier.
    Limits,
    /// One of several limits.
    Limit,
    /// A length of time.
    Time,
    /// Of a condition.
    Method,
    Host,
    Path,
    Client,
    Value,
    /// An address or a network.
    Network,
    Address,
    /// An attribute of a key, or `everyone`.
    Key,
    /// One of several attributes of a key.
    KeyPart,
    /// The attribute of a cost.
    CostFrom,
    HeaderName,
    HeaderValue,
    /// What a browser calls the origin of a page; or `*`.
    Origin,
    /// A cookie, label, entry or parameter.
    AttributeName,
    /// A method and a target.
    Send,
    /// The path of a file.
    File,
    /// Paths of files, with `*` in the last part.
    Files,
    /// An environment variable.
    Variable,
    /// A list's entry.
    Entry,
    /// A store by its name, or its address.
    Store,
    /// A store's address.
    StoreUrl,
    /// What the names of a store's keys begin with.
    Prefix,
}

impl Text {
    /// Whether `text` is one.
    pub(super) fn check(self, text: &str) -> Result<(), Wrong> {
        match self {
            Self::Any { most } => longest(text, most),
            Self::Name => name(text),
            Self::NameOrAll if text == "*" => Ok(()),
            Self::NameOrAll => name(text),
            Self::Limits => limit::limits(text).map(drop),
            Self::Limit => limit::limit(text).map(drop),
            Self::Time => limit::time(text).map(drop),
            Self::Method | Self::Host | Self::Path | Self::Client | Self::Value => {
                value::or_list(text, |text| value::check(self, text))
            }
            Self::Network => value::network(text).map(drop),
            Self::Address => value::address(text).map(drop),
            Self::Key if text == "everyone" => Ok(()),
            Self::Key | Self::KeyPart => attribute::key_part(text).map(drop),
            Self::CostFrom => attribute::cost_from(text).map(drop),
            Self::HeaderName => attribute::header_name(text),
            Self::HeaderValue => attribute::header_value(text),
            Self::Origin => origin(text),
            Self::AttributeName => attribute::name(text),
            Self::Send => attribute::send(text).map(drop),
            Self::File => {
                if text.is_empty() {
                    Err(Wrong::bad(text, "the path is empty", "a path"))
                } else {
                    Ok(())
                }
            }
            Self::Files => files(text),
            Self::Variable => variable(text),
            Self::Entry => longest(text, LONGEST_VALUE),
            Self::Store => store::or_name(text),
            Self::StoreUrl => store::address(text).map(drop),
            Self::Prefix => store::prefix(text),
        }
    }

    /// The regular expression of the JSON Schema, as far as there is a short one.
    pub(super) fn pattern(self) -> Option<String> {
        let list = "^@[A-Za-z0-9_.:/-]{1,64}$";
        let digest = "^sha256:[0-9A-Fa-f]{64}$";
        Some(match self {
            Self::Any { .. } | Self::Network | Self::Address | Self::Entry => return None,
            Self::Store => "^[A-Za-z0-9_.:/-]{1,64}$|://".into(),
            Self::StoreUrl => "://".into(),
            Self::Prefix => "^[A-Za-z0-9_.-]{1,64}$".into(),
            Self::Name => "^[A-Za-z0-9_.:/-]{1,64}$".into(),
            Self::NameOrAll => "^([A-Za-z0-9_.:/-]{1,64}|\\*)$".into(),
            Self::Limits => format!("^\\s*(unlimited|block|{})\\s*$", limit::pattern()),
            Self::Limit => format!("^\\s*({})\\s*$", limit::pattern()),
            Self::Time => format!("^{}$", limit::time_pattern()),
            Self::Method => format!("{list}|^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
            Self::Host => format!("{list}|{digest}|^\\[[^\\]]*\\]$|^(?!sha256:)[^@:/][^:/]*$"),
            Self::Path => {
                format!(
                    "{list}|^\\*$|^(?=/)(/([^/*{{}}?#]*|\\*|\\{{[A-Za-z_][A-Za-z0-9_-]*\\}}))*(/|/\\*\\*)?$"
                )
            }
            Self::Client => format!("{list}|^[^@]|^$"),
            Self::Value => format!("{list}|{digest}|^(?!sha256:)[^@]|^$"),
            Self::Key => format!("^everyone$|{}", attribute::key_pattern()),
            Self::KeyPart => attribute::key_pattern(),
            Self::CostFrom => attribute::cost_pattern().into(),
            Self::HeaderName => "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$".into(),
            Self::HeaderValue => "^[\\t\\x20-\\x7e]*$".into(),
            Self::Origin => "^(\\*|[a-z][a-z0-9+.-]*://[a-z0-9.:\\[\\]-]+)$".into(),
            Self::AttributeName | Self::File => "^[\\s\\S]".into(),
            Self::Send => "^[!#$%&'*+.^_`|~0-9A-Za-z-]+ (/|https?://)[^ ]*$".into(),
            Self::Files => "^([^*]*/)?[^/]+$".into(),
            Self::Variable => "^[A-Za-z_][A-Za-z0-9_]*$".into(),
        })
    }

    /// The most characters, for the JSON Schema.
    pub(super) fn longest(self) -> Option<usize> {
        match self {
            Self::Any { most } => Some(most),
            Self::AttributeName => Some(256),
            Self::Method | Self::Host | Self::Path | Self::Client | Self::Value | Self::Entry => {
                Some(LONGEST_VALUE)
            }
            _ => None,
        }
    }
}

fn files(text: &str) -> Result<(), Wrong> {
    let (directory, name) = text.rsplit_once('/').unwrap_or(("", text));
    let hint = "a path with `*` in its last part only, such as \"rules.d/*.toml\"";
    if let Some(at) = directory.find('*') {
        let message = "`*` stands in a directory's name".into();
        return Err(Wrong { span: at..at + 1, code: Code::BadText, message, hint: Some(hint.into()) });
    }
    if name.is_empty() { Err(Wrong::bad(text, "the path names no file", hint)) } else { Ok(()) }
}

/// Browsers write it in lower case, without a path, and without the port of its scheme.
fn origin(text: &str) -> Result<(), Wrong> {
    let is_host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".:-[]".contains(&byte);
    let usual = [("http://", ":80"), ("https://", ":443")];
    let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+.-".contains(&byte));
        is_scheme && !host.is_empty() && host.bytes().all(is_host)
    });
    let names_its_port = usual.iter().any(|(scheme, port)| text.starts_with(scheme) && text.ends_with(port));
    if text == "*" || (is_origin && !names_its_port) {
        return Ok(());
    }
    let message = format!("{} is no origin as browsers write it", quoted(text));
    Err(Wrong::bad(text, message, "such as https://shop.example or http://localhost:3000, or * for any"))
}

fn variable(text: &str) -> Result<(), Wrong> {
    let is_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if is_start && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    Err(Wrong::bad(text, format!("{} is no environment variable", quoted(text)), "such as OFFICE_NETWORKS"))
}

impl Text {
    /// What a hint and the documentation call it.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Any { .. } | Self::Value | Self::Entry => "text",
            Self::Name => "name",
            Self::NameOrAll => "rule's name",
            Self::Limits | Self::Limit => "limit, such as \"10/s,burst=20\"",
            Self::Time => "length of time, such as \"10min\"",
            Self::Method => "method",
            Self::Host => "host",
            Self::Path => "path",
            Self::Client | Self::Network => "network, such as \"192.0.2.0/24\"",
            Self::Address => "address, such as \"192.0.2.7\"",
            Self::Key => "text: \"everyone\" or an attribute",
            Self::KeyPart | Self::CostFrom => "text: an attribute",
            Self::HeaderName => "header's name",
            Self::HeaderValue => "header's value",
            Self::Origin => "page's origin, such as \"https://shop.example\", or \"*\"",
            Self::AttributeName => "name",
            Self::Send => "text, such as \"POST /login\"",
            Self::File | Self::Files => "path",
            Self::Variable => "name of an environment variable",
            Self::Store => "store's name or address, such as \"redis://10.0.0.7\"",
            Self::StoreUrl => "store's address, such as \"redis://10.0.0.7\"",
            Self::Prefix => "prefix",
        }
    }
}
