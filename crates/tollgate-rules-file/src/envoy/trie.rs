//! The descriptors of all domains, and the walk from a call's descriptor to its limit.

use std::collections::{BTreeMap, HashMap};

use super::limit::EnvoyLimit;
use crate::file::glob;

/// The number of a level: of the descriptors in a domain, or in another descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LevelId(pub(super) usize);

/// The descriptors side by side in a domain or in a descriptor, by their key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Level {
    pub(super) by_key: HashMap<Box<str>, Siblings>,
}

/// The descriptors of one key, side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Siblings {
    /// Those with a value, by its text; a value with `*`, too.
    pub(super) exact: HashMap<Box<str>, Descriptor>,
    /// The values with `*`, in the order of the file.
    pub(super) patterns: Vec<Box<str>>,
    /// The one without a value.
    pub(super) bare: Option<Descriptor>,
}

/// A descriptor of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// The number of its limit.
    pub(super) limit: Option<usize>,
    /// The descriptors in it.
    pub(super) inner: Option<LevelId>,
    /// Whether the values that the entry may have each have their own count.
    pub(super) counts_values: bool,
}

/// A domain's descriptors at each level, compiled: what the files of a directory say.
///
/// It is read by [`EnvoyConfig::read`], and asked by [`find`](EnvoyConfig::find).
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::{EnvoyConfig, Memory, SameDomain};
///
/// let yaml = "\
/// domain: messaging
/// descriptors:
///   - key: message_type
///     value: marketing
///     descriptors:
///       - key: to_number
///         rate_limit: { unit: day, requests_per_unit: 5 }
///   - key: to_number
///     rate_limit: { unit: day, requests_per_unit: 100 }
/// ";
/// let source = Memory::new("messaging.yaml", yaml);
/// let reading = EnvoyConfig::read(&["messaging.yaml"], SameDomain::Refuse, &source);
/// let config = reading.into_rules().unwrap();
///
/// let mut key = Vec::new();
/// let entries = [("message_type", "marketing"), ("to_number", "2061234567")];
/// let limit = config.find("messaging", entries, &mut key).unwrap();
/// assert_eq!(&*limit.composite, "messaging.message_type_marketing.to_number");
/// assert!(config.find("messaging", [("message_type", "marketing")], &mut key).is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvoyConfig {
    pub(super) domains: BTreeMap<Box<str>, LevelId>,
    pub(super) levels: Vec<Level>,
    pub(super) limits: Vec<EnvoyLimit>,
}

impl EnvoyConfig {
    /// All limits, in the order of the files.
    #[must_use]
    pub fn limits(&self) -> &[EnvoyLimit] {
        &self.limits
    }

    /// The names of the domains, sorted. A domain may be without limits.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|domain| &**domain)
    }

    /// Whether there is a domain of this name.
    #[must_use]
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// The limit of a descriptor of a call, and in `key` the bytes that tell its keys apart: the
    /// values that the file leaves open. Keys of different limits may be equal.
    ///
    /// `entries` are the descriptor's, in order. At each level the walk takes the file's descriptor
    /// with the entry's value; else the first one whose value's `*` fit; else the one without a
    /// value. It never comes back, even if only another one had a limit further down. There must
    /// be as many entries as levels.
    ///
    /// `None`: no limit, so that the descriptor is admitted. `key` means nothing then.
    ///
    /// # Examples
    ///
    /// See [`EnvoyConfig`].
    ///
    /// # Cost
    ///
    /// Two hash look-ups for each entry, and a comparison with each value with `*` beside it. No
    /// allocation once `key` has grown.
    pub fn find<'e>(
        &self,
        domain: &str,
        entries: impl IntoIterator<Item = (&'e str, &'e str)>,
        key: &mut Vec<u8>,
    ) -> Option<&EnvoyLimit> {
        key.clear();
        self.find_after(domain, entries, key)
    }

    /// [`find`](Self::find) which appends to `key`.
    pub(super) fn find_after<'e>(
        &self,
        domain: &str,
        entries: impl IntoIterator<Item = (&'e str, &'e str)>,
        key: &mut Vec<u8>,
    ) -> Option<&EnvoyLimit> {
        let mut level = Some(*self.domains.get(domain)?);
        let mut limit = None;
        for (name, value) in entries {
            let found = self.levels[level?.0].by_key.get(name)?.find(value)?;
            if found.counts_values {
                append(key, value);
            }
            (level, limit) = (found.inner, found.limit);
        }
        limit.map(|limit| &self.limits[limit])
    }
}

impl Siblings {
    /// The descriptor that an entry with this value means. There is one at most: the walk never
    /// comes back for another.
    fn find(&self, value: &str) -> Option<&Descriptor> {
        if let Some(found) = self.exact.get(value) {
            return Some(found);
        }
        let pattern = self.patterns.iter().find(|pattern| glob(pattern, value));
        pattern.map_or(self.bare.as_ref(), |pattern| self.exact.get(pattern))
    }
}

/// Appends a text of a key, its length first, so that two texts never read as two others.
pub(super) fn append(key: &mut Vec<u8>, text: &str) {
    key.extend_from_slice(&(text.len() as u64).to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}
