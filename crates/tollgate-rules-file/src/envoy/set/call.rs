//! What a call asks, and why it cannot be decided.

use std::fmt;

use crate::envoy::limit::EnvoyUnit;

/// A descriptor of a call: the part of Envoy's `RateLimitDescriptor` that decides.
///
/// Slices of pairs are descriptors with entries only.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::{EnvoyDescriptor, EnvoyUnit};
///
/// struct Proto {
///     entries: Vec<(String, String)>,
///     hits_addend: Option<u64>,
///     limit: Option<(u32, i32)>,
/// }
///
/// impl EnvoyDescriptor for Proto {
///     fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
///         self.entries.iter().map(|(key, value)| (&**key, &**value))
///     }
///
///     fn hits_addend(&self) -> Option<u64> {
///         self.hits_addend
///     }
///
///     fn limit(&self) -> Option<(u32, Option<EnvoyUnit>)> {
///         let unit = |number| match number {
///             1 => Some(EnvoyUnit::Second),
///             2 => Some(EnvoyUnit::Minute),
///             _ => None, // and so on
///         };
///         self.limit.map(|(requests, number)| (requests, unit(number)))
///     }
/// }
/// ```
pub trait EnvoyDescriptor {
    /// The keys and values, in order.
    fn entries(&self) -> impl Iterator<Item = (&str, &str)>;

    /// The hits of this descriptor, if it has its own. 0: it only looks.
    fn hits_addend(&self) -> Option<u64> {
        None
    }

    /// A limit that is asked instead of the configuration's: requests in a unit. A unit that there
    /// is not is [an error](EnvoyCallError::UnknownUnit).
    fn limit(&self) -> Option<(u32, Option<EnvoyUnit>)> {
        None
    }
}

impl<K: AsRef<str>, V: AsRef<str>> EnvoyDescriptor for &[(K, V)] {
    fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }
}

/// Why a call cannot be decided. Nothing is counted then.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::EnvoyCallError;
///
/// assert_eq!(EnvoyCallError::NoDomain.to_string(), "rate limit domain must not be empty");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvoyCallError {
    /// Its domain is empty.
    NoDomain,
    /// It has no descriptors.
    NoDescriptors,
    /// A descriptor's own limit has no unit, or one that there is not.
    UnknownUnit {
        /// The descriptor's position in the call.
        descriptor: usize,
    },
}

impl fmt::Display for EnvoyCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDomain => f.write_str("rate limit domain must not be empty"),
            Self::NoDescriptors => f.write_str("rate limit descriptor list must not be empty"),
            Self::UnknownUnit { descriptor } => {
                write!(f, "the limit of descriptor {descriptor} has an unknown unit")
            }
        }
    }
}

impl std::error::Error for EnvoyCallError {}
