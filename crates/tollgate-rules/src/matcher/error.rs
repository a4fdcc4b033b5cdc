//! Why rules cannot be compiled.

use std::fmt;

/// Why [`Matcher::new`](crate::Matcher::new) refuses rules.
///
/// Rules that `tollgate_rules_file::read` returns have none of these mistakes; rules that a program
/// built or changed may.
///
/// # Examples
///
/// ```
/// use tollgate_rules::{CompileError, Matcher, Replaces};
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\nrule = [{ name = 'a', key = 'client', limits = '1/s' }]";
/// let mut rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// rules.rules[0].replaces = Replaces::Named(vec!["b".into()]);
/// let error = CompileError::UnknownRule { rule: "a".into(), named: "b".into() };
/// assert_eq!(Matcher::new(&rules).unwrap_err(), error);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileError {
    /// Two rules have this name.
    NameTwice {
        /// The name.
        name: Box<str>,
    },
    /// A rule replaces one that there is not.
    UnknownRule {
        /// The rule.
        rule: Box<str>,
        /// The rule that it names.
        named: Box<str>,
    },
    /// Rules replace one another, so that all of them would vanish.
    Circle {
        /// One of them.
        rule: Box<str>,
    },
    /// A key of no attributes.
    EmptyKey {
        /// The rule.
        rule: Box<str>,
    },
    /// An attribute stands where it has no meaning: a condition on a route or a capture, a cost
    /// that is not from a header, cookie, parameter, label or entry.
    Attribute {
        /// The rule.
        rule: Box<str>,
        /// The attribute's name.
        attribute: Box<str>,
    },
    /// A value that the attribute of its condition never has.
    Value {
        /// The rule.
        rule: Box<str>,
        /// The attribute's name.
        attribute: Box<str>,
        /// The mistake.
        message: Box<str>,
    },
    /// The bits of an IPv6 address that make one client are not 1 to 128.
    Ipv6Prefix {
        /// The bits.
        bits: u8,
    },
    /// More rules or path patterns than there are numbers for: more than 2³².
    TooMany,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTwice { name } => write!(f, "there are two rules `{name}`"),
            Self::UnknownRule { rule, named } => write!(f, "`{rule}` replaces `{named}`, which there is not"),
            Self::Circle { rule } => write!(f, "`{rule}` and others replace one another: all would vanish"),
            Self::EmptyKey { rule } => write!(f, "the key of `{rule}` has no attributes"),
            Self::Attribute { rule, attribute } => {
                write!(f, "`{rule}` cannot use {attribute} in a condition or as a cost")
            }
            Self::Value { rule, attribute, message } => {
                write!(f, "`{rule}` has a condition on {attribute} that never holds: {message}")
            }
            Self::Ipv6Prefix { bits } => write!(f, "{bits} bits of an IPv6 address: 1 to 128"),
            Self::TooMany => f.write_str("too many rules or patterns of paths"),
        }
    }
}

impl std::error::Error for CompileError {}
