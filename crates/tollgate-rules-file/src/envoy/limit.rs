//! A limit of Envoy's file.

use std::fmt;
use std::sync::Arc;

use tollgate::Quota;

use crate::file::limit_of;
use tollgate_rules::Limit;

/// A limit of a descriptor: what a `rate_limit` says, and the fields beside it.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::{EnvoyConfig, EnvoyUnit, Memory, SameDomain};
///
/// let yaml = "\
/// domain: messaging
/// descriptors:
///   - key: to_number
///     rate_limit: { unit: day, requests_per_unit: 100 }
/// ";
/// let source = Memory::new("messaging.yaml", yaml);
/// let reading = EnvoyConfig::read(&["messaging.yaml"], SameDomain::Refuse, &source);
/// let config = reading.into_rules().unwrap();
/// let limit = &config.limits()[0];
/// assert_eq!(&*limit.composite, "messaging.to_number");
/// assert_eq!((limit.requests_per_unit, limit.unit), (100, Some(EnvoyUnit::Day)));
/// assert_eq!(limit.quota(), "fixed-window:100/d,count=all".parse().ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EnvoyLimit {
    /// The position in [`EnvoyConfig::limits`](crate::EnvoyConfig::limits).
    pub index: usize,
    /// The domain.
    pub domain: Arc<str>,
    /// The domain, keys and values of its descriptors:
    /// `messaging.message_type_marketing.to_number`.
    ///
    /// Different limits may have the same, if keys or values contain `.`.
    pub composite: Box<str>,
    /// The name by which `replaces` names it. Different limits may have the same.
    pub name: Option<Box<str>>,
    /// How many hits a key has in a unit of time. 0: all are refused. Without meaning if there is
    /// no unit.
    pub requests_per_unit: u32,
    /// The unit of time; `None`: unlimited.
    pub unit: Option<EnvoyUnit>,
    /// Whether the limit is decided and counted, and refuses nothing.
    pub shadow: bool,
    /// Whether it refuses a call only if all limits of this mode that the call asks do
    /// (`quota_mode`).
    pub quota_mode: bool,
    /// The names of the limits that are not asked if a descriptor of the same call found this one.
    pub replaces: Vec<Box<str>>,
    /// The `metadata` beside it: an object for the caller's dynamic metadata.
    pub metadata: Option<serde_json::Value>,
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line of its descriptor, from 1.
    pub line: usize,
}

impl EnvoyLimit {
    /// The limit of each key: a fixed window of the unit, aligned to Unix time, that counts refused
    /// hits, too. `None` if it is unlimited, or refuses all (0 requests).
    ///
    /// # Examples
    ///
    /// See [`EnvoyLimit`].
    #[must_use]
    pub fn quota(&self) -> Option<Quota> {
        match limit_of(&self.quota_text()?) {
            Ok(Limit::Quota(quota)) => Some(quota),
            _ => None,
        }
    }

    /// The quota as text.
    pub(super) fn quota_text(&self) -> Option<String> {
        self.window().map(|window| window + ",count=all")
    }

    /// The quota of a store as text, which counts what it admits.
    pub(super) fn window(&self) -> Option<String> {
        let (requests, unit) = (self.requests_per_unit, self.unit?);
        (requests > 0).then(|| format!("fixed-window:{requests}/{}", unit.period()))
    }
}

/// The unit of time of a limit: the length of its windows. Windows are aligned to Unix time.
///
/// Its [`Display`](fmt::Display) is the word of the file.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::EnvoyUnit;
///
/// assert_eq!(EnvoyUnit::Month.to_string(), "month");
/// assert_eq!(EnvoyUnit::Month.seconds(), 2_592_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EnvoyUnit {
    /// 1 second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days. Weeks begin on Thursdays, as 1970 did.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl EnvoyUnit {
    /// All of them, the shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// As limits say it.
    const fn period(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
            Self::Day => "d",
            Self::Week => "w",
            Self::Month => "30d",
            Self::Year => "365d",
        }
    }

    /// The length in seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        const DAY: u64 = 24 * 60 * 60;
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 60 * 60,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        }
    }
}

impl fmt::Display for EnvoyUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
