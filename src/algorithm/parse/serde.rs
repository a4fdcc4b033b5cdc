//! Quotas and rates in files: as text, in every format.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::algorithm::{FirstHit, FixedWindow, LeakyBucket, Quota, SlidingLog, SlidingWindow, TokenBucket};
use crate::rate::Rate;

/// Reads a text; an error names an example of one.
struct Text<T> {
    example: &'static str,
    parse: fn(&str) -> Result<T, crate::ParseQuotaError>,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text such as \"{}\"", self.example)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

macro_rules! as_text {
    ($($type:ident: $example:literal),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(Text { example: $example, parse: Self::from_str })
            }
        }
    )*};
}
as_text!(Quota: "token-bucket:60/min,burst=20", Rate: "60/min");

macro_rules! as_quota {
    ($($algorithm:ident),*) => {$(
        impl Serialize for $algorithm {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                Quota::from(*self).serialize(to)
            }
        }

        impl<'de> Deserialize<'de> for $algorithm {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let is_another = |quota| {
                    let kind = stringify!($algorithm);
                    D::Error::custom(format_args!("`{quota}` is another algorithm than the {kind} here"))
                };
                Self::try_from(Quota::deserialize(from)?).map_err(is_another)
            }
        }
    )*};
}
as_quota!(TokenBucket, LeakyBucket, FixedWindow, SlidingWindow, SlidingLog, FirstHit);
