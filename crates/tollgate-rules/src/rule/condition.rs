//! Which requests a rule concerns.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::rule::Attribute;

/// Conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions(pub Vec<Condition>);

/// A condition on one attribute. It does not hold of a request without the attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The attribute.
    pub attribute: Attribute,
    /// The values of which it must have one.
    pub values: Values,
}

/// Values of an attribute, as the file and its lists write them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Whether any value does (`"*"`).
    pub any: bool,
    /// Texts, each of which may contain `*` for any characters; of a path, patterns.
    pub texts: BTreeSet<Box<str>>,
    /// SHA-256 digests of texts that the file does not tell (`sha256:…`).
    pub digests: BTreeSet<[u8; 32]>,
    /// The networks of clients. An address is a network of one.
    pub networks: Vec<IpNet>,
}
