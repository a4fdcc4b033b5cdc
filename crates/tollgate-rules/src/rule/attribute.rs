//! What a rule can see of a request.

use std::fmt;

/// An attribute of a request: part of a condition, of a key, or the source of a cost.
///
/// Its [`Display`](fmt::Display) is the name in the file: `header.x-api-key`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// The method, in upper case.
    Method,
    /// The host: lower case, without port and trailing dot.
    Host,
    /// The path, without the query.
    Path,
    /// The pattern of the rule that the path matched.
    Route,
    /// The client's address.
    Client,
    /// A header, by its name in lower case.
    Header(Box<str>),
    /// A cookie.
    Cookie(Box<str>),
    /// A parameter of the query.
    Query(Box<str>),
    /// What a trusted caller says of the request: its user, plan, country, tokens. No client can
    /// set a label.
    Label(Box<str>),
    /// The domain of a call by Envoy.
    Domain,
    /// An entry of a descriptor of a call by Envoy.
    Entry(Box<str>),
    /// The part of the path that a pattern's `{name}` matched.
    Capture(Box<str>),
    /// Another attribute in one spelling of those that mean the same to the application. In keys
    /// only, and not of the client.
    Transformed(Transform, Box<Self>),
}

/// What makes one spelling of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Transform {
    /// In lower case, of ASCII letters.
    Lower,
    /// Without blanks at both ends.
    Trim,
    /// With one blank behind the scheme, whose case means nothing: as `Authorization` always is.
    Credentials,
    /// With its escapes decoded: `%61` as `a`.
    Decoded,
}

impl Transform {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Lower, Self::Trim, Self::Credentials, Self::Decoded];
}

impl Attribute {
    /// Returns the attribute without its transforms.
    #[must_use]
    pub fn plain(&self) -> &Self {
        let mut plain = self;
        while let Self::Transformed(_, inner) = plain {
            plain = inner;
        }
        plain
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lower => "lower",
            Self::Trim => "trim",
            Self::Credentials => "credentials",
            Self::Decoded => "decoded",
        })
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Path => f.write_str("path"),
            Self::Route => f.write_str("route"),
            Self::Client => f.write_str("client"),
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Cookie(name) => write!(f, "cookie.{name}"),
            Self::Query(name) => write!(f, "query.{name}"),
            Self::Label(name) => write!(f, "label.{name}"),
            Self::Domain => f.write_str("domain"),
            Self::Entry(name) => write!(f, "entry.{name}"),
            Self::Capture(name) => write!(f, "path.{name}"),
            Self::Transformed(transform, inner) => write!(f, "{transform}({inner})"),
        }
    }
}
